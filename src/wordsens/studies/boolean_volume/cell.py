"""One cell: the functions that random transformers compute at one N, whole truth tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wordsens.boolean.groups import batches
from wordsens.boolean.volume import census

TOGETHER = 250  # models of one batch: their weights and truth tables stay in the cache


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The ``census`` of ``models`` random transformers, one row each."""
    rows: list[dict[str, Any]] = [{} for _ in range(cell["models"])]
    for places, of, _ in batches(cell, range(cell["models"]), device, TOGETHER):
        found = census(of, cell["N"])
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in found.items()}
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return arrays, dict(cell)
