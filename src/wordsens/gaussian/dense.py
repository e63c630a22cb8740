"""A Gaussian matrix that is stored: the oracle for the lazy one, and the home of given weights."""

from __future__ import annotations

from collections.abc import Sequence

from wordsens.deferred import torch
from wordsens.gaussian.base import GaussianMatrix
from wordsens.kernels.products import product
from wordsens.randomness import Stream


class DenseGaussian(GaussianMatrix):
    """Stored matrices V, ``weight`` of shape (batch, rows, columns)."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight
        self.batch, self.rows, self.columns = weight.shape
        self.dtype, self.device = weight.dtype, weight.device

    @classmethod
    def draw(
        cls,
        rows: int,
        columns: int,
        streams: Sequence[Stream],
        *,
        std: float = 1.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> DenseGaussian:
        """One matrix with iid N(0, std²) entries per stream, in float64 unless told otherwise."""
        dtype = torch.float64 if dtype is None else dtype
        drawn = torch.stack([stream.normal(rows, columns, dtype=dtype) for stream in streams])
        return cls(drawn.mul_(std).to(device))

    def matvec(self, h: torch.Tensor) -> torch.Tensor:
        return product(h, self.weight)

    def rmatvec(self, g: torch.Tensor) -> torch.Tensor:
        return product(g, self.weight.mT)

    def take(self, index: list[int]) -> DenseGaussian:
        return DenseGaussian(self.weight[index])

    def norm_bound(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        part = self.weight if columns is None else self.weight[..., columns]
        return torch.linalg.matrix_norm(part, ord=2)
