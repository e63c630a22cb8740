"""Word sensitivity against the number of layers, a panel for every make of the blocks.

Log–log on one scale of y; one colour per context length, mean over trials with a band of one
standard deviation.  The dotted line is 1, where a word moves the features by their own length.
Behind a layer norm all features have one length, so that no word moves them by more than about 2,
the dashed line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.studies.depth.figures.curves import NEEDED, curves, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NEEDED", "figure"]


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per entry; returns the figure and the numbers drawn in it."""
    drawn, parts = panels(tables)
    for panel, numbers in parts:
        curves(panel, numbers, "depth", "n")
        panel.set_xlabel(r"number of layers $L$")
    return drawn, pd.concat([numbers for _, numbers in parts], ignore_index=True)
