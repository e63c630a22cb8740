"""Samples x in R^d with norm √d and labels ±1: synthetic, scikit-learn's digits, or texts.

Digits and texts have a large mean, which theory takes away: it is that of the training samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch

from wordsens.data.embeddings import open_embeddings
from wordsens.errors import UserError
from wordsens.randomness import Stream

DIGITS = 1797  # images of 8 × 8 pixels
PIXELS = 64


@dataclass(frozen=True)
class Vectors:
    """Training samples X (N, d) with labels y (N,), and points x (m, d) that are none of them."""

    X: torch.Tensor
    y: torch.Tensor
    x: torch.Tensor


def draw_vectors(
    source: str | Path | None,
    N: int,
    d: int,
    points: int,
    stream: Stream,
    *,
    labels: str = "random",
    tokens: int = 1,
    key: str = "robustness",
) -> Vectors:
    """N training samples and ``points`` others, float64, rows centred and scaled to √d.

    ``source`` is None for independent standard Gaussians, "digits", or an embeddings file, of which
    a text is the mean of its first ``tokens`` tokens' first d dimensions.  ``labels`` are "random"
    signs, or "own": whether a digit is even, a text's label; synthetic samples have the sign of a
    linear function.  Raises ``UserError``, naming ``key``, for more than there is.
    """
    if source is None:
        rows = stream.child("samples").normal(N + points, d, dtype=torch.float64)
        own = torch.sign(rows @ stream.child("direction").normal(d, dtype=torch.float64))
        centre = torch.zeros(d, dtype=torch.float64)
    else:
        values, signs = _digits() if source == "digits" else _texts(Path(source), tokens, d, key)
        if d > values.shape[1] or (source == "digits" and d != PIXELS):
            raise UserError(f"{key}.d: is {d}; allowed with {source}: {values.shape[1]}")
        if N + points > len(values):
            raise UserError(
                f"{key}.N: is {N}, besides {points} points, but {source} has {len(values)}; "
                f"allowed: at most {len(values) - points}"
            )
        order = stream.child("samples").generator().permutation(len(values))[: N + points]
        rows = torch.from_numpy(values[order][:, :d]).to(torch.float64)
        own = torch.from_numpy(signs[order]).to(torch.float64)
        centre = rows[:N].mean(0)
    rows = rows - centre
    norms = rows.norm(dim=1, keepdim=True)
    if not bool((norms > 0).all()):
        raise UserError(f"{key}.N: is {N}, but a sample of {source} equals the mean; take more")
    rows = rows * (d**0.5 / norms)
    if labels == "random":
        own = torch.sign(stream.child("labels").normal(N + points, dtype=torch.float64))
    return Vectors(rows[:N], torch.where(own[:N] < 0, -1.0, 1.0).to(torch.float64), rows[N:])


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """The images as rows (1797, 64), and +1 for even digits, −1 for odd ones."""
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    return images, np.where(digit % 2 == 0, 1, -1)


@lru_cache(maxsize=4)
def _texts(path: Path, tokens: int, d: int, key: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean embedding of the first tokens of every text that has so many, and the labels."""
    data = open_embeddings(path)
    usable = np.flatnonzero(data.usable >= tokens)
    if not len(usable):
        raise UserError(
            f"{key}.tokens: is {tokens}, but the longest sample in {path} has {data.usable.max()}"
        )
    if d > data.dim:
        raise UserError(
            f"{key}.d: is {d}, but the embeddings in {path} have dimension {data.dim}; allowed: at "
            f"most {data.dim}"
        )
    means = [
        data.rows(part, tokens, d).mean(1, dtype=np.float64)
        for part in np.array_split(usable, max(1, len(usable) // 256))
    ]
    return np.concatenate(means), data.labels[usable]
