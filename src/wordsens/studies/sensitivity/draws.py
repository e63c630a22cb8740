"""The streams that name what a cell draws, where kinds of study share their draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.randomness import Stream

# What names a cell's randomness: its own parameters, and nothing about how it is computed.
NAMES = ("dataset", "map", "d", "n", "depth", "words", "width", "activation", "heads", "head_dim")


def cell_stream(cell: Mapping[str, Any], **stated: Any) -> Stream:
    """The stream of a sensitivity cell; ``stated`` are axes of a sweep that the cell lacks."""
    named = {**cell, **stated}
    return Stream(
        cell["seed"], "cell", **{key: named[key] for key in NAMES if named.get(key) is not None}
    )
