"""One look for all figures: fonts, colours, names in the field's notation, ticks and bands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from wordsens.maps import declared
from wordsens.maps.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinguishable under every common colour blindness.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["o", "s", "^", "D", "v", "P"]
NEUTRAL = "0.35"
DASHED: dict[str, Any] = {"color": NEUTRAL, "lw": 0.9, "ls": (0, (4, 3))}
SYMBOLS = {"d": "d", "depth": "L", "n": "n", "words": "m"}
LONGEST_NAME = 26  # characters of a name in a title
CONTEXT_LENGTH = r"context length $n$ (tokens)"


def context() -> AbstractContextManager[None]:
    """The settings under which every figure is drawn."""
    return plt.rc_context(
        {
            **sns.axes_style("ticks"),
            "figure.constrained_layout.use": True,
            "font.family": "STIXGeneral",
            "mathtext.fontset": "stix",
            "font.size": 10,
            "axes.titlesize": 11,
            "axes.labelsize": 10.5,
            "axes.linewidth": 0.7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "0.92",
            "grid.linewidth": 0.7,
            "lines.linewidth": 1.5,
            "lines.markersize": 4.5,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "legend.handlelength": 2.4,
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "pdf.fonttype": 42,
        }
    )


def panels(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    """A figure of panels of one size, as a rows × columns array of axes."""
    size = (3.6 * columns + 0.2, 3.35 * rows)
    return plt.subplots(rows, columns, figsize=size, squeeze=False)


def panel_each(
    tables: Iterable[pd.DataFrame],
    summarise: Callable[[pd.DataFrame], pd.DataFrame],
    draw: Callable[[Axes, pd.DataFrame], None],
) -> tuple[Figure, pd.DataFrame]:
    """A row of panels, one per table, and the numbers drawn in all of them."""
    parts = [summarise(table) for table in tables]
    drawn, axes = panels(1, len(parts))
    for panel, numbers in zip(axes[0], parts, strict=True):
        draw(panel, numbers)
    return drawn, pd.concat(parts, ignore_index=True)


def sensitivity(name: str) -> str:
    """The y label of a map: its word sensitivity, a ratio without unit."""
    symbol = rf"\text{{{short(name)}}}" if name in declared() else r"\varphi"
    return rf"word sensitivity $\mathcal{{S}}_{{{symbol}}}$ (ratio)"


def declaration(name: str) -> type[Declaration]:
    """What a map says about itself; tables may name maps that are no longer known."""
    return declared().get(name, Declaration)


def title(name: str) -> str:
    return getattr(declaration(name), "title", name)


def short(name: str) -> str:
    return getattr(declaration(name), "short", name)


def subject(name: object) -> str:
    """What a title calls an encoder or a model: its name, the middle of a long one left out."""
    whole = str(name)
    if len(whole) <= LONGEST_NAME:
        return whole
    half = (LONGEST_NAME - 1) // 2
    return f"{whole[:half]}…{whole[-half:]}"


def headed(name: object, rest: str) -> str:
    """A title of a name and what is shown of it, on two lines where one would pass its panel."""
    shown = subject(name).replace("$", r"\$")  # a $ would begin a formula
    return f"{shown}, {rest}" if len(f"{shown}, {rest}") <= LONGEST_NAME + 6 else f"{shown}\n{rest}"


def looks(count: int) -> list[dict[str, Any]]:
    """A colour and a marker for each of ``count`` ordered series."""
    colours = COLOURS if count <= len(COLOURS) else sns.color_palette("cividis", count).as_hex()
    return [
        {"color": c, "marker": m} for c, m in zip(colours[:count], cycle(MARKERS), strict=False)
    ]


def label(row: Sequence[Any], columns: Sequence[str]) -> str:
    """A series in the field's notation: ``d = 192`` or ``L = 4, d = 768``."""
    named = [f"${SYMBOLS[c]} = {value}$" for c, value in zip(columns, row, strict=True)]
    return ", ".join(named)


def mean_and_band(
    axes: Axes, x: pd.Series, mean: pd.Series, std: pd.Series, **look: Any
) -> list[Line2D]:
    """A line through the means and a band of one standard deviation to either side."""
    low, high = mean - std.fillna(0), mean + std.fillna(0)
    if axes.get_yscale() == "log":
        # A band that reaches 0 would leave a logarithmic axis; half the mean is far enough.
        low = np.maximum(low, mean / 2)
    axes.fill_between(x, low, high, color=look["color"], alpha=0.22, lw=0, zorder=2)
    if len(x) == 1:  # a band of no width
        axes.vlines(x, low, high, color=look["color"], alpha=0.35, lw=5, zorder=2)
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    return axes.plot(x, mean, zorder=3, **(edge | look))


def bracket(axes: Axes, x: pd.Series, found: pd.Series, bound: pd.Series, colour: str) -> None:
    """A light band from the value found up to the upper bound, dashed along its top."""
    axes.fill_between(x, found, bound, color=colour, alpha=0.06, lw=0, zorder=1)
    if len(x) == 1:
        axes.vlines(x, found, bound, color=colour, alpha=0.2, lw=1, zorder=1)
    axes.plot(x, bound, color=colour, lw=0.9, ls=(0, (4, 3)), zorder=1.5)


def logarithmic(axes: Axes, which: str, values: Iterable[float] = ()) -> None:
    """A log axis with plain numbers at its ticks; ``values`` are the ticks wanted on it, if any."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    wanted = _spaced(values)
    axis.set_major_locator(FixedLocator(wanted) if wanted else _PlainTicks())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


class _PlainTicks(Locator):
    """1, 2, 3 and 5 of every decade of a log axis; fewer of many, evenly spaced ones on a short."""

    def __call__(self) -> Sequence[float]:
        return self.tick_values(*self.axis.get_view_interval())  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        ratio = vmax / vmin
        subs = (1, 2, 3, 5) if ratio < 1e2 else (1, 3) if ratio < 1e4 else (1,)
        locator = MaxNLocator(6) if ratio < 5 else LogLocator(subs=subs)
        return locator.tick_values(vmin, vmax)  # type: ignore[return-value]


def _spaced(values: Iterable[float]) -> list[float]:
    """The values, less those whose labels would touch their neighbour's; the last one stays."""
    chosen = sorted(set(values), reverse=True)
    ratio = min(1.35, (chosen[0] / chosen[-1]) ** (1 / 9)) if chosen else 1
    kept: list[float] = []
    for value in chosen:
        if not kept or value * ratio <= kept[-1]:
            kept.append(value)
    return kept[::-1]


def entry(label: str, **look: Any) -> Line2D:
    """An entry of a legend that explains a look without standing for one line."""
    return Line2D([], [], label=label, **look)


def legend_below(axes: Axes, handles: Sequence[Artist]) -> None:
    """The legend under the x label, outside the data."""
    columns = 2 if len(handles) == 4 or len(handles) > 6 else 3  # long names need the room
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=columns,
        columnspacing=1.4,
        handletextpad=0.5,
    )
