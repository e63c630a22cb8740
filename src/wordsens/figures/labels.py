"""Short labels beside points: each where it covers the least of what is drawn and written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 8.0  # points, of the letters
WIDTH, HEIGHT = 0.6, 0.8  # of a digit and its surroundings, in sizes
MARKER = 3.0  # points, half a marker's width
GAPS = (1.0, 3.0, 6.0, 10.0)  # points between a marker and its label
FAR = 2.0  # area that a point of such a gap weighs as much as
SIDES = ((1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))


def place(panel: Axes, points: np.ndarray, texts: Sequence[str], obstacles: np.ndarray) -> None:
    """Write ``texts`` beside points (N, 2), in data coordinates, once limits and sizes are final.

    ``obstacles`` (M, 2, 2) are further boxes to keep clear, by two opposite corners, such as error
    bars.  Labels are placed in order, each by itself.
    """
    scale = panel.figure.dpi / 72
    at = panel.transData.transform(points) / scale  # in points
    boxes = [np.concatenate([point - MARKER, point + MARKER]) for point in at]
    corners = panel.transData.transform(obstacles.reshape(-1, 2)).reshape(-1, 2, 2) / scale
    boxes += [np.concatenate([c.min(0) - 0.5, c.max(0) + 0.5]) for c in corners]
    for given, point, text in zip(points, at, texts, strict=True):
        size = np.array([WIDTH * len(text), HEIGHT]) * SIZE
        ways = list(product(GAPS, SIDES))
        centres = [point + np.array(side) * (MARKER + gap + size / 2) for gap, side in ways]
        options = [np.concatenate([centre - size / 2, centre + size / 2]) for centre in centres]
        costs = [
            _covered(option, boxes) + FAR * gap
            for option, (gap, _) in zip(options, ways, strict=True)
        ]
        best = int(np.argmin(costs))
        boxes.append(options[best])
        panel.annotate(
            text,
            xy=tuple(given),
            xytext=tuple(centres[best] - point),
            textcoords="offset points",
            fontsize=SIZE,
            ha="center",
            va="center_baseline",
            zorder=4,
        )


def _covered(box: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """The area that a box (left, bottom, right, top) shares with others."""
    taken = np.array(others)
    sides = np.minimum(box[2:], taken[:, 2:]) - np.maximum(box[:2], taken[:, :2])
    return float(sides.clip(min=0).prod(1).sum())
