"""What the figures of robustness share: numbers per point, series of activations, and remarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogFormatterMathtext, LogLocator, NullFormatter

from wordsens.activations import activation
from wordsens.figures import style
from wordsens.robustness.fits import Estimate
from wordsens.robustness.limits import ZERO, linear_limit
from wordsens.studies.robustness.fitted import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

POINT = [
    *("study", "features", "dataset", "labels", "activation", "parity", "mean_slope"),
    *("N", "d", "width"),
]
NEEDED = (*POINT, "trial", "parameters", "sensitivity")
NAMES = {"square": "z²/2", "hermite3": "z³ − 3z"}
TITLES = {"ntk": "Tangent features"}  # others are random features
FOLLOWS = {"cos": 0, "square": 1, "hermite3": 2, "tanh": 3, "softplus": 4, "sin": 5}
SENSITIVITY = r"input sensitivity $\mathcal{S}(x)$ (ratio)"


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) of every point."""
    numbers = table.groupby([*POINT, "parameters"], sort=True, as_index=False).agg(
        mean=("sensitivity", "mean"), std=("sensitivity", "std"), trials=("sensitivity", "count")
    )
    return numbers.assign(limit=[_limit(row) for row in numbers.itertuples()])


def _limit(row: Any) -> float:
    """S of the linear part at infinite width, where theory has one: random labels, E ϕ' ≠ 0."""
    if row.dataset != "gaussian" or row.labels != "random" or abs(row.mean_slope) < ZERO:
        return float("nan")
    return linear_limit(row.N, row.d, activation(row.activation), row.features)


def limits(axes: Axes, numbers: pd.DataFrame, x: str) -> list[Line2D]:
    """A thin line per activation where the linear part of its kernel has a limit; legend entry."""
    known = numbers.dropna(subset="limit")
    looks = looks_of(numbers)
    for name, points in known.groupby("activation"):
        points = points.sort_values(x)
        axes.plot(points[x], points["limit"], color=looks[str(name)]["color"], lw=0.8, zorder=2)
    entry = style.entry("linear part, $p \\to \\infty$", color=style.NEUTRAL, lw=0.8)
    return [entry] if len(known) else []


def decades(axes: Axes, which: str) -> None:
    """A log axis of large or small numbers: powers of ten, and unlabelled ticks between them."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(LogFormatterMathtext())
    axis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
    axis.set_minor_formatter(NullFormatter())


def series(axes: Axes, numbers: pd.DataFrame, x: str) -> list[Line2D]:
    """A line per activation: full where E ϕ' = 0, dashed elsewhere; a colour of its own each."""
    handles: list[Line2D] = []
    looks = looks_of(numbers)
    for name in in_order(numbers):
        points = numbers[numbers["activation"] == name].sort_values(x)
        handles += style.mean_and_band(
            axes,
            points[x],
            points["mean"],
            points["std"],
            **looks[name],
            label=f"{NAMES.get(name, name)} ({points['parity'].iloc[0]})",
        )
    return handles


def in_order(numbers: pd.DataFrame) -> list[str]:
    """The activations of a panel, those with E ϕ' = 0 first."""
    return sorted(numbers["activation"].unique(), key=lambda name: (FOLLOWS.get(name, 9), name))


def looks_of(numbers: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of every activation, the same in all panels."""
    slopes = numbers.groupby("activation")["mean_slope"].first()
    return {
        name: {
            **style.looks(6)[FOLLOWS.get(name, place) % 6],
            "ls": "-" if abs(slopes[name]) < ZERO else (0, (5, 2)),
        }
        for place, name in enumerate(in_order(numbers))
    }


def titled(axes: Axes, numbers: pd.DataFrame, extra: str) -> None:
    first = numbers.iloc[0]
    data = "" if first["dataset"] == "gaussian" else f" of {first['dataset']}"
    axes.set_title(f"{TITLES.get(first['features'], 'Random features')}{data}, {extra}")


def stated(numbers: pd.DataFrame, columns: Iterable[str]) -> str:
    """The sizes that a panel holds fixed: ``n = 50, d = 1000``."""
    symbols = {"N": "n", "d": "d", "width": "k"}
    kept = [name for name in columns if numbers[name].nunique() == 1]
    return ", ".join(f"${symbols[name]} = {numbers[name].iloc[0]}$" for name in kept)


def guide(axes: Axes, ends: tuple[float, float], through: float, power: float, **look: Any) -> Any:
    """A dotted power law through a value at the first end."""
    x = np.array(ends)
    dotted: dict[str, Any] = {"color": style.NEUTRAL, "lw": 0.9, "ls": ":"}
    return axes.plot(x, through * (x / x[0]) ** power, zorder=1, **(dotted | look))[0]


def remark_on(tables: Mapping[str, pd.DataFrame], against: str) -> str:
    """The fitted exponents with 95 % intervals, beside the theory's."""
    said = []
    for name, table in tables.items():
        fits = fitted(table)
        fits = fits[fits["against"] == against]
        parts = []
        for row in fits.itertuples():
            exponent = Estimate(row.exponent, row.exponent_low, row.exponent_high)
            part = f"{NAMES.get(row.activation, row.activation)} {exponent}"
            if row.theory:
                part += f" (theory {row.theory})"
            if np.isfinite(row.floor):
                part += f", floor {row.floor:.2g} from p = {row.knee:.2g}"
            parts.append(part)
        said.append(f"{name}: " + "; ".join(parts))
    symbol = "p" if against == "parameters" else "n"
    return f"Exponents of S in {symbol} with 95 % confidence intervals. " + ". ".join(said) + "."
