"""The least memory that a cell can do with, to refuse what no machine has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.maps import MapOptions, map_class

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
    cls = map_class(cell["map"])
    options = MapOptions.of(cell, cls.options)
    features = cls.feature_count(n, d, options)
    numbers = n * d + features + cls.score_count(n, d, options)
    if "N" not in cell:
        return int(size * numbers)
    N = cell["N"]
    word = cls.word_count(n, d, options)
    return int(size * (numbers + word + N * (features + n * d)) + 8 * N * N)
