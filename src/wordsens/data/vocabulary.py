"""An encoder's vocabulary in one HDF5 file, so that a job needs neither model nor tokenizer.

/pieces (strings), /special (bool), /words (V, d), /places (positions, d), /scale and /shift (d,),
/eps (1,): layer 0 of word v at position i is LayerNorm(words_v + places_i), its static vector is
words_v.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.data.encoders import Encoder
from wordsens.data.pieces import joined, shown, style_of
from wordsens.errors import UserError
from wordsens.files import REMAKE
from wordsens.results import read_arrays, write_arrays

if TYPE_CHECKING:
    import torch

    from wordsens.data.embeddings import Embeddings

# Parts by their names in the file.
PARTS = {"words": "vectors"} | {name: name for name in ("places", "scale", "shift", "eps")}
EMPTY = np.empty((0,), dtype=np.float32)


@dataclass(frozen=True)
class Vocabulary:
    """The word pieces of an encoder, their vectors, and which of them are no words.

    ``places`` has no rows where layer 0 is no LayerNorm(vectors + places).
    """

    path: Path
    pieces: list[str]
    special: np.ndarray
    vectors: np.ndarray
    places: np.ndarray
    scale: np.ndarray
    shift: np.ndarray
    eps: np.ndarray

    def __len__(self) -> int:
        return len(self.pieces)

    def static(self, ids: Any, d: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Vectors without position, the first d dimensions scaled to norm √d: (len(ids), d)."""
        return self._scaled(self._rows(ids), d, dtype)

    def at(self, position: int, ids: Any, d: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Layer 0 of the pieces at a position, the first d dimensions scaled to norm √d.

        Raises UserError for a position that the encoder does not have.
        """
        import torch

        if not len(self.places):
            raise UserError(
                f"{self.path}: layer 0 of this encoder is not made of words and positions alone; "
                "allowed: vectors: static"
            )
        if not 0 <= position < len(self.places):
            raise UserError(
                f"{self.path}: the encoder has positions 0 to {len(self.places) - 1}, and not "
                f"{position}"
            )
        scale, shift = torch.from_numpy(self.scale), torch.from_numpy(self.shift)
        summed = self._rows(ids) + torch.from_numpy(self.places[position])
        normal = torch.nn.functional.layer_norm(
            summed, (len(scale),), scale, shift, float(self.eps[0])
        )
        return self._scaled(normal, d, dtype)

    def _rows(self, ids: Any) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.vectors[np.asarray(ids)])

    def _scaled(self, rows: torch.Tensor, d: int, dtype: torch.dtype | None) -> torch.Tensor:
        if d > rows.shape[1]:
            raise UserError(f"{self.path}: word vectors have {rows.shape[1]} dimensions, not {d}")
        part = rows[:, :d].double()
        norms = part.norm(dim=-1, keepdim=True)
        # A padding row may be all zero; it stays where it is.
        scaled = part * (math.sqrt(d) / norms.where(norms > 0, 1.0))
        return scaled.to(dtype or rows.dtype)

    def candidates(
        self, choice: str | Sequence[str], special: bool, data: Embeddings, key: str
    ) -> np.ndarray:
        """Row numbers of the candidates, ascending.

        ``choice`` is "all", "frequent:N" (the N most frequent pieces of the dataset ``data``, fewer
        where it has fewer) or a list of word pieces.  Special tokens and unused rows only count
        with ``special``, or where they are listed.  Raises UserError, starting with ``key``, for a
        listed piece that the vocabulary lacks and where nothing is left.
        """
        if not isinstance(choice, str):
            index = {piece: row for row, piece in enumerate(self.pieces)}
            absent = [piece for piece in choice if piece not in index]
            if absent:
                raise UserError(
                    f"{key}.candidates: {absent[0]!r} is no word piece of {self.path}; allowed: "
                    "pieces of its vocabulary, as its tokenizer writes them"
                )
            return np.unique([index[piece] for piece in choice])
        allowed = np.full(len(self), True) if special else ~self.special
        if choice != "all":
            most = int(choice.partition(":")[2])
            inside = np.arange(data.tokens) < data.lengths[:, None]
            counts = np.bincount(data.token_ids[inside], minlength=len(self)) * allowed
            order = np.argsort(-counts, kind="stable")[:most]
            allowed = np.zeros_like(allowed)
            allowed[order[counts[order] > 0]] = True
        if not allowed.any():
            raise UserError(f"{key}.candidates: {choice} leaves no word of {self.path}")
        return np.flatnonzero(allowed)

    @cached_property
    def shown(self) -> list[str]:
        """The pieces as a reader wants them: bytes decoded, ## before what continues a word."""
        return shown(self.pieces, self._style)

    @cached_property
    def _style(self) -> str:
        return style_of(self.pieces)

    def text(self, ids: Iterable[int]) -> str:
        """Word pieces as text: pieces of one word are put together."""
        return joined([self.pieces[i] for i in ids], self._style)


def make_vocabulary(path: str | Path, folder: str | Path, key: str, code: str = "") -> Vocabulary:
    """Write an encoder's vocabulary, beside its final name first, and return it."""
    encoder = Encoder.open(folder, key)
    layer = encoder.embedding_layer()
    pieces, special = encoder.word_pieces()
    arrays = {
        "pieces": np.array(pieces, dtype=object),
        "special": np.isin(np.arange(len(pieces)), special),
        **{name: layer[part].numpy() if part in layer else EMPTY for name, part in PARTS.items()},
    }
    write_arrays(path, arrays, {"encoder": key, "code": code})
    return open_vocabulary(path)


def open_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary; raises UserError when the file is not a whole one."""
    arrays, _ = read_arrays(path, "a vocabulary")
    try:
        pieces = [str(piece) for piece in arrays.pop("pieces")]
        special = arrays.pop("special")
        parts = {part: arrays[name] for name, part in PARTS.items()}
    except KeyError as missing:
        raise UserError(f"{path}: not a vocabulary, it lacks {missing}; {REMAKE}") from None
    return Vocabulary(Path(path), pieces, special, **parts)
