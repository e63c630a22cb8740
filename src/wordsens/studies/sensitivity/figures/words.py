"""Word sensitivity when m words change, against √(m/n), several maps on one pair of axes.

Remark 4.2 of the paper: random features move by an amount of order one only if a constant
fraction of the words changes, so their points follow one line in √(m/n) whatever n is;
attention is above 1 from the first word on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.figures.summary import summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """All sweeps on one pair of axes; returns the figure and the numbers drawn in it."""
    numbers = pd.concat([summarise(table) for table in tables.values()], ignore_index=True)
    numbers["ratio"] = np.sqrt(numbers["words"] / numbers["n"])
    drawn, axes = style.panels(1, 1)
    drawn.set_size_inches(5.4, 3.6)
    _panel(axes[0, 0], numbers)
    return drawn, numbers


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    style.logarithmic(axes, "x")
    style.logarithmic(axes, "y")
    sweeps = list(numbers["sweep"].unique())
    lengths = sorted(numbers["n"].unique())
    colours = dict(zip(sweeps, [look["color"] for look in style.looks(len(sweeps))], strict=True))
    markers = dict(
        zip(lengths, [look["marker"] for look in style.looks(len(lengths))], strict=True)
    )

    for (sweep, n, _, _), points in numbers.groupby(["sweep", "n", "d", "depth"], sort=True):
        look = {"color": colours[sweep], "marker": markers[n]}
        style.mean_and_band(axes, points["ratio"], points["mean"], points["std"], **look)
    handles = [style.entry(_name(numbers, sweep), color=colours[sweep]) for sweep in sweeps]
    curve = numbers.dropna(subset="theory").groupby("ratio")["theory"].mean()
    if len(curve):
        handles += axes.plot(
            curve.index, curve, color="black", lw=1.1, zorder=1, label=r"RF, $k \to \infty$"
        )
    else:
        ends = np.array([numbers["ratio"].min(), numbers["ratio"].max()])
        handles += axes.plot(ends, ends, label=r"$\sqrt{m/n}$", zorder=1, **style.DASHED)
    handles += [
        style.entry(f"$n = {n}$", color=style.NEUTRAL, ls="", marker=markers[n]) for n in lengths
    ]
    axes.axhline(1, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
    axes.set_xlabel(r"$\sqrt{m/n}$, with $m$ of $n$ words changed")
    axes.set_ylabel(r"word sensitivity $\mathcal{S}_{\varphi}$ (ratio)")
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5))


def _name(numbers: pd.DataFrame, sweep: str) -> str:
    """The map's name; the sweep's as well where two sweeps have the same map."""
    name = numbers.loc[numbers["sweep"] == sweep, "map"].iloc[0]
    alone = numbers.loc[numbers["map"] == name, "sweep"].nunique() == 1
    return style.short(name) if alone else f"{style.short(name)} ({sweep})"
