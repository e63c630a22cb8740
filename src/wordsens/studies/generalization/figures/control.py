"""The smallest test error at γ ≤ g against word sensitivity: what sensitivity buys.

A numbered point per setting, named beside the panels.  Rows for the fine-tuned and the re-trained
model, a column for every limit g; one colour per map.  Means over trials with their 95 % intervals
(Student's t) both ways; word sensitivity is measured on the same samples and weights.  The dashed
line is (2 − g)², below which random features cannot go.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import designs, labels, style
from wordsens.studies.generalization.figures import searches, tradeoff

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTING = ["study", "map", "setting", "d", "n", "N"]
LEGEND = 2.8  # inches that the names of the settings take
NAMED = {"depth": "L", "temperature": r"\tau"}  # what may tell settings of one map apart


def prepare(study: str, table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The searches with a limit on γ, each with its setting in the field's notation."""
    if "sup" not in table:
        raise UserError(
            f"study {study!r} has no word sensitivity; set generalization.{study}.sensitivity: true"
        )
    kept = tradeoff.prepare(study, table, options)
    parted = "layer_norm" in kept
    said = [designs.made_of(kept) if parted else style.short(str(kept["map"].iloc[0]))]
    said += [
        f"${symbol} = {kept[column].iloc[0]:g}$"
        for column, symbol in NAMED.items()
        if column in kept and kept[column].iloc[0] != 1
    ]
    return kept.assign(setting=", ".join(said))


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A panel per way of training and limit; returns the figure and the numbers drawn in it."""
    trials = pd.concat(tables.values(), ignore_index=True)
    grouped = trials.groupby([*SETTING, "mode", "limit"], as_index=False, sort=False)
    numbers = grouped.agg(
        sup=("sup", "mean"),
        sup_half=("sup", half_width),
        error=("error", "mean"),
        error_half=("error", half_width),
        trials=("error", "count"),
    )
    limits, maps = sorted(numbers["limit"].unique()), list(numbers["map"].unique())
    numbers["number"] = numbers.groupby("study", sort=False).ngroup() + 1
    looks = dict(zip(maps, style.looks(len(maps)), strict=True))
    drawn, axes = style.panels(len(searches.ROWS), len(limits))
    drawn.set_figwidth(drawn.get_figwidth() + LEGEND)
    for i, mode in enumerate(searches.ROWS):
        for j, limit in enumerate(limits):
            panel = axes[i, j]
            here = numbers[(numbers["mode"] == mode) & (numbers["limit"] == limit)]
            _points(panel, here, looks)
            panel.axhline((2 - limit) ** 2, zorder=1, **(style.DASHED | {"color": "black"}))
            panel.set_ylim(0, 4.2)
            if i == 0:
                panel.set_title(rf"$\gamma \leq {limit:g}$")
            else:
                panel.set_xlabel(r"word sensitivity $\mathcal{S}$ (ratio)")
            if j == 0:
                panel.set_ylabel(f"smallest test error, {searches.ROWS[mode]}")
    named = numbers.drop_duplicates("number")[["number", "setting", "map"]]
    handles = [
        style.entry(f"{number}  {setting}", ls="none", **looks[name])
        for number, setting, name in named.itertuples(index=False)
    ]
    handles.append(style.entry("$(2 - g)^2$", **(style.DASHED | {"color": "black"})))
    drawn.legend(handles=handles, loc="outside right center")
    drawn.draw_without_rendering()  # settles where everything is
    for (i, mode), (j, limit) in product(enumerate(searches.ROWS), enumerate(limits)):
        here = numbers[(numbers["mode"] == mode) & (numbers["limit"] == limit)]
        _name(axes[i, j], here, (2 - limit) ** 2)
    return drawn, numbers


def _name(panel: Axes, numbers: pd.DataFrame, line: float) -> None:
    """Write the number of every point beside it, clear of the bars and of the line."""
    x, y = numbers["sup"].to_numpy(), numbers["error"].to_numpy()
    wide, high = (numbers[half].fillna(0).to_numpy() for half in ("sup_half", "error_half"))
    across = np.stack([x - wide, y, x + wide, y], 1)
    along = np.stack([x, y - high, x, y + high], 1)
    ends = [np.array([[panel.get_xlim()[0], line, panel.get_xlim()[1], line]])]
    drawn = np.concatenate([across, along, *ends]).reshape(-1, 2, 2)
    labels.place(panel, np.stack([x, y], 1), numbers["number"].astype(str).tolist(), drawn)


def half_width(values: pd.Series) -> float:
    """Half of the 95 % interval of a mean, of independent values; NaN for one."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values)))


def _points(panel: Axes, numbers: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]]) -> None:
    style.logarithmic(panel, "x")
    for row in numbers.to_dict("records"):
        look = looks[row["map"]]
        bars = {"xerr": row["sup_half"], "yerr": row["error_half"], "elinewidth": 0.9}
        panel.errorbar(row["sup"], row["error"], ls="none", zorder=3, **bars, **look)


def remark(tables: Mapping[str, pd.DataFrame]) -> str:
    """How far the order of the settings by sensitivity is that by error."""
    trials = pd.concat(tables.values(), ignore_index=True)
    said = []
    for mode, words in searches.ROWS.items():
        for limit, points in trials[trials["mode"] == mode].groupby("limit"):
            means = points.groupby("study")[["sup", "error"]].mean()
            rank = means["sup"].corr(means["error"], method="spearman")
            said.append(f"{words}, γ ≤ {limit:g}: {rank:.2f}")
    return f"Rank correlation of sensitivity and error over the settings: {'; '.join(said)}."
