"""Strings of sensitivity 0 and the influence of a flip against N, for random transformers.

Left the share K₀(N)/2^N of strings that no flip changes, mean over models, the same ones at every
N; a colour per shape, a line style per ε.  Majority and the uniformly
random function are lines; parity and first have no such string.  Crosses are the N^((D−1)/(2L)−5)
strings that the theorem promises every large N, where these are fewer than all.  Right how far a
flip moves what is read at the eos, mean over positions, beside a line proportional to 1/N.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import style
from wordsens.studies.boolean_random.figures.boolean_spectra import TITLES, contents

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["contents", "figure"]

NEEDED = ("init", "N", "epsilon", "trial", "strings", "sensitivity", "count", "depth", "width")


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A row per initialisation; returns the figure and the numbers drawn in it."""
    numbers = pd.concat([summarise(t) for t in tables.values()], ignore_index=True)
    inits = list(dict.fromkeys(numbers["init"]))
    drawn, axes = style.panels(len(inits), 2)
    for row, init in zip(axes, inits, strict=True):
        own = numbers[numbers["init"] == init]
        _shares(row[0], own)
        _influence(row[1], own)
        for panel in row:
            panel.set_title(f"{TITLES[init]} weights")
            panel.set_xlabel("length $N$ (bits)")
    return drawn, numbers


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Of every point: the share of K_0 over models, its band, and the mean influence."""
    point = ["study", "init", "epsilon", "N"]
    models = table.drop_duplicates([*point, "trial"]).set_index([*point, "trial"])
    zero = table[table["sensitivity"] == 0].set_index([*point, "trial"])["count"]
    models = models.assign(share=(zero / models["strings"]).reindex(models.index).fillna(0))
    if "influence" not in models:
        models["influence"] = np.nan
    grouped = models.groupby(level=point, sort=False)
    for size in ("depth", "width"):
        if (grouped[size].nunique() > 1).any():
            raise UserError(
                f"study {table['study'].iloc[0]!r} draws several values of {size}, and"
                " boolean_zeros compares shapes; give its lists one value each"
            )
    return grouped.agg(
        depth=("depth", "first"),
        width=("width", "first"),
        share=("share", "mean"),
        low=("share", lambda s: s.quantile(0.1)),
        high=("share", lambda s: s.quantile(0.9)),
        influence=("influence", "mean"),
        models=("share", "size"),
    ).reset_index()


def _series(numbers: pd.DataFrame) -> list[tuple[dict[str, Any], pd.DataFrame, tuple[int, int]]]:
    """The look, points and shape of every line."""
    shapes = list(numbers.groupby(["depth", "width"], sort=True))
    values = sorted(numbers["epsilon"].unique())
    found = []
    for look, (shape, rows) in zip(style.looks(len(shapes)), shapes, strict=True):
        for epsilon, dashes in zip(values, _dashes(values), strict=True):
            points = rows[rows["epsilon"] == epsilon].sort_values("N")
            if len(points):
                found.append((look | {"ls": dashes}, points, shape))
    return found


def _dashes(values: list[float]) -> list[Any]:
    """A line style for each ε: dashes for the least, a whole line for the greatest."""
    known: list[Any] = [(0, (1, 1.2)), (0, (3, 2)), "-"]
    return (known * len(values))[-len(values) :]


def _shares(axes: Axes, numbers: pd.DataFrame) -> None:
    N = np.arange(numbers["N"].min(), numbers["N"].max() + 1)
    handles = []
    done = set()
    for look, points, (L, D) in _series(numbers):
        axes.plot(points["N"], points["share"], zorder=3, **look)
        promised = N ** ((D - 1) / (2 * L) - 5) / 2.0**N
        if (L, D) not in done:
            few = promised < 1
            cross: dict[str, Any] = {"color": look["color"], "marker": "x", "ms": 4, "ls": ""}
            axes.plot(N[few], promised[few], zorder=2, **cross)
        done.add((L, D))
    handles.append(style.entry("theorem", color=style.NEUTRAL, marker="x", ms=4, ls=""))
    short = N // 2
    sensitive = [
        comb(n, m) + comb(n, m + 1) for n, m in zip(N.tolist(), short.tolist(), strict=True)
    ]
    lines = {
        "majority": (1 - np.array(sensitive) / 2.0**N, "-"),
        "random function": (2.0**-N, "--"),
        "parity, first": (0.0 * N, ":"),
    }
    for label, (share, dashes) in lines.items():
        handles += axes.plot(N, share, color="black", lw=1, ls=dashes, label=label, zorder=1.5)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share of strings of sensitivity 0")
    style.legend_below(axes, handles)


def _influence(axes: Axes, numbers: pd.DataFrame) -> None:
    style.logarithmic(axes, "x", numbers["N"])
    style.logarithmic(axes, "y")
    handles = {}
    for look, points, (L, D) in _series(numbers):
        axes.plot(points["N"], points["influence"], zorder=3, **look)
        handles[f"$L = {L}$, $D = {D}$"] = look | {"ls": "-"}
    values = sorted(numbers["epsilon"].unique())
    if len(values) > 1:
        dashed = zip(values, _dashes(values), strict=True)
        handles |= {rf"$\epsilon = {e:g}$": {"color": "black", "ls": ls} for e, ls in dashed}
    ends = np.array([numbers["N"].min(), numbers["N"].max()])
    scale = (numbers["influence"] * numbers["N"]).median()
    line: dict[str, Any] = {"color": style.NEUTRAL, "lw": 0.9, "ls": ":"}
    axes.plot(ends, scale / ends, zorder=1, **line)
    handles[r"$\propto 1/N$"] = line
    axes.set_ylabel(r"influence $\|y^L_{N+1}(x) - y^L_{N+1}(x^{\oplus n})\|$")
    style.legend_below(axes, [style.entry(name, **look) for name, look in handles.items()])
