"""Input sensitivity of interpolators of texts beside the word sensitivity of their maps.

Log–log against the context length n, a colour per map, mean over trials with a band of one standard
deviation.  On the left S = ‖X‖ ‖∇f(X)‖ of the whole text, in the middle ‖x_i‖ ‖∇_{x_i} f(X)‖ of one
token, mean over tokens; on the right the word sensitivity (4) of the map, which knows no labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.figures import style
from wordsens.robustness.fits import slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINT = ["study", "map", "dataset", "d", "n", "N"]
SHOWN = {
    "sensitivity": r"$\mathcal{S}$ of the whole text (ratio)",
    "token_mean": r"$\mathcal{S}$ of one token (ratio)",
    "word_sensitivity": r"word sensitivity (ratio)",
}
NEEDED = (*POINT, "trial", *SHOWN)


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    """Exponents in n."""
    said = []
    for name, table in tables.items():
        found = {key: slope(table["n"].to_numpy(), table[key].to_numpy()) for key in SHOWN}
        said.append(
            f"{name}: whole text {found['sensitivity']}, one token {found['token_mean']}, word "
            f"sensitivity {found['word_sensitivity']}"
        )
    return "Exponents of n with 95 % confidence intervals. " + ". ".join(said) + "."


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Three panels with all studies; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(1, len(SHOWN))
    table = pd.concat(tables.values(), ignore_index=True)
    grouped = table.groupby(POINT, sort=False, as_index=False)
    numbers = grouped.agg(
        **{f"{key}_mean": (key, "mean") for key in SHOWN},
        **{f"{key}_std": (key, "std") for key in SHOWN},
        trials=("trial", "count"),
    )
    for panel, (key, label) in zip(axes[0], SHOWN.items(), strict=True):
        _panel(panel, numbers, key, label)
    return drawn, numbers


def _panel(axes: Axes, numbers: pd.DataFrame, key: str, label: str) -> None:
    style.logarithmic(axes, "x", sorted(numbers["n"].unique()))
    style.logarithmic(axes, "y")
    handles = []
    groups = list(numbers.groupby("study", sort=False))
    for look, (_, points) in zip(style.looks(len(groups)), groups, strict=True):
        points = points.sort_values("n")
        handles += style.mean_and_band(
            axes,
            points["n"],
            points[f"{key}_mean"],
            points[f"{key}_std"],
            **look,
            label=style.short(points["map"].iloc[0]),
        )
    axes.set_xlabel(style.CONTEXT_LENGTH)
    axes.set_ylabel(label)
    first = numbers.iloc[0]
    axes.set_title(f"$N = {first['N']}$ texts, $d = {first['d']}$")
    style.legend_below(axes, handles)
