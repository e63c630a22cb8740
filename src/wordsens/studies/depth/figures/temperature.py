"""Word sensitivity against the temperature of attention, with its maximum.

Log–log, a panel per map; one colour per context length, mean over trials with a band of one
standard deviation.  A cold layer looks at single words, a warm one at the mean of all; between the
two a ring marks the temperature of the largest mean.  The dotted line is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.figures import style
from wordsens.studies.depth.figures.curves import NEEDED, curves, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NEEDED", "figure", "remark"]


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per entry; returns the figure and the numbers drawn in it."""
    drawn, parts = panels(tables)
    for panel, numbers in parts:
        curves(panel, numbers, "temperature", "n")
        for _, points in numbers.groupby("n"):
            top = points.loc[points["mean"].idxmax()]
            ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": "black", "mew": 1}
            panel.plot([top["temperature"]], [top["mean"]], ls="none", zorder=4, **ring)
        panel.axvline(1, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
        panel.set_xlabel(r"temperature $\tau$")
    return drawn, pd.concat([numbers for _, numbers in parts], ignore_index=True)


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    """Where the largest means lie."""
    said = []
    for name, table in tables.items():
        means = table.groupby(["n", "temperature"], as_index=False)["sup"].mean()
        for n, points in means.groupby("n"):
            top = points.loc[points["sup"].idxmax()]
            said.append(f"{name}, n = {n}: {top['sup']:.3g} at τ = {top['temperature']:g}")
    return f"Largest means: {'; '.join(said)}."
