"""A robustness study as a tidy table, and the exponents fitted to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordsens.studies.robustness.fitted import fitted
from wordsens.studies.rows import rows_table

ROWS = (
    *("N", "d", "width", "trial", "parameters", "sensitivity", "spread", "output"),
    *("condition", "rank", "residual", "seconds"),
)
FIRST = ("study", "features", "dataset", "activation", "parity", "mean_slope", "labels")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per activation, N, d, width and trial; ``fits`` holds the exponents."""
    table = rows_table(cells, ROWS, FIRST)
    return {"table": table, "fits": fitted(table)}
