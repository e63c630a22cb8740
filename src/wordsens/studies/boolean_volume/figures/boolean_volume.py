"""How many random transformers compute which functions, counted exactly, against N.

A column per initialisation. Above, the share of models that compute a non-constant function, one
without strings of sensitivity 0, a majority, one bit or a parity of several (or their negations),
with exact 95% intervals; where no model did, a triangle stands at the interval's upper end. Below,
the share of models whose average sensitivity is at least as large as a share of N.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.boolean.sampling import exact_interval
from wordsens.figures import style
from wordsens.studies.boolean_random.figures.boolean_spectra import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDED = ("init", "N", "quantity", "at", "count", "models", "share", "low", "high")
CLASSES = {
    "non-constant": ("non-constant",),
    "no sensitivity 0": ("without strings of sensitivity 0",),
    "majority": ("majority",),
    "one bit": ("first", "dictator"),
    "parity of several": ("parity", "sparse-parity"),
}


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Returns the figure and the numbers drawn in it."""
    table = pd.concat(tables.values(), ignore_index=True)
    inits = list(dict.fromkeys(table["init"]))
    drawn, axes = style.panels(2, len(inits))
    numbers = []
    for (above, below), init in zip(axes.T, inits, strict=True):
        own = table[table["init"] == init]
        numbers.append(_classes(above, own).assign(init=init))
        averages = own[own["quantity"] == "average"]
        _averages(below, averages)
        numbers.append(averages[["init", "N", "quantity", "at", "count", "models", "share"]])
        above.set_title(f"{TITLES[init]} weights")
    lowest = min(panel.get_ylim()[0] for panel in axes[0])
    for panel in axes[0]:
        panel.set_ylim(lowest, 1.6)
    return drawn, pd.concat(numbers, ignore_index=True)


def _classes(axes: Axes, table: pd.DataFrame) -> pd.DataFrame:
    axes.set_yscale("log")
    parts, handles = [], []
    shifts = np.linspace(-0.12, 0.12, len(CLASSES))
    for shift, look, (name, members) in zip(
        shifts, style.looks(len(CLASSES)), CLASSES.items(), strict=True
    ):
        rows = table[table["quantity"].isin(members)]
        points = rows.groupby("N").agg(count=("count", "sum"), models=("models", "first"))
        points["low"], points["high"] = exact_interval(
            points["count"].to_numpy(), points["models"].to_numpy()
        )
        points["share"] = points["count"] / points["models"]
        seen, none = points[points["count"] > 0], points[points["count"] == 0]
        errors = np.stack([seen["share"] - seen["low"], seen["high"] - seen["share"]])
        line: dict[str, Any] = look | {"lw": 1.1, "elinewidth": 0.9, "zorder": 3}
        axes.errorbar(seen.index + shift, seen["share"], errors, **line)
        hollow: dict[str, Any] = {"color": look["color"], "marker": "v", "ls": "", "mfc": "white"}
        axes.plot(none.index + shift, none["high"], zorder=2, **hollow)
        handles.append(style.entry(name, lw=1.1, **look))
        parts.append(points.reset_index().assign(quantity=name))
    axes.set_xlabel("length $N$ (bits)")
    axes.set_ylabel("share of random transformers")
    axes.set_xticks(sorted(table["N"].unique()))
    style.legend_below(axes, handles)
    return pd.concat(parts, ignore_index=True)


def _averages(axes: Axes, table: pd.DataFrame) -> None:
    lengths = sorted(table["N"].unique())
    handles = []
    axes.set_yscale("log")
    for look, N in zip(style.looks(len(lengths)), lengths, strict=True):
        points = table[(table["N"] == N) & (table["count"] > 0) & (table["at"] > 0)]
        line = {"color": look["color"], "label": f"$N = {N}$"}
        handles += axes.step(points["at"] / N, points["share"], where="pre", **line)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel(r"average sensitivity over $N$, at least")
    axes.set_ylabel("share of random transformers")
    style.legend_below(axes, handles)


def contents(table: pd.DataFrame) -> str:
    """The counts behind the first two classes."""
    parts = []
    for (init, N), rows in table.groupby(["init", "N"], sort=False):
        by = rows.drop_duplicates("quantity").set_index("quantity")
        no_zero = by.loc["without strings of sensitivity 0"]
        parts.append(
            f"{init}, N = {N}: of {no_zero['models']} models {by.loc['non-constant', 'count']} are "
            f"not constant and {no_zero['count']} have no string of sensitivity 0 "
            f"({no_zero['low']:.2g} to {no_zero['high']:.2g} at 95%)"
        )
    return "; ".join(parts)
