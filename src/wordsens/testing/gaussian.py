"""Properties of every Gaussian matrix, stored or lazy, in both precisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from wordsens.gaussian import GaussianMatrix
from wordsens.randomness import Stream

ROWS, COLUMNS, BATCH = 60, 45, 3
PRECISIONS = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)
Asked = list[tuple[torch.Tensor, torch.Tensor]]


def streams(seed: int = 0, batch: int = BATCH) -> list[Stream]:
    return [Stream(seed, "V", trial=t) for t in range(batch)]


def tolerance(dtype: torch.dtype) -> float:
    return 1e-11 if dtype == torch.float64 else 5e-4


def ask(V: GaussianMatrix, rounds: int = 12, seed: int = 1) -> tuple[Asked, Asked]:
    """Mixed queries of both sides, single vectors and blocks, some repeated."""
    g = torch.Generator().manual_seed(seed)
    right: Asked = []
    left: Asked = []
    for i in range(rounds):
        h = torch.randn(V.batch, 1 + i % 3, V.columns, generator=g, dtype=torch.float64).to(V.dtype)
        u = torch.randn(V.batch, 1 + i % 2, V.rows, generator=g, dtype=torch.float64).to(V.dtype)
        if i % 4 == 3:
            h[:, 0] = right[0][0][:, 0] * 2
        right.append((h, V.matvec(h)))
        left.append((u, V.rmatvec(u)))
    return right, left


class GaussianConformance:
    """Derive a test class and say how a matrix is drawn; everything else is inherited."""

    def make(
        self, rows: int, columns: int, streams: Sequence[Stream], **options: Any
    ) -> GaussianMatrix:
        """Matrices rows × columns, one per stream; options ``std``, ``dtype``."""
        raise NotImplementedError

    @PRECISIONS
    def test_adjoint_identity(self, dtype: torch.dtype) -> None:
        right, left = ask(self.make(ROWS, COLUMNS, streams(), dtype=dtype))
        for h, Vh in right:
            for u, Vu in left:
                a, b = Vh @ u.mT, h @ Vu.mT
                assert (a - b).abs().max() <= tolerance(dtype) * ROWS

    @PRECISIONS
    def test_linearity_and_repeatability(self, dtype: torch.dtype) -> None:
        V = self.make(ROWS, COLUMNS, streams(), dtype=dtype)
        right, left = ask(V)
        h, Vh = right[2]
        assert torch.allclose(V.matvec(h), Vh, atol=tolerance(dtype))
        (a, Va), (b, Vb) = right[0], right[3]
        mix = 2 * a[:, :1] - 3 * b[:, :1]
        wanted = 2 * Va[:, :1] - 3 * Vb[:, :1]
        assert torch.allclose(V.matvec(mix), wanted, atol=20 * tolerance(dtype))
        u, Vu = left[-1]
        assert torch.allclose(V.rmatvec(u), Vu, atol=tolerance(dtype))

    @PRECISIONS
    def test_a_matrix_does_not_depend_on_its_companions(self, dtype: torch.dtype) -> None:
        many, _ = ask(self.make(ROWS, COLUMNS, streams(), dtype=dtype))
        g_many = [answer[1:2] for _, answer in many]
        alone = self.make(ROWS, COLUMNS, streams()[1:2], dtype=dtype)
        questions, others = ask(self.make(ROWS, COLUMNS, streams(), dtype=dtype))
        for (h, _), (u, _), wanted in zip(questions, others, g_many, strict=True):
            assert torch.allclose(alone.matvec(h[1:2]), wanted, atol=tolerance(dtype))
            alone.rmatvec(u[1:2])

    def test_some_of_a_batch_answer_as_in_it(self) -> None:
        """What was asked before is answered alike, and a new answer keeps to the adjoint."""
        V = self.make(ROWS, COLUMNS, streams())
        right, left = ask(V)
        chosen = [BATCH - 1, 0]
        some = V.take(chosen)
        assert (some.batch, some.rows, some.columns) == (2, ROWS, COLUMNS)
        for h, Vh in right:
            assert torch.allclose(some.matvec(h[chosen]), Vh[chosen], atol=1e-10)
        for u, Vu in left:
            assert torch.allclose(some.rmatvec(u[chosen]), Vu[chosen], atol=1e-10)
        h = torch.randn(2, 1, COLUMNS, dtype=torch.float64)
        u = left[0][0][chosen]
        gap = some.matvec(h) @ u.mT - h @ some.rmatvec(u).mT
        assert gap.abs().max() <= 1e-9

    def test_autograd_is_the_transpose_product(self) -> None:
        V = self.make(ROWS, COLUMNS, streams())
        h = torch.randn(BATCH, 2, COLUMNS, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(BATCH, 2, ROWS, dtype=torch.float64)
        (V(h) * weight).sum().backward()
        assert h.grad is not None
        assert torch.allclose(h.grad, V.rmatvec(weight), atol=1e-11)

    def test_norm_bound_holds(self) -> None:
        V = self.make(ROWS, COLUMNS, streams())
        whole = V.matvec(torch.eye(COLUMNS, dtype=torch.float64).expand(BATCH, -1, -1)).mT
        assert (torch.linalg.matrix_norm(whole, ord=2) <= V.norm_bound() * (1 + 1e-12)).all()

    def test_a_zero_vector_has_a_zero_image(self) -> None:
        V = self.make(ROWS, COLUMNS, streams())
        assert V.matvec(torch.zeros(BATCH, 1, COLUMNS, dtype=torch.float64)).abs().max() == 0
