"""What attacks with ‖Δ‖ ≤ δ‖x‖ do to minimum-norm interpolators.

A row per study.  On the left the change of f towards its other sign, mean over points and trials:
a cross along the gradient, a line by projected gradient, dotted the first-order prediction δ S(x);
the thin dashed line is the upper bound δ S(x) + L(δ‖x‖)²/2 where a Lipschitz constant L of the
gradient is known.  On the right the share of points whose sign flips, with bars of one standard
error over trials; the vertical line is δ = 0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.figures import style
from wordsens.studies.robustness.figures import common

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "features", "dataset", "activation", "parity", "mean_slope", "N", "d", "width"]
CHANGES = ("predicted", "along", "projected", "bound")
FLIPS = ("flipped_predicted", "flipped_along", "flipped_projected")
NEEDED = (*POINT, "trial", "delta", "output", *CHANGES, *FLIPS)
SMALL = 0.01


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    said = []
    for name, table in tables.items():
        near = table.iloc[(table["delta"] - SMALL).abs().argsort()]["delta"].iloc[0]
        shares = table[table["delta"] == near].groupby("activation")["flipped_projected"].mean()
        listed = ", ".join(
            f"{common.NAMES.get(kind, kind)} {share:.0%}" for kind, share in shares.items()
        )
        said.append(f"{name}: at δ = {near:g} projected gradient flips {listed}")
    return ". ".join(said) + "."


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Two panels per study; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(len(tables), 2)
    parts = []
    for row, table in zip(axes, tables.values(), strict=True):
        numbers = summarise(table)
        _changes(row[0], numbers)
        _flips(row[1], numbers)
        parts.append(numbers)
    return drawn, pd.concat(parts, ignore_index=True)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means over points, then over trials, and the standard error of the shares of flips."""
    trials = table.groupby([*POINT, "delta", "trial"], as_index=False, sort=True)[
        [*CHANGES, *FLIPS]
    ].mean()
    grouped = trials.groupby([*POINT, "delta"], as_index=False, sort=True)
    means = grouped[[*CHANGES, *FLIPS]].mean()
    errors = grouped[list(FLIPS)].sem().fillna(0)
    return means.assign(**{f"{name}_error": errors[name] for name in FLIPS})


def _changes(axes: Axes, numbers: pd.DataFrame) -> None:
    deltas = sorted(numbers["delta"].unique())
    style.logarithmic(axes, "x", deltas)
    style.logarithmic(axes, "y")
    shown = numbers.assign(mean=numbers["projected"], std=np.nan)
    handles = common.series(axes, shown, "delta")
    for line, (_, points) in zip(handles, _by_series(numbers), strict=True):
        colour = line.get_color()
        axes.plot(points["delta"], points["along"], "x", color=colour, ms=6, zorder=4)
        axes.plot(points["delta"], points["predicted"], ":", color=colour, lw=1.2, zorder=2)
        known = points[np.isfinite(points["bound"])]
        axes.plot(known["delta"], known["bound"], color=colour, lw=0.8, ls=(0, (4, 3)))
    top = numbers[["projected", "predicted"]].to_numpy().max()
    low = numbers["along"].to_numpy()
    axes.set_ylim(low[low > 0].min() / 2, 4 * top)
    handles.append(style.entry("along ∇f", color=style.NEUTRAL, marker="x", ls=""))
    handles.append(style.entry(r"$\delta\,\mathcal{S}(x)$", color=style.NEUTRAL, ls=":"))
    handles.append(style.entry("upper bound", **style.DASHED))
    axes.set_xlabel(r"strength $\delta$ of the attack")
    axes.set_ylabel("change of $f$")
    common.titled(axes, numbers, common.stated(numbers, ("N", "d", "width")))
    style.legend_below(axes, handles)


def _flips(axes: Axes, numbers: pd.DataFrame) -> None:
    style.logarithmic(axes, "x", sorted(numbers["delta"].unique()))
    looks = common.looks_of(numbers)
    for name, points in _by_series(numbers):
        axes.errorbar(
            points["delta"],
            points["flipped_projected"],
            points["flipped_projected_error"],
            **looks[name],
            lw=1.5,
            capsize=2,
        )
        axes.plot(
            points["delta"], points["flipped_predicted"], ":", color=looks[name]["color"], lw=1.2
        )
    axes.axvline(SMALL, color=style.NEUTRAL, lw=0.8, zorder=1)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel(r"strength $\delta$ of the attack")
    axes.set_ylabel("share of flipped signs")
    axes.set_title("projected gradient, and to first order")


def _by_series(numbers: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [
        (name, numbers[numbers["activation"] == name].sort_values("delta"))
        for name in common.in_order(numbers)
    ]
