"""Word sensitivity of an encoder's layers against context length, trained beside random weights.

Log–log, a row per study and a panel per kind of weights with one scale of y; one colour per layer,
mean over trials with a band of one standard deviation.  Layer 0, the moved embedding itself, is the
dashed line that the layers start from, and 1/√n the dotted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "encoder", "dataset", "weights", "layer", "n"]
NEEDED = (*POINT, "trial", "sup")
TITLES = {"pretrained": "pretrained weights", "random": "random weights"}
MOST = 6  # layers with a colour of their own; of more, evenly spaced ones are shown


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study and kind of weights; returns the figure and the numbers drawn in it."""
    parts = [summarise(table) for table in tables.values()]
    columns = max(part["weights"].nunique() for part in parts)
    drawn, axes = style.panels(len(parts), columns)
    for row, numbers in zip(axes, parts, strict=True):
        kinds = [kind for kind in TITLES if kind in set(numbers["weights"])]
        top, low = numbers["mean"].max(), numbers["mean"].min()
        for panel, kind in zip(row, kinds, strict=False):
            _panel(panel, numbers[numbers["weights"] == kind])
            panel.set_ylim(0.7 * low, 1.4 * top)
            panel.set_title(style.headed(numbers["encoder"].iloc[0], TITLES[kind]))
            panel.set_ylabel(r"word sensitivity $\mathcal{S}_{H_l}$ (ratio)")
        for panel in row[len(kinds) :]:
            panel.set_axis_off()
    return drawn, pd.concat(parts, ignore_index=True)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) of every layer."""
    table = table.drop_duplicates([*POINT, "trial"])  # of several positions the largest counts
    grouped = table.groupby(POINT, sort=True, as_index=False)
    return grouped.agg(mean=("sup", "mean"), std=("sup", "std"), trials=("sup", "count"))


def shown_layers(layers: pd.Series) -> list[int]:
    """The layers that are drawn, without layer 0: of many, evenly spaced ones."""
    found = [int(layer) for layer in sorted(layers.unique()) if layer]
    if len(found) > MOST:
        chosen = np.linspace(0, len(found) - 1, MOST).round().astype(int)
        found = [found[i] for i in sorted(set(chosen.tolist()))]
    return found


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    lengths = sorted(numbers["n"].unique())
    style.logarithmic(axes, "x", lengths)
    style.logarithmic(axes, "y")
    layers = shown_layers(numbers["layer"])
    handles = []
    for look, layer in zip(style.looks(len(layers)), layers, strict=True):
        points = numbers[numbers["layer"] == layer]
        handles += style.mean_and_band(
            axes, points["n"], points["mean"], points["std"], **look, label=rf"$l = {layer}$"
        )
    moved = numbers[numbers["layer"] == 0]
    if len(moved):
        line: dict[str, Any] = {"color": "black", "lw": 1.1, "ls": (0, (4, 3)), "label": r"$l = 0$"}
        handles += axes.plot(moved["n"], moved["mean"], zorder=2.5, **line)
    ends = np.array([lengths[0], lengths[-1]])
    dotted: dict[str, Any] = {
        "color": style.NEUTRAL,
        "lw": 0.9,
        "ls": ":",
        "label": r"$1/\sqrt{n}$",
    }
    handles += axes.plot(ends, ends**-0.5, zorder=1, **dotted)
    axes.set_xlabel(style.CONTEXT_LENGTH)
    style.legend_below(axes, handles)
