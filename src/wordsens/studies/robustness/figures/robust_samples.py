"""Input sensitivity of the minimum-norm interpolator against the number of training samples n.

Log–log, a panel per study, mean over trials with a band of one standard deviation.  Lines are full
where E ϕ' = 0, as for every even activation, and dashed elsewhere.  The dotted line of slope 1/2
and the dash-dotted one of slope 1/6 pass through the first point of the least robust series.

The talk bounds S of random features with E ϕ' ≠ 0 by n^{1/6} from below for d ≫ n^{2/3}.  At fixed
d > n the growth is faster, n^{1/2}: the linear part of the kernel, μ₁² XXᵀ/d with μ₁ = E ϕ',
interpolates a fixed share of every label, and the n gradients of that share add up to √n.  When n
passes d the linear part fits less and less of random labels, and S ≈ d/√n.  The bound is this value
at the edge of its condition: along d ∝ n^{2/3}, S grows as n^{1/6}.  Thin lines of the colour of a
series are what the linear part alone makes of random labels at infinite width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.figures import style
from wordsens.studies.robustness.figures import common
from wordsens.studies.robustness.fitted import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDED = common.NEEDED


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    return common.remark_on(tables, "N")


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(1, len(tables))
    parts = []
    for panel, table in zip(axes[0], tables.values(), strict=True):
        numbers = common.summarise(table)
        _panel(panel, numbers)
        fits = fitted(table)
        wanted = ["activation", "width", "exponent", "exponent_low", "exponent_high"]
        parts.append(numbers.merge(fits.loc[fits["against"] == "N", wanted], how="left"))
    return drawn, pd.concat(parts, ignore_index=True)


def _panel(axes: Axes, numbers: pd.DataFrame) -> None:
    lengths = sorted(numbers["N"].unique())
    style.logarithmic(axes, "x", lengths)
    style.logarithmic(axes, "y")
    handles = common.series(axes, numbers, "N")
    handles += common.limits(axes, numbers, "N")
    ends = (float(lengths[0]), float(lengths[-1]))
    top = numbers.loc[numbers["N"] == lengths[0], "mean"].max() * 1.08
    handles.append(common.guide(axes, ends, top, 1 / 2, label=r"$\propto n^{1/2}$"))
    dashes = (0, (6, 2, 1, 2))
    handles.append(common.guide(axes, ends, top, 1 / 6, ls=dashes, label=r"$\propto n^{1/6}$"))
    axes.set_xlabel("training samples $n$")
    axes.set_ylabel(common.SENSITIVITY)
    fixed = common.stated(numbers, ("d", "width"))
    if numbers["d"].nunique() > 1:
        low, high = numbers["d"].min(), numbers["d"].max()
        fixed = f"$d = {low}…{high}$, " + common.stated(numbers, ("width",))
    common.titled(axes, numbers, fixed)
    style.legend_below(axes, handles)
