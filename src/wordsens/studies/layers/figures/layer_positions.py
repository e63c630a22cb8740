"""Word sensitivity of a model's layers against the position of the word that moves.

A panel per study and n, the pretrained weights; one colour per layer, mean over trials with a band
of one standard deviation.  In an encoder a word reaches every position; in a decoder only itself
and what comes after it, so that the last words reach little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.ticker import MaxNLocator

from wordsens.figures import style
from wordsens.studies.layers.figures.layers import shown_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "encoder", "dataset", "n", "layer", "position_tried"]
NEEDED = (*POINT, "weights", "trial", "sup_at_position")


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study and n; returns the figure and the numbers drawn in it."""
    numbers = pd.concat([summarise(table) for table in tables.values()], ignore_index=True)
    parts = [part for _, part in numbers.groupby(["study", "n"], sort=False)]
    drawn, axes = style.panels(1, len(parts))
    for panel, part in zip(axes[0], parts, strict=True):
        _panel(panel, part)
    return drawn, numbers


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) at every position."""
    kinds = table["weights"].unique()
    kind = "pretrained" if "pretrained" in kinds else kinds[0]
    grouped = table[table["weights"] == kind].groupby(POINT, sort=True, as_index=False)
    found = grouped.agg(
        mean=("sup_at_position", "mean"),
        std=("sup_at_position", "std"),
        trials=("sup_at_position", "count"),
    )
    return found.assign(weights=kind)


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    handles = []
    layers = shown_layers(numbers["layer"])
    for look, layer in zip(style.looks(len(layers)), layers, strict=True):
        points = numbers[numbers["layer"] == layer]
        handles += style.mean_and_band(
            axes,
            points["position_tried"],
            points["mean"],
            points["std"],
            **look,
            label=rf"$l = {layer}$",
        )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("position of the word that moves (tokens before it)")
    axes.set_ylabel(r"word sensitivity $\mathcal{S}_{H_l}$ (ratio)")
    axes.set_title(style.headed(numbers["encoder"].iloc[0], f"$n = {numbers['n'].iloc[0]}$"))
    style.legend_below(axes, handles)
