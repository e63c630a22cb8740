"""Attention scores as squares, a panel per sentence (as in the paper's Figure 1, left).

Rows are queries, columns keys, special tokens hidden, and one colour scale serves all panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import pandas as pd

from wordsens.figures.squares import squares
from wordsens.figures.text import columns as columns_of
from wordsens.figures.text import drawable, slant

if TYPE_CHECKING:
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

NEEDED = ("sentence", "query", "key", "query_piece", "key_piece", "weight")


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
