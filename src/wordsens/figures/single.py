"""Curves of a single point, which a line does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 14.0  # of the dash that stands for a curve, in points


def show_single_points(figure: Figure) -> None:
    """A curve whose points all coincide becomes a dash of its colour, where it has no marker."""
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_marker() not in ("None", None, "", " ") or line.get_linestyle() == "None":
                continue
            points = np.unique(np.asarray(line.get_xydata(), dtype=float), axis=0)
            points = points[np.isfinite(points).all(1)]
            if len(points) == 1:
                line.set_marker("_")
                line.set_markersize(WIDTH)
                line.set_markeredgewidth(max(1.2, line.get_linewidth()))
                line.set_markeredgecolor(line.get_color())
