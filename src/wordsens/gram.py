"""Gram matrices in float64 of rows in any precision, and their square roots."""

from __future__ import annotations

from collections.abc import Iterator

from wordsens.deferred import torch

CHUNK_BYTES = 1 << 24  # features converted to float64 at once
PANEL = 256  # rows of K computed together; only its lower half is


def gram(Phi: torch.Tensor) -> torch.Tensor:
    """ΦΦᵀ (N, N) in float64, summed over pieces of Φ's columns."""
    N = len(Phi)
    K = torch.zeros(N, N, dtype=torch.float64, device=Phi.device)
    for _, part in float64_columns(Phi):
        for first in range(0, N, PANEL):
            last = min(first + PANEL, N)
            K[first:last, :last].addmm_(part[first:last], part[:last].mT)
    return K.tril() + K.tril(-1).mT


def float64_columns(Phi: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Φ in float64, piece by piece: (slice of columns, Φ[:, columns]).

    The pieces share one buffer: fresh memory of that size costs more than the conversion.
    """
    N, p = Phi.shape
    width = min(p, max(1, CHUNK_BYTES // (8 * N)))
    buffer = torch.empty(N, width, dtype=torch.float64, device=Phi.device)
    for first in range(0, p, width):
        columns = slice(first, min(first + width, p))
        yield columns, buffer[:, : columns.stop - first].copy_(Phi[:, columns])


def square_root(G: torch.Tensor) -> torch.Tensor:
    """Some L with L Lᵀ = G: Cholesky's factor, or that of eigenvectors where G is singular."""
    L, failed = torch.linalg.cholesky_ex(G)
    if not failed.item():
        return L
    values, vectors = torch.linalg.eigh(G)
    return vectors * values.clamp_min(0).sqrt()
