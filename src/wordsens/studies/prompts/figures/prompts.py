"""Prompts, answers and the difference of two answers' log-probabilities, as a table to read.

As in the paper's Figure 1, right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd

from wordsens.figures import style
from wordsens.figures.text import drawable, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDED = ("prompt", "answer", "difference", "first", "second", "model")
WIDTHS = {"prompt": 46, "answer": 40}  # characters of a line
LEFT = {"prompt": 0.01, "answer": 0.43, "difference": 0.99}
LINE = 0.21  # inches


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """All entries below one another; returns the figure and the table drawn in it."""
    rows = pd.concat(tables.values(), ignore_index=True)
    texts = [
        {name: wrapped(drawable(row[name]), width) for name, width in WIDTHS.items()}
        for _, row in rows.iterrows()
    ]
    heights = [max(map(len, text.values())) + 1.2 for text in texts]
    total = sum(heights) + 1.8
    drawn, axes = plt.subplots(figsize=(7.6, LINE * total))
    axes.set(xlim=(0, 1), ylim=(total, 0))
    axes.set_axis_off()
    first, second = rows["first"].iloc[0], rows["second"].iloc[0]
    heading: dict[str, Any] = {"va": "center", "fontweight": "bold"}
    axes.text(LEFT["prompt"], 0.8, "prompt", **heading)
    axes.text(LEFT["answer"], 0.8, f"answer of {rows['model'].iloc[0]}", **heading)
    ratio = drawable(f"log p({first}) / p({second})")  # no formula: answers are any words
    axes.text(LEFT["difference"], 0.8, ratio, va="center", ha="right", parse_math=False)
    top = 1.6
    for (_, row), text, height in zip(rows.iterrows(), texts, heights, strict=True):
        axes.axhline(top, color=style.NEUTRAL, lw=0.7)
        for name in WIDTHS:
            for number, line in enumerate(text[name]):
                axes.text(LEFT[name], top + 1.0 + number, line, va="center", parse_math=False)
        value = float(row["difference"])
        colour = style.COLOURS[0] if value > 0 else style.COLOURS[1]
        bold: dict[str, Any] = {
            "va": "center",
            "ha": "right",
            "color": colour,
            "fontweight": "bold",
        }
        axes.text(LEFT["difference"], top + 1.0, f"{value:+.2f}".replace("-", "−"), **bold)
        top += height
    axes.axhline(top, color=style.NEUTRAL, lw=0.7)
    return drawn, rows
