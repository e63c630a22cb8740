"""A study of the robustness of texts as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordsens.studies.rows import rows_table

ROWS = (
    *("trial", "sensitivity", "token_mean", "token_max", "word_sensitivity", "output"),
    *("parameters", "condition", "rank", "residual", "seconds"),
)
FIRST = ("study", "map", "dataset", "d", "n", "N")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per n and trial."""
    return {"table": rows_table(cells, ROWS, FIRST)}
