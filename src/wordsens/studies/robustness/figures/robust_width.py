"""Input sensitivity of the minimum-norm interpolator against the number of parameters p.

Log–log, a panel per study, mean over trials with a band of one standard deviation.  Lines are full
where E ϕ' = 0, as for every even activation, and dashed elsewhere.  The dotted line is √(nd/p), the
order of the least sensitivity that p parameters allow; thin lines of the colour of a series are
fits of S² = (a p^s)² + b², and the diamond is their knee, where the power law meets the floor b.

Tangent features with E ϕ' = 0 follow √(nd/p) until k reaches the order of d, where the wide limit
takes over: its kernel is of degree two or more in ⟨x, x'⟩, so that the floor is of order √(n/d) and
not zero.  With E ϕ' ≠ 0 the linear part of the kernel makes S as large as √n whatever p; the thin
line is what that part alone makes of random labels at infinite width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.studies.robustness.figures import common
from wordsens.studies.robustness.fitted import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDED = common.NEEDED


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    return common.remark_on(tables, "parameters")


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per study; returns the figure and the numbers drawn in it."""
    columns = min(2, len(tables))
    drawn, axes = style.panels(-(-len(tables) // columns), columns)
    parts = []
    for panel, table in zip(axes.flat, tables.values(), strict=False):
        numbers = common.summarise(table)
        fits = fitted(table)
        _panel(panel, numbers, fits[fits["against"] == "parameters"])
        wanted = ["activation", "exponent", "exponent_low", "exponent_high", "floor", "knee"]
        parts.append(numbers.merge(fits.loc[fits["against"] == "parameters", wanted], how="left"))
    for panel in axes.flat[len(tables) :]:
        panel.set_axis_off()
    return drawn, pd.concat(parts, ignore_index=True)


def _panel(axes: Axes, numbers: pd.DataFrame, fits: pd.DataFrame) -> None:
    common.decades(axes, "x")
    style.logarithmic(axes, "y")
    handles = common.series(axes, numbers, "parameters")
    handles += common.limits(axes, numbers, "parameters")
    p = np.geomspace(numbers["parameters"].min(), numbers["parameters"].max(), 60)
    looks = common.looks_of(numbers)
    for fit in fits.dropna(subset="floor").itertuples():
        colour = looks[fit.activation]["color"]
        curve = np.hypot(fit.factor * p**fit.exponent, fit.floor)
        axes.plot(p, curve, color=colour, lw=0.8, zorder=2.5)
        if p[0] <= fit.knee <= p[-1]:
            at = np.hypot(fit.floor, fit.floor)
            axes.plot(fit.knee, at, "D", ms=8, mfc="none", mec=colour, mew=1.2, zorder=4)
    nd = float(numbers["N"].iloc[0] * numbers["d"].iloc[0])
    handles.append(
        common.guide(axes, (p[0], p[-1]), (nd / p[0]) ** 0.5, -0.5, label=r"$\sqrt{nd/p}$")
    )
    axes.set_xlabel("parameters $p$")
    axes.set_ylabel(common.SENSITIVITY)
    common.titled(axes, numbers, common.stated(numbers, ("N", "d")))
    style.legend_below(axes, handles)
