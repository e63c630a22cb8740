"""Word sensitivity against context length, a panel per sweep (as in the paper's Figures 2 and 3).

Mean over trials with a band of one standard deviation; one colour per d, or per depth L for
deep random features.  A light band under a dashed line reaches up to the upper bound where one
is known.  Random features are drawn log–log, where 1/√n is a straight line of slope −1/2, with
their large-width curve, one per depth for deep ones; attention maps on a linear axis from 0,
with a line at 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.figures.summary import summarise, varying

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LARGE_WIDTH = r"$k \to \infty$"
SAME = 1e-9  # limits closer than this are one curve


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """One panel per sweep; returns the figure and the numbers drawn in it."""
    return style.panel_each(tables.values(), summarise, _panel)


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    name = str(numbers["map"].iloc[0])
    lengths = sorted(numbers["n"].unique())
    map = style.declaration(name)
    falling, first = map.falls, map.series()
    if falling:
        style.logarithmic(axes, "y")
    if falling or lengths[-1] > 1000:
        style.logarithmic(axes, "x", lengths)

    columns = varying(numbers, first, ["depth", "d", "words"])
    series = list(numbers.groupby(columns, sort=True))
    handles: list[Artist] = []
    for look, (key, points) in zip(style.looks(len(series)), series, strict=True):
        # Where curves coincide, dashes let each be seen.
        dashes = (0, (5, 2 * len(handles))) if map.coincide and handles else "-"
        bounded = points[points["bound_mean"].notna()]
        style.bracket(axes, bounded["n"], bounded["mean"], bounded["bound_mean"], look["color"])
        handles += style.mean_and_band(
            axes,
            points["n"],
            points["mean"],
            points["std"],
            **look,
            ls=dashes,
            label=style.label(key, columns),
        )

    curves = numbers.dropna(subset="theory")
    if len(curves) and curves.groupby("n")["theory"].agg(np.ptp).max() < SAME:
        curve = curves.groupby("n")["theory"].first()
        handles += axes.plot(
            curve.index, curve, color="black", lw=1.1, zorder=2.5, label=LARGE_WIDTH
        )
    elif len(curves):
        # One limit per depth: each in the colour of its series.
        for look, (_, points) in zip(style.looks(len(series)), series, strict=True):
            axes.plot(
                points["n"], points["theory"], color=look["color"], lw=1.1, ls=":", zorder=2.5
            )
        handles.append(style.entry(LARGE_WIDTH, color=style.NEUTRAL, lw=1.1, ls=":"))
    elif falling:
        ends = np.array([lengths[0], lengths[-1]])
        handles += axes.plot(
            ends, ends**-0.5, color=style.NEUTRAL, lw=1.1, ls=":", label=r"$1/\sqrt{n}$"
        )
    if numbers["bound_mean"].notna().any():
        handles.append(style.entry("upper bound", **style.DASHED))
    if not falling:
        axes.axhline(1, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
        axes.set_ylim(bottom=0)
        if axes.get_xscale() == "linear":
            axes.set_xlim(left=0)

    axes.set_title(style.title(name))
    axes.set_xlabel(style.CONTEXT_LENGTH)
    axes.set_ylabel(style.sensitivity(name))
    style.legend_below(axes, handles)
