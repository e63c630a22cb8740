"""The smallest test error reachable at γ ≤ g, against g: what the scatter of errors samples.

Mean over trials with a band of one standard deviation, one colour per N; rows for the fine-tuned
and the re-trained model, a column for every map and n.  The dashed line is (2 − g)², below
which random features cannot go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import style
from wordsens.studies.generalization.figures import searches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIAL = ["study", "map", "d", "n", "N", "mode", "trial"]


def prepare(study: str, table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The searches with a limit on γ.  A point found at a smaller limit serves the larger ones."""
    kept = searches.chosen(study, table, {k: options.get(k) for k in ("n", "N")})
    kept = kept[kept["limit"].notna()].sort_values([*TRIAL, "limit"])
    if kept.empty:
        raise UserError(f"study {study!r} has no trade-off curve; give it 'tradeoff' limits on γ")
    return kept.assign(error=kept.groupby(TRIAL)["error"].cummin())


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Two panels per study and n; returns the figure and the numbers drawn in it."""
    trials = pd.concat(tables.values(), ignore_index=True)
    numbers = trials.groupby([*TRIAL[:-1], "limit"], as_index=False).agg(
        mean=("error", "mean"), std=("error", "std"), trials=("error", "count")
    )
    sizes = sorted(numbers["N"].unique())
    looks = dict(zip(sizes, style.looks(len(sizes)), strict=True))
    drawn, axes, parts = searches.grid(tables)
    for j, part in enumerate(parts):
        where = (numbers["study"] == part["study"].iloc[0]) & (numbers["n"] == part["n"].iloc[0])
        for i, mode in enumerate(searches.ROWS):
            panel = axes[i, j]
            searches.draw_line(panel)
            for size, points in numbers[where & (numbers["mode"] == mode)].groupby("N"):
                style.mean_and_band(
                    panel, points["limit"], points["mean"], points["std"], **looks[size]
                )
            if i == 0:
                panel.set_title(searches.name(part))
            panel.set_ylim(top=4.2)
            label = "smallest test error"
            searches.finish(panel, mode, i, j, r"largest $\gamma$ allowed, $g$", label)
    handles = [style.entry(f"$N = {size}$", **look) for size, look in looks.items()]
    line = style.entry("$(2 - g)^2$", **(style.DASHED | {"color": "black"}))
    searches.legend_beside(drawn, [*handles, line], len(parts))
    return drawn, numbers
