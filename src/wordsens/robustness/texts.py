"""The minimum-norm interpolator of texts: f(X) = φ(X)ᵀθ* for a feature map φ of X (n, d).

Its gradient in the whole text is that of φ(·)ᵀθ* by autograd; rf and ntk see a text as one long
vector and keep their kernel form (``interpolator``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from wordsens.errors import UserError
from wordsens.glm import LeastSquares

if TYPE_CHECKING:
    from wordsens.maps import FeatureMap

POINTS_BYTES = 1 << 27  # scores, outputs and their gradients of texts differentiated together


class TextInterpolator:
    """f interpolates labels y (N,) at texts X (N, n, d) with the features of ``map``.

    The reported numbers are those of ``Interpolator``; ``parameters`` is the number of features.
    """

    def __init__(self, map: FeatureMap, X: torch.Tensor, y: torch.Tensor) -> None:
        if map.batch is not None:
            raise UserError(f"features: one map is needed, not a batch of {map.batch} draws")
        self.map, self.X, self.y, self.name = map, X, y, map.name
        self.shape = X.shape[1:]
        solution = LeastSquares(map.rows(map.cast(X)), y)
        self.theta, self.parameters = solution.theta.to(map.dtype), len(solution.theta)
        self.condition, self.rank = solution.condition, solution.rank
        self.residual = solution.residual

    def value_and_gradient(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f and ∇f at texts x (..., n, d): (...) and (..., n, d), in float64."""
        flat = self.map.cast(x).reshape(-1, *x.shape[-2:])
        parts = [self._at(part) for part in self._blocks(flat)]
        f, gradient = (torch.cat(each).to(torch.float64) for each in zip(*parts, strict=True))
        return f.reshape(x.shape[:-2]), gradient.reshape(x.shape)

    def _at(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            f = self.map.features(at).flatten(1) @ self.theta
            gradient = torch.autograd.grad(f.sum(), at)[0]  # texts do not see each other
        return f.detach(), gradient

    def _blocks(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        n, d = x.shape[-2:]
        yield from x.split(max(1, POINTS_BYTES // (8 * 8 * n * (n + d))))
