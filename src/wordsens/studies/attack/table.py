"""A study of attacks as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordsens.studies.rows import rows_table

ROWS = (
    *("trial", "point", "delta", "output", "predicted", "along", "projected", "bound"),
    *("flipped_predicted", "flipped_along", "flipped_projected", "seconds"),
)
FIRST = ("study", "features", "dataset", "activation", "parity", "mean_slope", "N", "d", "width")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per activation, trial, point and strength."""
    return {"table": rows_table(cells, ROWS, FIRST)}
