"""The one-token view of (deep) random features: the changed words meet their own columns only."""

from __future__ import annotations

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
        self.base = self.features(tokens[:, :, None])  # (T, P, 1, k)
        self.norm = torch.linalg.vector_norm(self.base[:, :, 0], dim=-1)

    def _layers(self, v: torch.Tensor) -> list[torch.Tensor]:
        """Pre-activations of every layer, (T, P, S, k)."""
        trials, count, candidates = v.shape[:3]
        moved = self.block.matvec(v.reshape(trials * count, candidates, -1))
        a = moved.reshape(trials, count, candidates, -1).add_(self.rest[:, :, None])
        layers = [a]
        for V in self.deeper:
            h = self.phi.value(layers[-1]).flatten(1, 2)
            layers.append(V.matvec(h).reshape(trials, count, candidates, -1))
        return layers

    def _pull(
        self, layers: list[torch.Tensor], g: torch.Tensor, like: torch.Tensor
    ) -> torch.Tensor:
        """∇_v of anything whose gradient in φ is g (T, P, S, k)."""
        for V, a in zip(self.deeper[::-1], layers[:0:-1], strict=True):
            g = g * self.phi.derivative(a)
            g = V.rmatvec(g.flatten(1, 2)).reshape(g.shape)
        g = g * self.phi.derivative(layers[0])
        return self.block.rmatvec(g.flatten(0, 1)).reshape(like.shape)

    def features(self, v: torch.Tensor) -> torch.Tensor:
        return self.phi.value(self._layers(v)[-1])

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
        return self.block.norm_bound().reshape(self.norm.shape) * self.phi.lipschitz * reach
