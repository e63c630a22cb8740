"""Attention scores as squares, a panel per sentence (as in the paper's Figure 1, left).

Rows are queries, columns keys, special tokens hidden, and one colour scale serves all panels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import PowerNorm

from wordsens.figures.text import columns as columns_of
from wordsens.figures.text import drawable, shown, slant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

NEEDED = ("sentence", "query", "key", "query_piece", "key_piece", "weight")
COLOURS = "YlGnBu"
READABLE = 30  # word pieces up to which each has its name at the axes


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A row per entry and a panel per sentence; returns the figure and the scores drawn in it."""
    rows = [list(table.groupby("sentence", sort=False)) for table in tables.values()]
    columns = max(map(len, rows))
    size = (3.1 * columns + 0.8, 3.1 * len(rows))
    drawn, axes = plt.subplots(len(rows), columns, figsize=size, squeeze=False)
    for row, sentences in zip(axes, rows, strict=True):
        meshes: list[QuadMesh] = []
        top = max(part["weight"].max() for _, part in sentences)
        for panel, (sentence, part) in zip(row, sentences, strict=False):
            pieces = part.drop_duplicates("query")["query_piece"].astype(str).tolist()
            meshes.append(squares(panel, part["weight"].to_numpy(), pieces, top))
            title = drawable(f"“{sentence}”") if columns_of(sentence) < 45 else ""
            panel.set_title(title, style=slant(title), parse_math=False)
        for panel in row[len(sentences) :]:
            panel.set_axis_off()
        drawn.colorbar(meshes[0], ax=row.tolist(), shrink=0.75, pad=0.02, label="attention score")
    return drawn, pd.concat(tables.values(), ignore_index=True)


def squares(axes: Axes, scores: np.ndarray, pieces: Sequence[str], top: float) -> QuadMesh:
    """Scores (query, key), flattened, as coloured squares from 0 to ``top``, query 0 above.

    Among many words most scores are small; the colours of these are spread by a square root.
    """
    count = len(pieces)
    scale = PowerNorm(1 if count <= READABLE else 0.5, vmin=0, vmax=top)
    mesh = axes.pcolormesh(
        scores.reshape(count, count), cmap=COLOURS, norm=scale, rasterized=count > READABLE
    )
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if count <= READABLE:
        small: dict[str, Any] = {"fontsize": 10 if count < 9 else 8 if count < 21 else 6}
        places = np.arange(count) + 0.5
        names = [shown(piece) for piece in pieces]
        axes.set_xticks(places, names, rotation=90, **small)
        axes.set_yticks(places, names, **small)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    return mesh
