"""Sensitivity profiles, drawn for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def profile(found: Any, axes: Axes | None) -> Axes:
    """The profile as bars on a log scale, with 95% intervals where it is sampled."""
    with style.context():
        if axes is None:
            _, grid = style.panels(1, 1)
            axes = grid[0, 0]
        shown = np.flatnonzero(found.shares)
        low, high = found.intervals()
        shares = found.shares[shown]
        axes.bar(shown, shares, width=0.9, color=style.COLOURS[0])
        if not found.exact:
            errors = np.stack([shares - low[shown], high[shown] - shares])
            axes.errorbar(shown, shares, errors, fmt="none", color=style.NEUTRAL, lw=0.9)
        axes.set_yscale("log")
        axes.set_xlim(-0.9, found.N + 0.9)
        axes.set_xlabel(r"sensitivity $s_N(x)$ (bits)")
        axes.set_ylabel("share of strings")
        axes.set_title(f"{found.name}, $N = {found.N}$")
    return axes
