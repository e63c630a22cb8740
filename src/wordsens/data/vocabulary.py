"""An encoder's vocabulary in one HDF5 file, so that a job needs neither model nor tokenizer.

/pieces (strings), /special (bool), /words (V, d), /places (positions, d), /scale and /shift (d,),
/eps (1,): layer 0 of word v at position i is LayerNorm(words_v + places_i), its static vector is
words_v.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.data.encoders import Encoder
from wordsens.errors import UserError
from wordsens.files import REMAKE, reading_h5, replacing
from wordsens.results import versions

if TYPE_CHECKING:
    import torch

    from wordsens.data.embeddings import Embeddings

SCHEMA_VERSION = 1
PARTS = ("words", "places", "scale", "shift", "eps")
STARTS = ("Ġ", "▁")  # how BPE and SentencePiece mark the start of a word


@dataclass(frozen=True)
class Vocabulary:
    """The word pieces of an encoder, their vectors, and which of them are no words."""

    path: Path
    pieces: list[str]
    special: np.ndarray
    words: np.ndarray
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

        return torch.from_numpy(self.words[np.asarray(ids)])

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

    def text(self, ids: Iterable[int]) -> str:
        """Word pieces as text: pieces of one word are put together."""
        pieces = [self.pieces[i] for i in ids]
        if any(piece.startswith(STARTS) for piece in pieces):
            return "".join(f" {p[1:]}" if p.startswith(STARTS) else p for p in pieces).strip()
        return " ".join(pieces).replace(" ##", "")


def make_vocabulary(path: str | Path, folder: str | Path, key: str, code: str = "") -> Vocabulary:
    """Write an encoder's vocabulary, whole or not at all, and return it."""
    import h5py

    encoder = Encoder.open(folder, key)
    layer = encoder.embedding_layer()
    pieces, special = encoder.words()
    # In memory first: on a full disk HDF5 itself ends in a segmentation fault.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset(
            "pieces", data=np.array(pieces, dtype=object), dtype=h5py.string_dtype()
        )
        file["special"] = np.isin(np.arange(len(pieces)), special)
        for name in PARTS:
            file[name] = layer[name].numpy()
        for name, value in {"encoder": key, "code": code, **versions()}.items():
            file.attrs[name] = value
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
    with replacing(path) as beside:
        beside.write_bytes(content.getbuffer())
    return open_vocabulary(path)


def open_vocabulary(path: str | Path) -> Vocabulary:
    """Read a vocabulary; raises UserError when the file is not a whole one."""
    with reading_h5(path, "a vocabulary") as file:
        if not file.attrs.get("complete"):
            raise UserError(f"{path}: incomplete (its writer was stopped); {REMAKE}")
        if file.attrs.get("schema_version") != SCHEMA_VERSION:
            raise UserError(f"{path}: not of schema version {SCHEMA_VERSION}; {REMAKE}")
        pieces = [str(piece) for piece in file["pieces"].asstr()[...]]
        special = file["special"][...]
        parts = {name: file[name][...] for name in PARTS}
    if not len(pieces) == len(special) == len(parts["words"]):
        raise UserError(f"{path}: arrays of different lengths; {REMAKE}")
    return Vocabulary(Path(path), pieces, special, **parts)
