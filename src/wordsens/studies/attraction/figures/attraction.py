"""Δ that attract attention, a row per entry (as in the paper's Figure 3, right).

Left, the relative change of every layer under either Δ and under Gaussian noise of its length, mean
and band of one standard deviation over draws; then the first head's attention without and with each
Δ on one colour scale, the key that moved marked.  Above stands the mean attention that it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.markers import CARETDOWN
from matplotlib.ticker import MaxNLocator

from wordsens.figures import style
from wordsens.figures.squares import squares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

NEEDED = ("quantity", "perturbation", "layer", "head", "draw", "query", "value", "tokens")
TITLES = {"none": "unchanged", "singular": r"singular vectors", "queries": "mean query"}
NOISE = "Gaussian noise"


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A row of up to four panels per entry; returns the figure and the numbers drawn in it."""
    most = max(len(_kinds(table)) for table in tables.values())
    ratios = (1.15, *[1] * most)
    size = (3.15 * sum(ratios) + 0.15, 3.5 * len(tables))
    drawn, axes = plt.subplots(
        len(tables), 1 + most, figsize=size, squeeze=False, width_ratios=ratios
    )
    for row, table in zip(axes, tables.values(), strict=True):
        change(row[0], table)
        kinds = _kinds(table)
        for panel in row[1 + len(kinds) :]:
            panel.set_axis_off()
        if kinds:
            shown = row[1 : 1 + len(kinds)]
            mesh = scores(shown, table)
            drawn.colorbar(mesh, ax=shown.tolist(), shrink=0.8, pad=0.02, label="attention score")
    drawn_rows = [table.assign(entry=name) for name, table in tables.items()]
    return drawn, pd.concat(drawn_rows, ignore_index=True)


def _kinds(table: pd.DataFrame) -> list[str]:
    """What the attention is known under: unchanged, and either Δ where such directions exist."""
    known = set(table[table["quantity"] == "attention"]["perturbation"])
    return [kind for kind in TITLES if kind in known]


def change(axes: Axes, table: pd.DataFrame) -> None:
    """Relative change of every layer."""
    changes = table[table["quantity"] == "relative_change"]
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    handles = []
    for look, name in zip(style.looks(2), ("queries", "singular"), strict=True):
        found = changes[changes["perturbation"] == name].sort_values("layer")
        if found.empty:  # no direction attracts this model's attention
            continue
        label = rf"$\Delta$: {TITLES[name]}"
        handles += axes.plot(found["layer"], found["value"], label=label, **(edge | look))
    noise = changes[changes["perturbation"] == "noise"].groupby("layer")["value"]
    mean, std = noise.mean(), noise.std()
    grey: dict[str, Any] = {"color": style.NEUTRAL, "marker": "^", "label": NOISE}
    handles += style.mean_and_band(axes, mean.index.to_series(), mean, std, **grey)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(r"layer $l$")
    axes.set_ylabel("relative change of hidden states (ratio)")
    first = table[table["of"] == "text"] if "of" in table else table
    axes.set_title(
        style.headed(table["encoder"].iloc[0], f"$n = {first['tokens'].iloc[0]}$, one word moved")
    )
    style.legend_below(axes, handles)


def scores(axes: Any, table: pd.DataFrame) -> QuadMesh:
    """The first head's attention before and after, on three axes with one scale."""
    shown = table[table["quantity"] == "attention"]
    top, position = shown["value"].max(), int(shown["position"].iloc[0])
    meshes = []
    for panel, kind in zip(axes, _kinds(table), strict=True):
        title = TITLES[kind]
        part = shown[shown["perturbation"] == kind]
        pieces = part.drop_duplicates("query")["query_piece"].astype(str).tolist()
        meshes.append(squares(panel, part["value"].to_numpy(), pieces, top))
        moved: dict[str, Any] = {"color": style.COLOURS[1], "clip_on": False}
        panel.plot(position + 0.5, 0, marker=CARETDOWN, ls="", **moved)
        received = table[
            (table["quantity"] == "attention_to_word")
            & (table["perturbation"] == kind)
            & (table["head"] == 0)
        ]
        if "of" in table:
            received = received[received["of"] == shown["of"].iloc[0]]
        panel.set_title(f"{title}: {received['value'].iloc[0]:.3f} to the word", fontsize=9.5)
        if panel is not axes[0]:
            panel.set_ylabel("")
            panel.set_yticks([])
    return meshes[0]
