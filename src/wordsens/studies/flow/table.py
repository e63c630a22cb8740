"""A study of gradient flow as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordsens.studies.rows import rows_table

ROWS = (
    "trial",
    "time",
    "training_loss",
    "bound",
    "smallest",
    "later",
    "parameters",
    "evaluations",
    "seconds",
)
FIRST = ("study", "activation", "n", "d", "depth", "width")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per width, trial and time."""
    return {"table": rows_table(cells, ROWS, FIRST)}
