"""Discrete words beside continuous changes, against context length, a panel per study.

Log–log: the supremum over the ball at one position, the most that any word does there and anywhere
in the text, and the same for words inside the ball.  1/√n is what one changed row of n amounts to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "map", "vectors", "d", "n"]
MEASURES = ("continuous", "first", "first_in_ball", "sup", "sup_in_ball")
NEEDED = (*POINT, *MEASURES)
# A quantity's colour says continuous, any word or a near word; the line whether over all positions.
LOOKS: dict[str, dict[str, Any]] = {
    "continuous": {"color": style.COLOURS[0], "marker": "o"},
    "first": {"color": style.COLOURS[1], "marker": "s"},
    "first_in_ball": {"color": style.COLOURS[2], "marker": "^"},
}
NAMES = {
    "continuous": r"any $\Delta$ in the ball",
    "first": "any word",
    "first_in_ball": "words in the ball",
}
EVERYWHERE = {"first": "sup", "first_in_ball": "sup_in_ball"}
DOTTED: dict[str, Any] = {"ls": (0, (1, 1.2))}


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """One panel per study; returns the figure and the numbers drawn in it."""
    return style.panel_each(tables.values(), summarise, _panel)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) of every measure.

    A trial without any word inside the ball counts as no change there.
    """
    inside = [name for name in MEASURES if name.endswith("in_ball")]
    filled = table.assign(**{name: table[name].fillna(0) for name in inside})
    asked = {f"{name}_mean": (name, "mean") for name in MEASURES}
    asked |= {f"{name}_std": (name, "std") for name in MEASURES}
    grouped = filled.groupby(POINT, sort=True, as_index=False)
    return grouped.agg(trials=("continuous", "count"), **asked)


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    name, vectors = str(numbers["map"].iloc[0]), str(numbers["vectors"].iloc[0])
    lengths = sorted(numbers["n"].unique())
    style.logarithmic(axes, "x", lengths)
    style.logarithmic(axes, "y")
    for number, (_, points) in enumerate(numbers.groupby("d", sort=True)):
        width = 1.5 / (1 + number)
        for measure, look in LOOKS.items():
            # Where every word lies in the ball, the one line must not hide the other.
            below = measure == "first" and _same(points, measure, "first_in_ball")
            thick = {"lw": 2.6 * width, "ms": 8} if below else {"lw": width}
            shown = points[points[f"{measure}_mean"] > 0]  # a logarithmic axis has no 0
            mean, std = shown[f"{measure}_mean"], shown[f"{measure}_std"]
            style.mean_and_band(axes, shown["n"], mean, std, **look, **thick)
            everywhere = EVERYWHERE.get(measure)
            if everywhere and not _same(points, everywhere, measure):
                hollow = {"markerfacecolor": "white", "markeredgecolor": look["color"]}
                shown = points[points[f"{everywhere}_mean"] > 0]
                mean = shown[f"{everywhere}_mean"]
                axes.plot(shown["n"], mean, zorder=3, **(look | DOTTED | hollow))
    ends = np.array([lengths[0], lengths[-1]])
    axes.plot(ends, ends**-0.5, color=style.NEUTRAL, lw=1.1, ls=(0, (4, 3)), zorder=1)
    axes.axhline(1, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)

    kind = "static" if vectors == "static" else "layer-0"
    axes.set_title(f"{style.title(name)}, {kind} words")
    axes.set_xlabel(style.CONTEXT_LENGTH)
    axes.set_ylabel(style.sensitivity(name))
    style.legend_below(axes, _handles(numbers))


def _same(numbers: pd.DataFrame, one: str, other: str) -> bool:
    return bool(np.allclose(numbers[f"{one}_mean"], numbers[f"{other}_mean"]))


def _handles(numbers: pd.DataFrame) -> list[Artist]:
    handles: list[Artist] = []
    for measure, look in LOOKS.items():
        if numbers[f"{measure}_mean"].notna().any():
            handles.append(style.entry(NAMES[measure], **look))
    if not (_same(numbers, "sup", "first") and _same(numbers, "sup_in_ball", "first_in_ball")):
        handles.append(style.entry("largest over $i$", color=style.NEUTRAL, **DOTTED))
    handles.append(style.entry(r"$1/\sqrt{n}$", color=style.NEUTRAL, lw=1.1, ls=(0, (4, 3))))
    return handles
