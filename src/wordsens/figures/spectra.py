"""Sensitivity spectra over average sensitivities, as in Figures 3 to 7 of the Boolean paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 40  # of average sensitivities, from 0 to N
MODELS = [digit * 10**power for power in range(5) for digit in (1, 2, 5)]  # ticks
LOWEST = 1e-6  # no share is drawn below it


@dataclass(frozen=True)
class Spectrum:
    """One column: models in groups, each with a name and a look, and what they are held against.

    ``profile`` (N + 1,) are the shares of a function known in closed form, ``average`` its average.
    """

    title: str
    groups: Sequence[tuple[str, pd.DataFrame, str]]
    N: int
    profile: np.ndarray
    average: float
    against: str


def draw_spectra(columns: Sequence[Spectrum]) -> tuple[Figure, pd.DataFrame]:
    """Shares of strings on a log scale above, numbers of models below, on one axis of bits."""
    drawn, axes = style.panels(2, len(columns))
    numbers = [_column(axes[0, i], axes[1, i], column) for i, column in enumerate(columns)]
    lowest = min(panel.get_ylim()[0] for panel in axes[0])
    highest = max(panel.get_ylim()[1] for panel in axes[1])
    for above, below in axes.T:
        above.set_ylim(max(LOWEST, lowest), 1.6)
        style.logarithmic(below, "y", [n for n in MODELS if n <= highest])
        below.set_ylim(0.7, 1.3 * highest)
    return drawn, pd.concat(numbers, ignore_index=True)


def _column(above: Axes, below: Axes, column: Spectrum) -> pd.DataFrame:
    N, parts, handles = column.N, [], []
    width = 0.86 / len(column.groups)
    for i, (name, rows, colour) in enumerate(column.groups):
        models = rows.drop_duplicates("trial")
        label = f"{name} ({len(models)})" if name else f"{len(models)} models"
        shares = pooled(rows)
        left = (i - (len(column.groups) - 1) / 2) * width
        shown = shares[shares > 0]
        bars: dict[str, Any] = {"color": colour, "lw": 0, "zorder": 2}
        above.bar(shown.index + left, shown, width=width, **bars)
        heights, edges = np.histogram(models["average"].dropna(), BINS, (0, N))
        step = edges[1]
        middles = edges[:-1] + step / 2 + left * step
        below.bar(middles, heights, width=width * step, **bars)
        handles.append(style.entry(label, color=colour, lw=5))
        frame = {"sensitivity": shares.index, "share": shares.to_numpy()}
        parts.append(pd.DataFrame({"panel": column.title, "group": name, "N": N} | frame))
        frame = {"average_from": edges[:-1], "models": heights}
        parts.append(pd.DataFrame({"panel": column.title, "group": name, "N": N} | frame))
    seen = np.flatnonzero(column.profile > LOWEST)
    dots: dict[str, Any] = {"color": "black", "marker": "o", "ls": "", "ms": 3.6, "mfc": "white"}
    above.plot(seen, column.profile[seen], zorder=3, **dots)
    below.axvline(column.average, **style.DASHED)
    handles.append(style.entry(column.against, **dots))
    above.set_yscale("log")
    for panel in (above, below):
        panel.set_xlim(-0.03 * N - 0.6, 1.03 * N + 0.6)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    above.set_title(column.title)
    above.set_xlabel(r"sensitivity $s_N(x)$ (bits)")
    above.set_ylabel("share of strings")
    below.set_xlabel(r"average sensitivity $\mathrm{as}_N(f)$ (bits)")
    below.set_ylabel("models")
    style.legend_below(below, handles)
    return pd.concat(parts, ignore_index=True)


def pooled(rows: pd.DataFrame) -> pd.Series:
    """The share of strings at every sensitivity that occurs, in the mean over models."""
    rows = rows[rows["sensitivity"] >= 0]
    share = rows["count"] / rows["strings"]
    models = rows["trial"].nunique()
    return share.groupby(rows["sensitivity"]).sum() / max(models, 1)
