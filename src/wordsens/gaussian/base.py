"""What a batch of Gaussian matrices can be asked for: products and transpose products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

from wordsens.deferred import torch


class GaussianMatrix(ABC):
    """A batch of independent matrices V, seen only through products.

    Shapes: ``batch`` matrices of ``rows`` × ``columns``.  Vectors lie along the last axis and
    any number of them along the one before it.
    """

    batch: int
    rows: int
    columns: int
    dtype: torch.dtype
    device: torch.device

    @abstractmethod
    def matvec(self, h: torch.Tensor) -> torch.Tensor:
        """V h for vectors h (batch, b, columns); returns (batch, b, rows)."""

    @abstractmethod
    def rmatvec(self, g: torch.Tensor) -> torch.Tensor:
        """Vᵀ g for vectors g (batch, b, rows); returns (batch, b, columns)."""

    @abstractmethod
    def norm_bound(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        """An upper bound (batch,) on the operator norm of V, or of some of its columns.

        Exact where V is stored; otherwise it holds with the probability stated there.
        """

    @abstractmethod
    def take(self, index: list[int]) -> GaussianMatrix:
        """Some matrices of the batch, with everything that they have answered.

        From then on a matrix drawn lazily is asked through one of the two objects only.
        """

    def part(self, index: torch.Tensor) -> GaussianMatrix:
        """Some columns of V, as a matrix."""
        return Columns(self, index)

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        """V h, differentiable in h: the backward pass asks for the transpose product."""
        return _product().apply(h, self)


class Columns(GaussianMatrix):
    """Some columns of a parent matrix; every product is answered by the parent."""

    def __init__(self, parent: GaussianMatrix, index: torch.Tensor) -> None:
        self.parent, self.index = parent, index
        self.batch, self.rows, self.columns = parent.batch, parent.rows, len(index)
        self.dtype, self.device = parent.dtype, parent.device

    def matvec(self, h: torch.Tensor) -> torch.Tensor:
        whole = h.new_zeros(*h.shape[:-1], self.parent.columns)
        return self.parent.matvec(whole.index_copy(-1, self.index, h))

    def rmatvec(self, g: torch.Tensor) -> torch.Tensor:
        return self.parent.rmatvec(g)[..., self.index]

    def take(self, index: list[int]) -> Columns:
        return Columns(self.parent.take(index), self.index)

    def norm_bound(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        return self.parent.norm_bound(self.index if columns is None else self.index[columns])


@cache
def _product() -> Any:
    """V h with Vᵀ as its backward pass."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, h: torch.Tensor, matrix: GaussianMatrix) -> torch.Tensor:  # type: ignore[override]
            ctx.matrix = matrix
            return matrix.matvec(h)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
            return ctx.matrix.rmatvec(grad), None

    return Product
