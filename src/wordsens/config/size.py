"""The least memory that a cell can do with, to refuse what no machine has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# No node has as much; a typo in n, d, N or a width does.
MOST_BYTES = 1 << 40


def least_bytes(cell: Mapping[str, Any]) -> int:
    """What the arrays of one trial take that cannot be done without, in bytes.

    The sample (n·d) and its features (k, or n·d for attention, which has n·n scores per head, too).
    A study holds the features of N + 1 samples, their Gram matrix and, for random features, the
    changed word's block (k·d).
    """
    n, d = cell["n"], cell["d"]
    size = 8 if cell.get("precision") == "float64" else 4
    width = cell.get("width") or n * d
    if cell["map"] in ("rf", "drf"):
        features, scores, block = width, 0, width * d
    else:
        features, scores, block = n * d, n * n * cell.get("heads", 1), 0
    numbers = n * d + features + scores
    if "N" not in cell:
        return int(size * numbers)
    N = cell["N"]
    return int(size * (numbers + block + N * (features + n * d)) + 8 * N * N)
