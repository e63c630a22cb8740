"""A sweep as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordsens.results import trials_table


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per trial of every cell, or per trial and position where several were searched."""
    return {"table": trials_table(cells)}
