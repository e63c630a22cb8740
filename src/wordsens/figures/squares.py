"""Attention scores as coloured squares, a row per query and a column per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import PowerNorm

from wordsens.figures.text import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

COLOURS = "YlGnBu"
READABLE = 30  # word pieces up to which each has its name at the axes


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
