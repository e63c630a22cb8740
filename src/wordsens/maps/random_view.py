"""The one-token view of (deep) random features: the changed words meet their own columns only."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from wordsens.activations import Activation
from wordsens.deferred import torch
from wordsens.gaussian import GaussianMatrix
from wordsens.perturbation import OneTokenView, Pullback


class RandomFeaturesView(OneTokenView):
    """φ(X^I(·)) of (deep) random features, each set of positions with columns V_I of its own.

    ``rest`` z (T, P, k); ``block`` T·P matrices k × m d; deeper layers one matrix per trial.
    """

    def __init__(
        self,
        tokens: torch.Tensor,
        rest: torch.Tensor,
        block: GaussianMatrix,
        deeper: Sequence[GaussianMatrix],
        phi: Activation,
    ) -> None:
        self.tokens, self.rest, self.block, self.deeper, self.phi = (
            tokens,
            rest,
            block,
            deeper,
            phi,
        )
        flat = tokens.flatten(0, 1).flatten(1)[:, None]
        a = block.matvec(flat).reshape(*tokens.shape[:2], 1, -1) + rest[:, :, None]
        self.before = [a]  # pre-activations of the unchanged sample, (T, P, 1, k)
        for V in deeper:
            self.before.append(self._times(V, phi.value(self.before[-1])))
        self.base = phi.value(self.before[-1])  # (T, P, 1, k)
        self.norm = torch.linalg.vector_norm(self.base[:, :, 0], dim=-1)
        self.hilly = bool(deeper)
        # each feature moves away from where it was along a ray, if ϕ never falls
        self.grows_along_rays = not deeper and phi.monotone

    def precise(self) -> RandomFeaturesView:
        view = copy.copy(self)
        view.tokens = self.tokens.double()
        view.before = [a.double() for a in self.before]
        view.base = self.phi.value(view.before[-1])
        return view

    def squared_change(self, delta: torch.Tensor) -> torch.Tensor:
        view = self.precise()
        v = view.tokens[:, :, None] + delta[:, :, None].to(view.tokens)
        return ((view.features(v) - view.base) ** 2).sum(-1)[:, :, 0]

    def trials(self, index: list[int]) -> RandomFeaturesView:
        view = copy.copy(self)
        count = self.tokens.shape[1]
        view.tokens, view.rest, view.base, view.norm = (
            x[index] for x in (self.tokens, self.rest, self.base, self.norm)
        )
        view.before = [a[index] for a in self.before]
        view.block = self.block.take([count * t + p for t in index for p in range(count)])
        view.deeper = [V.take(index) for V in self.deeper]
        return view

    def _times(self, V: GaussianMatrix, h: torch.Tensor) -> torch.Tensor:
        """V h for h (T, P, S, k), in the matrix's own precision."""
        return V.matvec(h.flatten(1, 2).to(V.dtype)).to(h.dtype).reshape(*h.shape[:3], -1)

    def _layers(self, v: torch.Tensor) -> list[torch.Tensor]:
        """Pre-activations of every layer, (T, P, S, k).

        Only what changes meets the matrices, so that small changes keep their digits.
        """
        trials, count, candidates = v.shape[:3]
        delta = (v - self.tokens[:, :, None]).reshape(trials * count, candidates, -1)
        moved = self.block.matvec(delta.to(self.block.dtype)).to(v.dtype)
        layers = [moved.reshape(trials, count, candidates, -1).add_(self.before[0])]
        for V, base, a in zip(self.deeper, self.before[:-1], self.before[1:], strict=True):
            h = self.phi.value(layers[-1]) - self.phi.value(base)
            layers.append(self._times(V, h).add_(a))
        return layers

    def _pull(
        self, layers: list[torch.Tensor], g: torch.Tensor, like: torch.Tensor
    ) -> torch.Tensor:
        """∇_v of anything whose gradient in φ is g (T, P, S, k)."""
        for V, a in zip(self.deeper[::-1], layers[:0:-1], strict=True):
            g = g * self.phi.derivative(a)
            g = V.rmatvec(g.flatten(1, 2).to(V.dtype)).to(g.dtype).reshape(g.shape)
        g = (g * self.phi.derivative(layers[0])).flatten(0, 1).to(self.block.dtype)
        return self.block.rmatvec(g).to(like.dtype).reshape(like.shape)

    def features(self, v: torch.Tensor) -> torch.Tensor:
        return self.phi.value(self._layers(v)[-1])

    def value(self, v: torch.Tensor) -> torch.Tensor:
        gap = self.features(v) - self.base
        return (gap * gap).sum(-1)

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        layers = self._layers(v)
        gap = self.phi.value(layers[-1]) - self.base
        return (gap * gap).sum(-1), self._pull(layers, 2 * gap, v)

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        layers = self._layers(v)
        phi = self.phi.value(layers[-1])
        value = (phi.flatten(1, 2) @ u.mT).unflatten(1, v.shape[1:3])

        def pullback(weight: torch.Tensor) -> torch.Tensor:
            g = (weight.flatten(1, 2) @ u).unflatten(1, v.shape[1:3])
            return self._pull(layers, g, v)

        return value, pullback

    def bound(self) -> torch.Tensor:
        """Lip(ϕ) ‖V_I‖ √(m d) for one layer, as in the proof of Theorem 4.1; NaN for more."""
        if self.deeper:
            return super().bound()
        reach = self.radius * self.tokens.shape[2] ** 0.5
        rounding = 1 + 16 * torch.finfo(self.block.dtype).eps
        norm = self.block.norm_bound().reshape(self.norm.shape)
        return norm * (self.phi.lipschitz * reach * rounding)
