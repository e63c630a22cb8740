"""Samples X (n×d) with rows of norm √d, from an embeddings file or synthetic (Assumption 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wordsens.data.embeddings import Embeddings, open_embeddings
from wordsens.errors import UserError
from wordsens.randomness import Stream

if TYPE_CHECKING:
    import torch

Source = Embeddings | str | Path | None


@dataclass(frozen=True)
class Samples:
    """X (samples, n, d), rows of norm √d; labels ±1; indices in the dataset, −1 if synthetic."""

    X: torch.Tensor
    labels: torch.Tensor
    indices: np.ndarray


def draw_samples(
    source: Source,
    n: int,
    d: int,
    trials: int,
    stream: Stream,
    *,
    dtype: torch.dtype | None = None,
    key: str = "sweeps",
) -> Samples:
    """One sample per trial: the first n tokens, the first d dimensions, rows scaled to √d.

    ``source`` is an embeddings file (opened, or its path) or None for independent standard
    Gaussian tokens.  Trial t draws from ``stream.child("sample", trial=t)``, so its sample does not
    depend on the number of trials.  A synthetic label is the sign of ⟨flat(X), u⟩, u a uniformly
    random direction shared by the stream's samples.  float32 unless ``dtype`` says otherwise; norms
    are taken in float64.  No two trials have the same n tokens while there are others left: with
    more trials than that every text is used again, as often as any other.

    Raises UserError, naming the sample, the value and ``key``, for n above the samples' lengths, d
    above the embedding dimension, and rows that are zero or not finite.
    """
    if source is None:
        return _gaussian(n, d, trials, stream, dtype)
    data = _open(source)
    candidates = _candidates(data, data.usable, n, d, key)
    indices = _drawn(candidates, data.token_ids[candidates, :n], trials, stream)
    return _embedded(data, indices, n, d, dtype, key)


def draw_tokens(
    source: Embeddings | str | Path,
    n: int,
    trials: int,
    stream: Stream,
    *,
    special: int = 0,
    key: str = "layers",
) -> tuple[np.ndarray, np.ndarray]:
    """The word pieces of one sample per trial, (trials, n − special), and the samples' indices.

    The first pieces of a text, without special tokens or padding; ``special`` of its n tokens are
    left for special tokens.  Trials are drawn as in ``draw_samples``, and all are different.
    Raises UserError for n above the samples' lengths, and for more trials than different texts.
    """
    data = _open(source)
    # Documents begin with one special token and end with another.
    marks = 1 if data.attributes.get("policy") == "documents" else 0
    usable = data.lengths - 2 * marks + special
    candidates = _candidates(data, usable, n, 1, key)
    tokens = data.token_ids[candidates, marks : marks + n - special]
    texts = len(np.unique(tokens, axis=0))
    if texts < trials:
        raise UserError(
            f"{key}.trials: is {trials}, but {data.path} has {texts} different "
            f"text{'s' * (texts > 1)} of n = {n} tokens; allowed: at most {texts}, or a smaller n, "
            "or more text"
        )
    indices = _drawn(candidates, tokens, trials, stream)
    return data.token_ids[indices, marks : marks + n - special], indices


def _drawn(candidates: np.ndarray, tokens: np.ndarray, trials: int, stream: Stream) -> np.ndarray:
    """One candidate per trial, each by a stream of its own, as long as there are different ones.

    A trial that meets a text of an earlier trial draws again, among those that are left; what it
    draws depends on the trials before it alone.
    """
    texts = np.unique(tokens, axis=0, return_inverse=True)[1].reshape(-1)
    chosen = []
    left = np.ones(len(candidates), dtype=bool)
    for trial in range(trials):
        if not left.any():
            left[:] = True
        generator = stream.child("sample", trial=trial).generator()
        pick = generator.integers(len(candidates))
        if not left[pick]:
            rest = np.flatnonzero(left)
            pick = rest[generator.integers(len(rest))]
        left &= texts != texts[pick]
        chosen.append(candidates[pick])
    return np.array(chosen)


def draw_training_set(
    source: Source,
    n: int,
    d: int,
    N: int,
    stream: Stream,
    *,
    dtype: torch.dtype | None = None,
    key: str = "sweeps",
) -> Samples:
    """N + 1 distinct samples, as in ``draw_samples``; a larger N only adds samples at the end.

    Raises UserError also when the dataset has fewer than N + 1 samples of n tokens.
    """
    if source is None:
        return _gaussian(n, d, N + 1, stream, dtype)
    data = _open(source)
    candidates = _candidates(data, data.usable, n, d, key)
    if len(candidates) <= N:
        raise UserError(
            f"{key}.N: is {N}, but {data.path} has {len(candidates)} samples of {n} tokens; "
            f"allowed: at most {len(candidates) - 1}"
        )
    order = stream.child("training set").generator().permutation(len(candidates))
    return _embedded(data, candidates[order[: N + 1]], n, d, dtype, key)


def _open(source: Embeddings | str | Path) -> Embeddings:
    return source if isinstance(source, Embeddings) else open_embeddings(source)


def _candidates(data: Embeddings, usable: np.ndarray, n: int, d: int, key: str) -> np.ndarray:
    """Indices of the samples of which n tokens are usable."""
    if d > data.dim:
        raise UserError(
            f"{key}.d: is {d}, but the embeddings in {data.path} have dimension {data.dim}; "
            f"allowed: at most {data.dim}"
        )
    candidates = np.flatnonzero(usable >= n)
    if not len(candidates):
        longest = int(usable.argmax()) if data.samples else 0
        most = int(usable[longest]) if data.samples else 0
        raise UserError(
            f"{key}.n: is {n}, but the longest sample in {data.path} (sample {longest}) has {most} "
            f"tokens; allowed: at most {most}"
        )
    return candidates


def _embedded(
    data: Embeddings, indices: np.ndarray, n: int, d: int, dtype: torch.dtype | None, key: str
) -> Samples:
    import torch

    rows = data.rows(indices, n, d)
    X = (
        torch.from_numpy(rows)
        if dtype in (None, torch.float32)
        else torch.empty(rows.shape, dtype=dtype)
    )
    for row, target, index in zip(rows, X.numpy(), indices, strict=True):
        norms = _norms(row)
        if not np.isfinite(norms).all():
            token = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise UserError(
                f"{data.path}: sample {index}, token {token}: the embedding is not finite "
                f"({key}.d = {d}); delete the file and run snakemake again"
            )
        if not norms.all():
            token = int(np.flatnonzero(norms == 0)[0])
            raise UserError(
                f"{data.path}: sample {index}, token {token}: the first {d} dimensions are all 0 "
                f"and cannot be scaled to norm √d; change {key}.d or the dataset's layer"
            )
        _scale(row, norms, target)
    labels = torch.from_numpy(data.labels[indices].astype(np.int64))
    return Samples(X, labels, indices)


def _gaussian(n: int, d: int, count: int, stream: Stream, dtype: torch.dtype | None) -> Samples:
    import torch

    dtype = dtype or torch.float32
    direction = stream.child("direction").normal(n, d, dtype=torch.float64).flatten()
    X = torch.empty(count, n, d, dtype=dtype)
    labels = torch.empty(count, dtype=torch.int64)
    for trial in range(count):
        drawn = stream.child("sample", trial=trial).normal(n, d, dtype=torch.float32).numpy()
        _scale(drawn, _norms(drawn), X[trial].numpy())
        # Only the sign of the product matters, so the direction needs no norm.
        labels[trial] = 1 if X[trial].double().flatten() @ direction >= 0 else -1
    return Samples(X, labels, np.full(count, -1))


def _norms(row: np.ndarray) -> np.ndarray:
    """The tokens' norms, taken in float64."""
    return np.sqrt(np.einsum("nd,nd->n", row, row, dtype=np.float64))


def _scale(row: np.ndarray, norms: np.ndarray, target: np.ndarray) -> None:
    """The tokens of float32 ``row`` scaled to norm √d in ``target``, which may be ``row``."""
    factors = (math.sqrt(row.shape[-1]) / norms)[:, None]
    np.multiply(row, factors, out=target, casting="same_kind")
