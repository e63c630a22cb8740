"""The supremum over positions: how much more than the first position it finds, and the spread.

Left, the largest value over all positions i against n, beside the value at the first position;
right, the distribution over i, pooled over trials, at the largest d.  One row per sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.patches import Patch

from wordsens.errors import UserError
from wordsens.figures import style
from wordsens.figures.summary import POINT, summarise, varying

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTTED: dict[str, Any] = {"ls": (0, (1, 1.2))}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Two panels per sweep; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(len(tables), 2)
    parts = []
    for row, (sweep, table) in zip(axes, tables.items(), strict=True):
        if "sup_at_position" not in table.columns:
            raise UserError(
                f"figure of positions: sweep {sweep!r} visits one position; "
                "set its 'positions' to all, random:m or a list"
            )
        numbers = _numbers(table)
        _against_length(row[0], numbers)
        _over_positions(row[1], table, numbers)
        parts.append(numbers)
    return drawn, pd.concat(parts, ignore_index=True)


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Each point's supremum over i, its value at position 0, and quantiles over i and trials."""
    numbers = summarise(table)
    first = table[table["position"] == 0].groupby(POINT, as_index=False)
    first = first.agg(first_mean=("sup_at_position", "mean"), first_std=("sup_at_position", "std"))
    spread = table.groupby(POINT)["sup_at_position"].quantile(list(QUANTILES)).unstack()
    spread.columns = pd.Index([f"q{round(100 * q):02d}" for q in QUANTILES])
    return numbers.merge(first, on=POINT, how="left").merge(spread.reset_index(), on=POINT)


def _against_length(axes: Axes, numbers: pd.DataFrame) -> None:
    name = str(numbers["map"].iloc[0])
    columns = varying(numbers, style.declaration(name).series(), ["depth", "d", "words"])
    series = list(numbers.groupby(columns, sort=True))
    handles: list[Artist] = []
    for look, (key, points) in zip(style.looks(len(series)), series, strict=True):
        colour = look["color"]
        bounded = points[points["bound_mean"].notna()]
        style.bracket(axes, bounded["n"], bounded["mean"], bounded["bound_mean"], colour)
        handles += style.mean_and_band(
            axes,
            points["n"],
            points["mean"],
            points["std"],
            **look,
            label=style.label(key, columns),
        )
        hollow = {"markerfacecolor": "white", "markeredgecolor": colour}
        style.mean_and_band(
            axes,
            points["n"],
            points["first_mean"],
            points["first_std"],
            **(look | DOTTED | hollow),
        )
    handles.append(style.entry("largest over $i$", color=style.NEUTRAL))
    if numbers["first_mean"].notna().any():
        handles.append(style.entry("first position", color=style.NEUTRAL, **DOTTED))
    if numbers["bound_mean"].notna().any():
        handles.append(style.entry("upper bound", **style.DASHED))
    _finish(axes, name, style.title(name))
    if numbers["n"].max() > 1000:
        style.logarithmic(axes, "x", numbers["n"])
    else:
        axes.set_xlim(left=0)
    style.legend_below(axes, handles)


def _over_positions(axes: Axes, table: pd.DataFrame, numbers: pd.DataFrame) -> None:
    name, largest = str(table["map"].iloc[0]), int(table["d"].max())
    part = table[table["d"] == largest]
    colour = style.looks(numbers["d"].nunique())[-1]["color"]
    sns.violinplot(
        part,
        x="n",
        y="sup_at_position",
        ax=axes,
        color=colour,
        inner=None,
        cut=0,
        density_norm="width",
        linewidth=0,
        alpha=0.35,
        width=0.85,
    )
    points = numbers[numbers["d"] == largest].drop_duplicates("n").sort_values("n")
    at = range(len(points))
    axes.vlines(at, points["q25"], points["q75"], color=colour, lw=2.5, zorder=3)
    axes.plot(at, points["q50"], ls="", marker="o", color="white", ms=3, zorder=4)
    axes.plot(at, points["mean"], ls="", marker="_", color="black", ms=13, mew=1.3, zorder=4)
    handles = [
        Patch(color=colour, alpha=0.35, lw=0, label="all $i$ and trials"),
        style.entry("middle half", color=colour, lw=2.5),
        style.entry("mean of largest", ls="", marker="_", color="black", ms=10, mew=1.3),
    ]
    _finish(axes, name, rf"Distribution over positions $i$, $d = {largest}$")
    style.legend_below(axes, handles)


def _finish(axes: Axes, name: str, title: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel(style.CONTEXT_LENGTH)
    axes.set_ylabel(style.sensitivity(name))
