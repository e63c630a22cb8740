"""From a text and an encoder to what the library's functions take, for use without a workflow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wordsens.data.encoders import Encoder
from wordsens.errors import UserError, whole_number

if TYPE_CHECKING:
    import pandas as pd
    import torch


@dataclass(frozen=True)
class Vocabulary:
    """The words of an encoder: ``vectors`` (V, d) of length √d, ``pieces`` as the tokenizer
    writes them, ``special`` (V,) where a row is no word."""

    vectors: torch.Tensor
    pieces: list[str]
    special: np.ndarray

    def __repr__(self) -> str:
        count, d = self.vectors.shape
        return (
            f"Vocabulary({count} word pieces, {int(self.special.sum())} of them no words, d = {d})"
        )

    def __len__(self) -> int:
        return len(self.pieces)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per word piece."""
        import pandas as pd

        return pd.DataFrame({"piece": self.pieces, "special": self.special})


def embed(
    text: str, encoder: str | Path | Encoder, *, layer: int | str = 0, d: int | None = None
) -> torch.Tensor:
    """The tokens of a text as X (n, d), float64, every row of length √d, without special tokens.

    ``layer`` 0 is the embedding layer's output, l that of the l-th block, and "static" the rows of
    ``vocabulary``, without positions.  ``d`` keeps the first d dimensions, all without it.  Raises
    ``UserError`` for a text without tokens or longer than the encoder's positions, and a layer or d
    that the encoder lacks.
    """
    import torch

    opened = _opened(encoder)
    if not isinstance(text, str):
        raise UserError(f"text = {text!r} must be a string; call embed once for each text")
    ids = opened.tokenize([text])[0]
    if not ids:
        raise UserError(f"text = {text!r} has no tokens")
    if layer == "static":
        rows = opened.embedding_layer()["vectors"][ids]
    else:
        if isinstance(layer, str):
            raise UserError(f'layer = {layer!r} must be a whole number from 0 on, or "static"')
        layer = whole_number("layer", layer, 0)
        tokens = torch.tensor([ids])
        rows = opened.hidden_states(tokens, torch.ones_like(tokens, dtype=torch.bool), layer)[0]
    return _scaled(rows, d)


def vocabulary(encoder: str | Path | Encoder, *, d: int | None = None) -> Vocabulary:
    """The words of an encoder as vectors without positions, to put in a word's place.

    The result goes into ``vocabulary_sensitivity`` beside an X of ``embed(…, layer="static")``.
    """
    opened = _opened(encoder)
    pieces, special = opened.word_pieces()
    vectors = _scaled(opened.embedding_layer()["vectors"], d)
    return Vocabulary(vectors, pieces, np.isin(np.arange(len(pieces)), special))


def _opened(encoder: str | Path | Encoder) -> Encoder:
    return encoder if isinstance(encoder, Encoder) else Encoder.open(encoder)


def _scaled(rows: torch.Tensor, d: int | None) -> torch.Tensor:
    width = rows.shape[1] if d is None else whole_number("d", d)
    if width > rows.shape[1]:
        raise UserError(f"d = {d}, but the encoder gives {rows.shape[1]} dimensions")
    part = rows[:, :width].double()
    norms = part.norm(dim=1, keepdim=True)
    return part * (math.sqrt(width) / norms.where(norms > 0, 1.0))
