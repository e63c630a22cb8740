"""Gram matrices in float64 of rows in any precision, and their square roots."""

from __future__ import annotations

from collections.abc import Iterator

from wordsens.deferred import torch

CHUNK_BYTES = 1 << 24  # features converted to float64 at once


def gram(Phi: torch.Tensor) -> torch.Tensor:
    """ΦΦᵀ (N, N) in float64, summed over pieces of Φ's columns."""
    K = torch.zeros(len(Phi), len(Phi), dtype=torch.float64, device=Phi.device)
    for _, part in float64_columns(Phi):
        K += _square(part)
    return K


def _square(part: torch.Tensor) -> torch.Tensor:
    """A Aᵀ; of one array by itself NumPy has BLAS compute one half only, Torch does not."""
    if part.device.type != "cpu":
        return part @ part.mT
    array = part.numpy()
    return torch.from_numpy(array @ array.T)


def float64_columns(Phi: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Φ in float64, piece by piece: (slice of columns, Φ[:, columns]), to be read only.

    Where Φ is converted, the pieces share one buffer: fresh memory of that size costs more.
    """
    N, p = Phi.shape
    width = min(p, max(1, CHUNK_BYTES // (8 * N)))
    same = Phi.dtype == torch.float64
    buffer = None if same else torch.empty(N, width, dtype=torch.float64, device=Phi.device)
    for first in range(0, p, width):
        columns = slice(first, min(first + width, p))
        part = Phi[:, columns]
        yield columns, part if buffer is None else buffer[:, : part.shape[1]].copy_(part)


def square_root(G: torch.Tensor) -> torch.Tensor:
    """Some L with L Lᵀ = G: Cholesky's factor, or that of eigenvectors where G is singular."""
    L, failed = torch.linalg.cholesky_ex(G)
    if not failed.item():
        return L
    values, vectors = torch.linalg.eigh(G)
    return vectors * values.clamp_min(0).sqrt()
