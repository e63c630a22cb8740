"""Minimum-norm interpolators f(x) = φ(x)ᵀθ*, θ* = Φᵀ K⁺ y, in kernel form.

With X (n, d) the training samples, y their labels, K = ΦΦᵀ and α = K⁺y:

    random features   φ(x) = ϕ(Vx)            K = ϕ(XVᵀ) ϕ(XVᵀ)ᵀ
                      ∇f(x) = Vᵀ (ϕ'(Vx) ∘ Φᵀα)

    tangent features  φ(x) = x ⊗ ϕ'(Wx)       K = XXᵀ ∘ AAᵀ,   A = ϕ'(XWᵀ)
                      ∇f(x) = Xᵀ (α ∘ Aϕ'(Wx)) + Wᵀ (ϕ''(Wx) ∘ Aᵀ(α ∘ Xx))

Tangent features are the gradient, in the first layer, of the antisymmetric two-layer network of the
talk, Σ_{i≤k} ϕ(w_iᵀx) − Σ_{i>k} ϕ(w_iᵀx) with w_{k+i} = w_i, whose output is zero at the start.
Their p = dk numbers are never formed; V and W pass by in chunks of rows (``rows``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch

from wordsens.activations import Activation
from wordsens.pseudoinverse import GramFactor
from wordsens.robustness.rows import Rows

KEPT_BYTES = 1 << 28  # A is kept between evaluations up to this size, else made again
POINTS_BYTES = 1 << 26  # of what one evaluation holds for a block of points, roughly


class Interpolator(ABC):
    """f interpolates labels y (n,) at X (n, d), both float64; see the module for the algebra.

    Samples of another shape, such as texts (n, words, dimension), are taken as long vectors.

    alpha        K⁺y (n,)
    parameters   p, the number of features
    condition    of K; ``rank`` is how many of its eigenvalues are not rounding
    residual     max_i |f(x_i) − y_i|
    """

    name: ClassVar[str]

    def __init__(self, X: torch.Tensor, y: torch.Tensor, rows: Rows, phi: Activation) -> None:
        self.shape = X.shape[1:]
        self.X, self.y, self.rows, self.phi = X.flatten(1), y, rows, phi
        K = self._gram()
        factor = GramFactor(K, torch.finfo(torch.float64).eps)
        self.condition, self.rank = factor.condition, factor.rank
        self.alpha = factor.solve(y)
        self.residual = (K @ self.alpha - y).abs().max().item()
        self._fitted()

    @property
    @abstractmethod
    def parameters(self) -> int: ...

    @abstractmethod
    def _gram(self) -> torch.Tensor: ...

    def _fitted(self) -> None:  # noqa: B027  (there may be nothing to prepare)
        """What evaluations share."""

    @abstractmethod
    def _at(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f (B,) and its gradient (B, d) at a block of points."""

    def value_and_gradient(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f and ∇f at points x (..., d): (...) and (..., d)."""
        flat = x.reshape(-1, self.X.shape[1])
        held = 8 * (3 * self.rows.size + 3 * len(self.X) + 2 * self.X.shape[1])
        parts = [self._at(part) for part in flat.split(max(1, POINTS_BYTES // held))]
        f, gradient = (torch.cat(each) for each in zip(*parts, strict=True))
        return f.reshape(x.shape[: x.ndim - len(self.shape)]), gradient.reshape(x.shape)

    @abstractmethod
    def gradient_lipschitz(self, x: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
        """An upper bound on the Lipschitz constant of ∇f over balls around x (B, d): (..., B).

        ``radius`` is (..., B).  Infinite where the activation's derivatives are not bounded or
        their bounds not known.
        """


class RandomFeaturesInterpolator(Interpolator):
    """φ(x) = ϕ(Vx), p = k."""

    name = "rf"

    @property
    def parameters(self) -> int:
        return self.rows.width

    def _gram(self) -> torch.Tensor:
        K = self.X.new_zeros(len(self.X), len(self.X))
        for V in self.rows:
            Phi = self.phi.value(self.X @ V.mT)
            K.addmm_(Phi, Phi.mT)
        return K

    def _fitted(self) -> None:
        parts = [self.alpha @ self.phi.value(self.X @ V.mT) for V in self.rows]
        self.theta = torch.cat(parts).split(self.rows.size)  # as many numbers as rows, not entries

    def _at(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        f, gradient = x.new_zeros(len(x)), torch.zeros_like(x)
        for V, theta in zip(self.rows, self.theta, strict=True):
            z = x @ V.mT
            f += self.phi.value(z) @ theta
            gradient.addmm_(self.phi.derivative(z) * theta, V)
        return f, gradient

    def gradient_lipschitz(self, x: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
        """sup |ϕ''| λ_max(Vᵀ diag|θ| V), as −|θ_i| ≤ ϕ''(·)θ_i / sup |ϕ''| ≤ |θ_i|."""
        if not self.phi.curvature < torch.inf:
            return torch.full_like(radius, torch.inf)
        M = x.new_zeros(x.shape[1], x.shape[1])
        for V, theta in zip(self.rows, self.theta, strict=True):
            M.addmm_(V.mT * theta.abs(), V)
        return (self.phi.curvature * torch.linalg.eigvalsh(M)[-1]).expand(radius.shape)


class TangentInterpolator(Interpolator):
    """φ(x) = x ⊗ ϕ'(Wx), p = dk."""

    name = "ntk"
    _kept: list[torch.Tensor] | None = None

    @property
    def parameters(self) -> int:
        return self.rows.width * self.rows.d

    def _slopes(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Chunks of W and the columns of A = ϕ'(XWᵀ) that belong to them."""
        if self._kept is not None:
            yield from zip(self.rows, self._kept, strict=True)
            return
        made = []
        keep = 8 * len(self.X) * self.rows.width <= KEPT_BYTES
        for W in self.rows:
            A = self.phi.derivative(self.X @ W.mT)
            if keep:
                made.append(A)
            yield W, A
        if keep:
            self._kept = made

    def _gram(self) -> torch.Tensor:
        K = self.X.new_zeros(len(self.X), len(self.X))
        for _, A in self._slopes():
            K.addmm_(A, A.mT)
        return K.mul_(self.X @ self.X.mT)

    def _at(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = self.X @ x.mT  # (n, B)
        weighted = self.alpha[:, None] * inner
        slopes = torch.zeros_like(inner)  # A ϕ'(Wx)
        gradient = torch.zeros_like(x)
        for W, A in self._slopes():
            z = x @ W.mT
            slopes.addmm_(A, self.phi.derivative(z).mT)
            gradient.addmm_(self.phi.second(z) * (weighted.mT @ A), W)
        f = (weighted * slopes).sum(0)
        return f, gradient.addmm_((self.alpha[:, None] * slopes).mT, self.X)

    def gradient_lipschitz(self, x: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
        """2 sup|ϕ''| ‖W‖‖Θ‖ + sup|ϕ'''| λ_max(Wᵀ diag(max |θ_i·x|) W), Θ = Aᵀ diag(α) X.

        The Hessian is Σ_i ϕ''(w_i·x)(w_iθ_iᵀ + θ_iw_iᵀ) + ϕ'''(w_i·x)(θ_i·x) w_iw_iᵀ, and |θ_i·x|
        is at most its value at the centre plus ‖θ_i‖ times the radius; λ_max of the sum of the
        two is at most the sum of theirs.
        """
        if not (self.phi.curvature < torch.inf and self.phi.third < torch.inf):
            return torch.full_like(radius, torch.inf)
        d = x.shape[1]
        WW, TT, around = (x.new_zeros(d, d) for _ in range(3))
        centre = x.new_zeros(len(x) if self.phi.third else 0, d, d)
        for W, A in self._slopes():
            Theta = (A.mT * self.alpha) @ self.X  # one chunk of rows
            WW.addmm_(W.mT, W)
            TT.addmm_(Theta.mT, Theta)
            around.addmm_(W.mT * Theta.norm(dim=1), W)
            for one, weight in zip(centre, (x @ Theta.mT).abs(), strict=False):
                one.addmm_(W.mT * weight, W)
        norms = torch.linalg.eigvalsh(WW)[-1] * torch.linalg.eigvalsh(TT)[-1]
        bound = (2 * self.phi.curvature * norms.clamp_min(0).sqrt()).expand(radius.shape)
        if not self.phi.third:
            return bound
        largest = torch.linalg.eigvalsh(centre)[:, -1] + radius * torch.linalg.eigvalsh(around)[-1]
        return bound + self.phi.third * largest


INTERPOLATORS: dict[str, type[Interpolator]] = {
    cls.name: cls for cls in (RandomFeaturesInterpolator, TangentInterpolator)
}
