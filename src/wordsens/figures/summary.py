"""The numbers behind a figure: tidy tables reduced to a mean and a spread per point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from wordsens.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What distinguishes one point of a sweep from another.
POINT = ["sweep", "map", "d", "depth", "n", "words"]


def whole(name: str, table: pd.DataFrame, needed: Iterable[str]) -> pd.DataFrame:
    """The table, if it has rows and every column that is needed; else a UserError."""
    absent = [column for column in needed if column not in table.columns]
    if absent:
        raise UserError(f"table of {name!r}: column {absent[0]!r} is missing; make it anew")
    if table.empty:
        raise UserError(f"table of {name!r} has no rows; make it anew")
    return table


def checked(sweep: str, table: pd.DataFrame) -> pd.DataFrame:
    """A sweep's table with a column ``sweep`` and every column a figure reads, or a UserError."""
    filled = whole(sweep, table, ("map", "d", "n", "trial", "sup")).assign(sweep=sweep)
    for column, neutral in (("depth", 1), ("words", 1), ("bound", float("nan"))):
        if column not in filled:
            filled[column] = neutral
    if "theory" not in filled:
        filled["theory"] = float("nan")
    return filled


def trials(table: pd.DataFrame) -> pd.DataFrame:
    """One row per trial: a sweep over positions repeats a trial's supremum for each of them."""
    return table.drop_duplicates([*POINT, "trial"])


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over trials (divisor T−1; empty for T=1) of every point."""
    grouped = trials(table).groupby(POINT, sort=True, as_index=False)
    return grouped.agg(
        mean=("sup", "mean"),
        std=("sup", "std"),
        trials=("sup", "count"),
        bound_mean=("bound", "mean"),
        theory=("theory", "mean"),
    )


def varying(numbers: pd.DataFrame, first: str, others: Sequence[str]) -> list[str]:
    """The columns that tell the series of a panel apart: ``first``, and any other that varies."""
    return [first, *(c for c in others if c != first and numbers[c].nunique() > 1)]
