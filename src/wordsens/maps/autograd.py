"""A one-token view of any differentiable map: recompute it, and let autograd find the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wordsens.deferred import torch
from wordsens.perturbation import OneTokenView, Pullback

WORKING_BYTES = 1 << 28  # what the changed samples of one evaluation may take, roughly


class AutogradView(OneTokenView):
    """φ(X^I(·)) by φ itself: every evaluation costs a full pass over all n words, and a gradient
    another.

    Right for every map whose ``features`` are differentiable in X, and so the way to begin; a view
    that recomputes only what a changed word meets is often n times faster (``AttentionView``).
    ``features`` takes (T, ..., n, d), X is (T, n, d), ``sets`` (P, m).
    """

    def __init__(
        self,
        features: Callable[[torch.Tensor], torch.Tensor],
        X: torch.Tensor,
        sets: torch.Tensor,
    ) -> None:
        self.map, self.X, self.sets = features, X, sets
        self.tokens = X[:, sets]  # (T, P, m, d)
        self.base = features(X).detach()  # (T, *features)
        norm = torch.linalg.vector_norm(self.base.flatten(1), dim=1)
        self.norm = norm[:, None].expand(-1, len(sets))

    def select(self, positions: slice) -> AutogradView:
        chosen = AutogradView(self.map, self.X, self.sets[positions])
        chosen.reach = self.reach
        return chosen

    def trials(self, chosen: Sequence[int]) -> AutogradView:
        """The view of some of its samples; the map still sees all, as it may hold a draw each."""
        index = list(chosen)

        def features(X: torch.Tensor) -> torch.Tensor:
            shape = (-1, *[1] * (X.ndim - 3), *self.X.shape[-2:])
            whole = self.X.reshape(shape).repeat(1, *X.shape[1:-2], 1, 1)
            whole = whole.index_put((torch.tensor(index, device=X.device),), X)
            return self.map(whole)[index]

        some = AutogradView(features, self.X[index], self.sets)
        some.reach = self.reach
        return some

    def sets_at_once(self, candidates: int) -> int | None:
        floats = 8 * candidates * (self.X.numel() + self.base.numel())
        return max(1, WORKING_BYTES // (floats * self.X.element_size()))

    def features(self, v: torch.Tensor) -> torch.Tensor:
        trials, count, candidates, m, d = v.shape
        whole = self.X[:, None, None].expand(-1, count, candidates, -1, -1)
        index = self.sets[:, None, :, None].expand(trials, count, candidates, m, d)
        return self.map(whole.scatter(-2, index, v))

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            moving = v.detach().requires_grad_()
            gap = self.features(moving) - self.base[:, None, None]
            value = (gap * gap).flatten(3).sum(-1)
            (grad,) = torch.autograd.grad(value.sum(), moving)
        return value.detach(), grad

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        with torch.enable_grad():
            moving = v.detach().requires_grad_()
            phi = self.features(moving).flatten(3)  # (T, P, S, p)
            value = (phi.flatten(1, 2) @ u.flatten(2).mT).unflatten(1, v.shape[1:3])

        def pullback(weight: torch.Tensor) -> torch.Tensor:
            return torch.autograd.grad(value, moving, weight, retain_graph=True)[0]

        return value.detach(), pullback
