"""Which words of a vocabulary are tried in a word's place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wordsens.data.encoders import Encoder
from wordsens.errors import UserError

SHORTLIST, ALL = "shortlist", "all"


def chosen_words(
    encoder: Encoder, candidates: str | Sequence[str | int]
) -> tuple[torch.Tensor, bool]:
    """Token ids of the words to try, (W,), and whether all of them run.

    ``candidates`` are "all" or "shortlist", of the words of the vocabulary that the tokenizer keeps
    whole, or a list of words or token ids, all of which run.  Raises UserError for anything else.
    """
    pieces, special = encoder.word_pieces()
    if isinstance(candidates, str):
        if candidates not in (ALL, SHORTLIST):
            raise UserError(
                f"candidates {candidates!r} is not known; choose all, shortlist, or a list"
            )
        shown = encoder.pieces(range(min(len(encoder.tokenizer), len(pieces))), in_text=False)
        left = set(range(len(shown))) - set(special)
        # A piece that only continues a word is no word in a word's place.
        whole = [i for i in sorted(left) if shown[i].isalpha()]
        return torch.tensor(whole or sorted(left)), candidates == ALL
    found: list[int] = []
    for word in candidates:
        ids = [word] if isinstance(word, int) else _pieces_of(encoder, word)
        if len(ids) != 1 or not 0 <= ids[0] < len(pieces):
            raise UserError(
                f"{encoder.key}: {word!r} is no single word of the vocabulary; allowed: words that "
                "the tokenizer keeps whole, or token ids"
            )
        found += ids
    if not found:
        raise UserError("candidates is empty; give at least one")
    return torch.tensor(found).unique(), True


def _pieces_of(encoder: Encoder, word: str) -> list[int]:
    """The word as it stands inside a text, after a space where the tokenizer marks one."""
    alone, spaced = encoder.tokenize([word, f" {word}"])
    return min(spaced, alone, key=len)
