"""The smallest eigenvalue of the tangent kernel against the width m of the hidden layers.

A panel per study and depth L, log–log: the median over trials with a band from the least to the
largest; a colour per number of samples n.  Hollow marks lie below the floor of rounding,
√n eps λ_max, which is dotted, and say nothing but that λ_min is zero to working precision.

The last panel shows the width at which λ_min leaves rounding against n, with bars from the least to
the largest of the trials, a dashed line ∝ √n fitted to it, and dotted the width with as many
parameters as samples, below which K is singular.  With two layers there are m(d + 1) parameters, so
that the width grows as n; so it does with one wide layer in front of narrow ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.robustness.fits import Estimate
from wordsens.studies.conditioning.table import transitions
from wordsens.studies.robustness.figures.common import decades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = ["study", "shape", "d", "depth"]
NEEDED = (
    *(*SERIES, "activation", "n", "trial", "width", "parameters", "smallest"),
    *("floor", "transition", "enough"),
)
SHAPES = {"constant": "", "pyramid": "pyramid, ", "one_wide": "one wide layer, "}
COLUMNS = 3


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    """Transition widths and their exponents."""
    said = []
    for name, table in tables.items():
        for depth, part in transitions(table).groupby("depth"):
            first = part.iloc[0]
            exponent = Estimate(first["exponent"], first["exponent_low"], first["exponent_high"])
            at = ", ".join(
                f"{m:g} at n = {n}" for n, m in zip(part["n"], part["transition"], strict=True)
            )
            line = f"{name}, L = {depth}: λ_min leaves rounding at width {at}"
            if len(part) > 1:
                away = (part["transition"] / part["on_line"] - 1).abs().max()
                line += f"; exponent of n {exponent}"
                if depth > 2 and first["shape"] != "one_wide":
                    line += f", at most {away:.0%} from c√n"
            said.append(line)
    return ". ".join(said) + "."


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study and depth and one of transitions; the numbers drawn in all of them."""
    table = pd.concat(tables.values(), ignore_index=True)
    groups = list(table.groupby(SERIES, sort=False))
    count = len(groups) + 1
    columns = min(COLUMNS, count)
    drawn, axes = style.panels(-(-count // columns), columns)
    numbers = summarise(table)
    counts = sorted(table["n"].unique())
    colours = dict(zip(counts, style.looks(len(counts)), strict=True))
    for panel, (key, _) in zip(axes.flat, groups, strict=False):
        mine = numbers[(numbers[SERIES] == list(key)).all(axis=1)]
        _panel(panel, mine, colours)
    _transitions(axes.flat[len(groups)], transitions(table))
    for panel in axes.flat[count:]:
        panel.set_axis_off()
    return drawn, numbers.merge(
        transitions(table).rename(columns={"low": "transition_low", "high": "transition_high"}),
        on=[*SERIES, "n"],
    )


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    grouped = table.groupby([*SERIES, "n", "width"], sort=True, as_index=False)
    return grouped.agg(
        parameters=("parameters", "first"),
        smallest=("smallest", "median"),
        least=("smallest", "min"),
        most=("smallest", "max"),
        floor=("floor", "median"),
        trials=("smallest", "count"),
    )


def _panel(axes: Axes, numbers: pd.DataFrame, colours: dict[int, dict[str, Any]]) -> None:
    style.logarithmic(axes, "x")
    decades(axes, "y")
    handles = []
    lowest = numbers["floor"].min() / 30
    for n, points in numbers.groupby("n"):
        look = colours[n]
        shown = np.maximum(points["smallest"], lowest)
        above = points["smallest"] > points["floor"]
        low, high = np.maximum(points["least"], lowest), np.maximum(points["most"], lowest)
        axes.fill_between(points["width"], low, high, color=look["color"], alpha=0.2, lw=0)
        axes.plot(points["width"], shown, color=look["color"], lw=1.3)
        axes.plot(points["width"][above], shown[above], ls="", **look)
        axes.plot(points["width"][~above], shown[~above], ls="", **look, mfc="white")
        axes.plot(points["width"], points["floor"], color=look["color"], lw=0.9, ls=":")
        handles.append(style.entry(f"$n = {n}$", **look))
    handles.append(style.entry("rounding", color=style.NEUTRAL, lw=0.9, ls=":"))
    axes.set_ylim(lowest / 2, None)
    axes.set_xlabel("width $m$ (neurons)")
    axes.set_ylabel(r"smallest eigenvalue $\lambda_{\min}(K)$")
    first = numbers.iloc[0]
    axes.set_title(f"{SHAPES[first['shape']]}$L = {first['depth']}$, $d = {first['d']}$")
    style.legend_below(axes, handles)


def _transitions(axes: Axes, fits: pd.DataFrame) -> None:
    counts = sorted(fits["n"].unique())
    style.logarithmic(axes, "x", counts)
    style.logarithmic(axes, "y")
    handles = []
    groups = list(fits.groupby(SERIES, sort=False))
    varied = fits["shape"].nunique() > 1
    for look, ((_, shape, _, depth), part) in zip(style.looks(len(groups)), groups, strict=True):
        bars = np.stack([part["transition"] - part["low"], part["high"] - part["transition"]])
        name = f"{SHAPES[shape]}$L = {depth}$" if varied else f"$L = {depth}$"
        axes.errorbar(part["n"], part["transition"], yerr=bars, **look, ls="", capsize=2, zorder=3)
        if shape != "one_wide" and depth > 2 and len(part) > 1:
            axes.plot(part["n"], part["on_line"], color=look["color"], lw=1.1, ls=(0, (4, 3)))
        axes.plot(part["n"], part["enough"], color=look["color"], lw=0.9, ls=":")
        handles.append(style.entry(name, **look))
    handles.append(style.entry(r"$\propto \sqrt{n}$", **style.DASHED))
    handles.append(style.entry("$p = n$", color=style.NEUTRAL, lw=0.9, ls=":"))
    axes.set_xlabel("samples $n$")
    axes.set_ylabel(r"width where $\lambda_{\min}$ leaves rounding")
    axes.set_title("first width above rounding")
    style.legend_below(axes, handles)
