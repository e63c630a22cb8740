"""Loss along the gradient flow of small networks on random labels, against exp(−λ_min t/2).

A panel per study, a colour per width m of all hidden layers; the median over trials with a band
from the least to the largest, relative to the loss at the start.  The dashed line of the same
colour is the rate that the tangent kernel at the start promises while it stays well conditioned,
exp(−λ_min t/2); where it is flat, λ_min is too small to promise anything.  Loss is
½ Σ (f(x_i) − y_i)²; for the mean of squares, as the talk writes it, time runs n/2 times slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.studies.robustness.figures.common import decades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "activation", "n", "d", "depth", "width"]
NEEDED = (*POINT, "trial", "time", "training_loss", "bound", "smallest", "later", "parameters")
LEAST = 1e-8  # of the loss, relative to the start


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    """λ_min at the start and whether the bound was kept."""
    said = []
    for name, table in tables.items():
        seen = table.dropna(subset="training_loss")
        for width, part in seen.groupby("width"):
            below = part["training_loss"] <= part["bound"] * (1 + 1e-4)
            kept = below.groupby(part["trial"]).all()
            said.append(
                f"{name}, m = {width} (p = {part['parameters'].iloc[0]}): λ_min = "
                f"{part['smallest'].median():.2g}, bound kept in {kept.sum()} of {len(kept)} trials"
            )
    return ". ".join(said) + "."


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(1, len(tables))
    parts = []
    for panel, table in zip(axes[0], tables.values(), strict=True):
        numbers = summarise(table)
        _panel(panel, numbers)
        parts.append(numbers)
    return drawn, pd.concat(parts, ignore_index=True)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    start = table.groupby([*POINT, "trial"])["training_loss"].transform("first")
    shares = table.assign(share=table["training_loss"] / start, promised=table["bound"] / start)
    return shares.groupby([*POINT, "time"], sort=True, as_index=False).agg(
        median=("share", _whole),
        least=("share", "min"),
        most=("share", "max"),
        bound=("promised", "median"),
        smallest=("smallest", "median"),
        parameters=("parameters", "first"),
    )


def _whole(shares: pd.Series) -> float:
    """The median over all trials; none where one of them was not followed so far."""
    return float(shares.median(skipna=False))


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    style.logarithmic(axes, "x")
    decades(axes, "y")
    handles = []
    numbers = numbers[numbers["time"] > 0]
    widths = sorted(numbers["width"].unique())
    for look, width in zip(style.looks(len(widths)), widths, strict=True):
        points = numbers[(numbers["width"] == width) & numbers["median"].notna()]
        colour = look["color"]
        low, high, middle = (
            np.maximum(points[name], LEAST) for name in ("least", "most", "median")
        )
        axes.fill_between(points["time"], low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(points["time"], middle, color=colour)
        whole = numbers[numbers["width"] == width]
        axes.plot(
            whole["time"], np.maximum(whole["bound"], LEAST), color=colour, ls=(0, (4, 3)), lw=1
        )
        label = f"$m = {width}$, $p = {points['parameters'].iloc[0]}$"
        handles.append(style.entry(label, color=colour))
    handles.append(style.entry(r"$e^{-\lambda_{\min} t/2}$", **style.DASHED))
    axes.set_ylim(LEAST, 2)
    axes.set_xlabel("time $t$")
    axes.set_ylabel(r"loss $L(t)/L(0)$")
    first = numbers.iloc[0]
    axes.set_title(
        f"$n = {first['n']}$, $d = {first['d']}$, $L = {first['depth']}$, {first['activation']}"
    )
    style.legend_below(axes, handles)
