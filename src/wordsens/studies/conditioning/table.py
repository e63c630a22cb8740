"""A study of conditioning as a tidy table, and the width at which λ_min leaves rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from wordsens.robustness.fits import slope
from wordsens.studies.rows import rows_table

ROWS = (
    *("n", "trial", "width", "parameters", "smallest", "largest", "floor"),
    *("transition", "enough"),
)
FIRST = ("study", "shape", "activation", "d", "depth")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per depth, n, trial and width; ``fits`` holds the transition widths."""
    table = rows_table(cells, ROWS, FIRST)
    return {"table": table, "fits": transitions(table)}


def transitions(table: pd.DataFrame) -> pd.DataFrame:
    """One row per depth and n: the median transition width and what is fitted over all n.

    transition, low, high   median, least and largest over trials
    enough        the width with as many parameters as samples
    on_line       c √n, c by least squares of logarithms over all n of the depth
    exponent, …   of transition ∝ n^s with its 95 % interval; theory has 1/2
    """
    rows = []
    for key, part in table.groupby(["study", "shape", "d", "depth"], sort=False):
        trials = part.drop_duplicates(["n", "trial"])
        found = slope(trials["n"].to_numpy(), trials["transition"].to_numpy())
        medians = trials.groupby("n")["transition"].median()
        factor = np.exp((np.log(medians) - 0.5 * np.log(medians.index)).mean())
        for n, at in trials.groupby("n"):
            rows.append(
                {
                    **dict(zip(("study", "shape", "d", "depth"), key, strict=True)),
                    "n": n,
                    "transition": at["transition"].median(),
                    "low": at["transition"].min(),
                    "high": at["transition"].max(),
                    "enough": at["enough"].iloc[0],
                    "on_line": factor * n**0.5,
                    "exponent": found.value,
                    "exponent_low": found.low,
                    "exponent_high": found.high,
                }
            )
    return pd.DataFrame(rows)
