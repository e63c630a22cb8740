"""Word sensitivity of an encoder's layers on several kinds of text.

A panel per context length on one scale of y, layers along x; one colour per kind of text, mean over
trials with a band of one standard deviation.  Pretrained weights where there are any, else random
ones.  The dotted line is 1/√n, one word's share of its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.figures import style
from wordsens.studies.layers.figures.layers import NEEDED, summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NEEDED", "figure"]


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per n, a curve per entry; returns the figure and the numbers drawn in it."""
    parts = [_of_one_kind(summarise(table)) for table in tables.values()]
    numbers = pd.concat(parts, ignore_index=True)
    lengths = sorted(numbers["n"].unique())
    drawn, axes = style.panels(1, len(lengths))
    looks = style.looks(len(parts))
    low, high = numbers["mean"].min(), numbers["mean"].max()
    for panel, n in zip(axes[0], lengths, strict=True):
        style.logarithmic(panel, "y")
        handles = []
        for look, part in zip(looks, parts, strict=True):
            points = part[part["n"] == n]
            label = str(part["dataset"].iloc[0]).replace("_", " ")
            handles += style.mean_and_band(
                panel, points["layer"], points["mean"], points["std"], **look, label=label
            )
        dotted = {"color": style.NEUTRAL, "lw": 0.9, "ls": ":", "zorder": 1}
        panel.axhline(n**-0.5, **dotted)
        handles.append(style.entry(r"$1/\sqrt{n}$", color=style.NEUTRAL, lw=0.9, ls=":"))
        panel.set_ylim(0.7 * min(low, lengths[-1] ** -0.5), 1.4 * high)
        panel.set_xticks(sorted(numbers["layer"].unique()))
        panel.set_title(f"$n = {n}$")
        panel.set_xlabel(r"layer $l$")
        style.legend_below(panel, handles)
    axes[0, 0].set_ylabel(r"word sensitivity $\mathcal{S}_{H_l}$ (ratio)")
    return drawn, numbers


def _of_one_kind(numbers: pd.DataFrame) -> pd.DataFrame:
    kinds = set(numbers["weights"])
    return numbers[numbers["weights"] == ("pretrained" if "pretrained" in kinds else "random")]
