"""What real words do in the place of each word of a text: a row per layer, a column per word.

The colour is the largest relative change of a layer, or of the output, that a word which ran makes
in a word's place; the layers of all texts share one scale.  An output above the layers has a scale
of its own, from 0 to the number beside it.  In a decoder a word reaches only what comes after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from wordsens.encoders.explanation import OUTPUT
from wordsens.figures import style
from wordsens.figures.text import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

NEEDED = ("study", "text", "window", "position", "piece", "target", "by", "rank", "change")
PANELS, WORDS = 3, 40  # windows and words of a window that are drawn, the first ones
COLUMN, ROW = 0.2, 0.19  # inches of a word and of a layer


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel for each of the first windows; returns the figure and the numbers drawn in it."""
    numbers = pd.concat([summarise(table) for table in tables.values()], ignore_index=True)
    parts = [part for _, part in numbers.groupby(["study", "text", "window"], sort=False)]
    columns = max(part["position"].nunique() for part in parts)
    rows = [part["target"].nunique() for part in parts]
    size = (max(4.5, 1.7 + COLUMN * columns), sum(1.25 + ROW * count for count in rows))
    drawn, axes = plt.subplots(
        len(parts), 1, figsize=size, squeeze=False, height_ratios=[3 + count for count in rows]
    )
    layers = numbers[numbers["target"] != OUTPUT]["change"]
    for panel, part in zip(axes[:, 0], parts, strict=True):
        mesh = _panel(panel, part, float(layers.max()), columns)
    label = "largest relative change"
    drawn.colorbar(mesh, ax=axes[:, 0].tolist(), shrink=0.8, pad=0.02, aspect=30, label=label)
    return drawn, numbers


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """The largest change by real words of each word and target, of the first windows."""
    best = table[
        (table["by"] == "real word") & (table["rank"] == 1) & (table["target"] != "layer 0")
    ]
    windows = best[["study", "text", "window"]].drop_duplicates().head(PANELS)
    best = best.merge(windows, on=["study", "text", "window"])
    first = best.groupby(["study", "text", "window"])["position"].transform("min")
    best = best[best["position"] - first < WORDS]
    subject = [name for name in ("encoder", "model") if name in best]
    names = ["study", *subject, "text", "window", "position", "piece", "target", "new", "change"]
    return best[names].reset_index(drop=True)


def _panel(axes: Axes, part: pd.DataFrame, top: float, columns: int) -> QuadMesh:
    grid = part.pivot(index="target", columns="position", values="change")
    order = sorted((name for name in grid.index if name != OUTPUT), key=_layer)
    values = grid.loc[order].to_numpy()
    names = [str(_layer(name)) for name in order]
    if OUTPUT in grid.index:
        own = grid.loc[OUTPUT].to_numpy()
        names.append(f"output (to {own.max():.2f})")
        values = np.vstack([values, own / own.max() * top if own.max() > 0 else own])
    mesh = axes.pcolormesh(values, vmin=0, vmax=top, cmap="cividis", rasterized=True)
    pieces = part.drop_duplicates("position").sort_values("position")["piece"].astype(str)
    ticks: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(pieces)) + 0.5, [shown(piece) for piece in pieces], **ticks)
    every = max(1, (len(order) + 7) // 8)
    rows = [i for i in range(len(names)) if (i + 1) % every == 0 or i == len(order) - 1]
    rows += [len(order)] if OUTPUT in grid.index else []
    axes.set_yticks([i + 0.5 for i in sorted(set(rows))], [names[i] for i in sorted(set(rows))])
    axes.set_xlim(0, columns)
    axes.tick_params(length=0)
    axes.grid(False)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_ylabel(r"layer $l$")
    subject = part["encoder" if "encoder" in part else "model"].iloc[0]
    which = f"text {int(part['text'].iloc[0]) + 1}"
    if part["window"].iloc[0]:
        which += f", window {int(part['window'].iloc[0]) + 1}"
    axes.set_title(style.headed(subject, which))
    return mesh


def _layer(name: str) -> int:
    return int(name.split()[1])


def contents(table: pd.DataFrame) -> str:
    """What a table holds, in words."""
    subject = "encoder" if "encoder" in table else "model"
    texts, words = table["text"].nunique(), table[["text", "position"]].drop_duplicates()
    best = table[table["by"] == "real word"]["change"].max()
    return (
        f"{subject} {table[subject].iloc[0]}; {texts} text{'s' * (texts > 1)}, {len(words)} words; "
        f"largest relative change {best:.3g}"
    )
