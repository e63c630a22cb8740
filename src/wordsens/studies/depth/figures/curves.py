"""What the figures of depth share: a panel per entry, named by its parts, and curves with bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from wordsens.figures import designs, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "map", "d", "n", "depth", "temperature"]
NEEDED = (*POINT, "trial", "sup", "bound")
SYMBOLS = {"n": "n", "depth": "L", "temperature": r"\tau"}


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) of every point."""
    grouped = table.groupby(POINT, sort=True, as_index=False)
    return grouped.agg(
        mean=("sup", "mean"),
        std=("sup", "std"),
        trials=("sup", "count"),
        bound_mean=("bound", "mean"),
    )


def panels(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, list[Any]]:
    """A panel per entry on one scale of y, with its title and its numbers."""
    drawn, axes = style.panels(1, len(tables))
    parts = [(panel, summarise(x)) for panel, x in zip(axes[0], tables.values(), strict=True)]
    for panel, table in zip(axes[0], tables.values(), strict=True):
        panel.set_title(designs.made_of(table))
    low = min(
        (numbers["mean"] - numbers["std"].fillna(0)).clip(lower=numbers["mean"] / 2).min()
        for _, numbers in parts
    )
    high = max((numbers["mean"] + numbers["std"].fillna(0)).max() for _, numbers in parts)
    axes[0, 0].set_ylabel(r"word sensitivity $\mathcal{S}$ (ratio)")
    for panel, _ in parts:
        style.logarithmic(panel, "y")
        panel.set_ylim(low / 1.15, 1.15 * high)
    return drawn, parts


def curves(panel: Axes, numbers: pd.DataFrame, along: str, series: str) -> None:
    """A curve per value of ``series`` against ``along``; a norm at the end is drawn as a bound."""
    style.logarithmic(panel, "x", numbers[along])
    groups = list(numbers.groupby(series, sort=True))
    handles = []
    for look, (value, points) in zip(style.looks(len(groups)), groups, strict=True):
        label = rf"${SYMBOLS[series]} = {value:g}$"
        handles += style.mean_and_band(
            panel, points[along], points["mean"], points["std"], **look, label=label
        )
    panel.axhline(1, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
    # for one layer of attention without a norm the bound is another one, which no line can show
    ends = numbers.groupby(along)["bound_mean"].max()
    if ends.notna().all() and ends.max() < 2.2:
        panel.plot(ends.index, ends, zorder=1.5, **style.DASHED)
        handles.append(style.entry("upper bound", **style.DASHED))
    style.legend_below(panel, handles)
