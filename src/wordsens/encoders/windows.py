"""A text longer than a model holds, cut into windows of whole words."""

from __future__ import annotations

from collections.abc import Sequence

from wordsens.data.encoders import Encoder
from wordsens.data.pieces import CONTINUES


def room(encoder: Encoder) -> int:
    """The tokens of a text that a model has positions for, special ones put around it."""
    return encoder.max_tokens - sum(map(len, encoder.special_tokens()))


def windows(pieces: Sequence[str], room: int) -> list[slice]:
    """Windows of at most ``room`` of the pieces, as even as whole words allow.

    ``pieces`` are written as ``Encoder.pieces`` writes them; a word is cut only where it is longer
    than half a window.
    """
    found, start = [], 0
    while start < len(pieces):
        left = len(pieces) - start
        end = start + -(-left // -(-left // room))  # an even share of what is left
        whole = end
        while whole < len(pieces) and whole > start and pieces[whole].startswith(CONTINUES):
            whole -= 1
        if whole >= start + max(1, room // 2):
            end = whole
        found.append(slice(start, end))
        start = end
    return found
