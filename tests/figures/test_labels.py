"""Labels of points that crowd stay readable."""

from __future__ import annotations

from itertools import combinations

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
from matplotlib.figure import Figure

from wordsens.figures import labels


def test_labels_of_a_crowd_cover_neither_each_other_nor_the_points() -> None:
    figure = Figure(figsize=(4, 3))
    panel = figure.subplots()
    points = np.array([[0.5, 0.5], [0.53, 0.5], [0.5, 0.53], [0.54, 0.55], [0.9, 0.1]])
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    line = np.array([[[0, 0.16], [1, 0.16]]])  # where the label of the last point would be
    labels.place(panel, points, ["1", "22", "3", "14", "5"], line)
    figure.draw_without_rendering()
    assert [text.get_text() for text in panel.texts] == ["1", "22", "3", "14", "5"]
    boxes = [text.get_window_extent() for text in panel.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    at = panel.transData.transform(points)
    assert not any(box.contains(*point) for box in boxes for point in at)
    high = panel.transData.transform((0, 0.16))[1]
    assert not boxes[-1].y0 < high < boxes[-1].y1
    centres = np.array([((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for box in boxes])
    nearest = np.linalg.norm(centres[:, None] - at, axis=-1).argmin(1)
    assert nearest[-1] == 4
