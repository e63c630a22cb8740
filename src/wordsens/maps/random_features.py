"""Random features (1) and deep random features (6), on Gaussian matrices that are never stored.

The changed words meet only their own columns V_I of the first matrix, and the rest of the sample
enters through one Gaussian vector z = Σ_{j ∉ I} V_j x_j ~ N(0, β (D − m d)/D), independent of
V_I.  A sensitivity sweep therefore draws (z, V_I) directly, exactly in law (``draw_view``); no
D × D matrix exists, and no conditioning is needed between tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from wordsens.activations import Activation, activation, he_scale
from wordsens.arguments import real_tensor
from wordsens.errors import UserError
from wordsens.gaussian import Columns, DenseGaussian, GaussianMatrix, LazyGaussian
from wordsens.maps.base import DEFAULTS, Effort, FeatureMap, MapOptions
from wordsens.perturbation import OneTokenView, Pullback
from wordsens.randomness import Stream

QUERIED = 500_000_000  # neurons × steps beyond which a search makes fewer steps, to bound memory


class DeepRandomFeatures(FeatureMap):
    """φ(X) = ϕ(V_L ϕ(… ϕ(V_1 flat(X)))) (6); V_1 is k×D with variance β/D, V_l k×k with β/k.

    β solves E ϕ²(√β ρ) = 1 (7).  ``layers`` are Gaussian matrices with a common batch.
    """

    name = "drf"
    effort = Effort(starts=16, anneal=0, steps=30, halve=8)

    def __init__(
        self, layers: Sequence[GaussianMatrix], phi: Activation, *, batched: bool = False
    ) -> None:
        self.layers, self.phi = list(layers), phi
        for level, (V, below) in enumerate(zip(layers[1:], layers, strict=False), start=2):
            if V.columns != below.rows or V.batch != below.batch:
                raise UserError(
                    f"weights V{level} are {V.rows}×{V.columns} and V{level - 1} "
                    f"{below.rows}×{below.columns}; every layer takes what the one below gives"
                )
        self.options = MapOptions(layers[-1].rows, len(self.layers), phi.name)
        self.batch = layers[0].batch if batched else None
        self.dtype, self.device = layers[0].dtype, layers[0].device

    @classmethod
    def published_schedule(cls, n: int) -> tuple[float, int]:
        return 100.0, 300

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        # few neurons leave many local maxima; many concentrate, and each start costs memory
        neurons = (options.width or n * d) * options.depth
        starts = max(1, min(16, 30_000 // neurons))
        steps = max(15, min(cls.effort.steps, QUERIED // neurons))
        return replace(cls.effort, starts=starts, steps=steps)

    @classmethod
    def scale(cls, phi: Activation) -> float:
        """β: entries of V_1 have variance β/D."""
        return he_scale(phi.name)

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> DeepRandomFeatures:
        D = shape[0] * shape[1]
        k, phi = options.width or D, activation(options.activation)
        first = LazyGaussian(
            k,
            D,
            [s.child("V", layer=1) for s in streams],
            std=(cls.scale(phi) / D) ** 0.5,
            dtype=dtype,
            device=device,
        )
        deeper = cls._deeper(k, options, streams, dtype, device)
        return cls([first, *deeper], phi, batched=True)

    @classmethod
    def _deeper(
        cls,
        k: int,
        options: MapOptions,
        streams: Sequence[Stream],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> list[GaussianMatrix]:
        std = (cls.scale(activation(options.activation)) / k) ** 0.5
        return [
            LazyGaussian(
                k,
                k,
                [stream.child("V", layer=layer) for stream in streams],
                std=std,
                dtype=dtype,
                device=device,
            )
            for layer in range(2, options.depth + 1)
        ]

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X), (..., n, d) → (..., k); differentiable in X."""
        X = self.cast(X, graph=True)
        lead = X.shape[:-2]
        h = X.reshape(self.batch or 1, -1, X.shape[-2] * X.shape[-1])
        for V in self.layers:
            h = self.phi.value(V(h))
        return h.reshape(*lead, h.shape[-1])

    def check_size(self, n: int, d: int) -> None:
        if n * d != self.layers[0].columns:
            raise UserError(
                f"X has n·d = {n * d}; this {self.name} map was built for n·d = "
                f"{self.layers[0].columns}"
            )

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> RandomFeaturesView:
        if len(sets) > 1 or X.shape[0] != self.layers[0].batch:
            raise UserError(
                f"map {self.name} answers one sample and one set of positions per draw at a time; "
                "call it once for each"
            )
        d = X.shape[-1]
        index = (sets[0][:, None] * d + torch.arange(d, device=sets.device)).flatten()
        rest = X.flatten(1).index_fill(1, index, 0)
        z = self.layers[0].matvec(rest[:, None])
        return RandomFeaturesView(
            X[:, sets], z, Columns(self.layers[0], index), self.layers[1:], self.phi
        )

    @classmethod
    def draw_view(
        cls,
        X: torch.Tensor,
        sets: torch.Tensor,
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
    ) -> RandomFeaturesView:
        """(z, V_I) for disjoint position sets, drawn directly; exactly the law of ``draw``."""
        if len(sets.unique()) != sets.numel():
            raise UserError(f"map {cls.name} needs position sets that share no position")
        (trials, n, d), (count, m) = X.shape, sets.shape
        D = n * d
        k, phi = options.width or D, activation(options.activation)
        beta = cls.scale(phi)
        block = LazyGaussian(
            k,
            m * d,
            [s.child("V", layer=1, words=words) for s in streams for words in sets.tolist()],
            std=(beta / D) ** 0.5,
            dtype=X.dtype,
            device=X.device,
        )
        tokens = X[:, sets]
        own = block.matvec(tokens.reshape(trials * count, 1, m * d)).reshape(trials, count, k)
        # the words outside all sets: one vector of the law of Σ V_j x_j
        left = torch.linalg.vector_norm(X.index_fill(1, sets.flatten(), 0), dim=(1, 2))
        rest = torch.stack([s.child("rest").normal(k, dtype=X.dtype) for s in streams])
        rest = rest.to(X.device) * (left * (beta / D) ** 0.5)[:, None]
        z = rest[:, None] + own.sum(1, keepdim=True) - own
        deeper = cls._deeper(k, options, streams, X.dtype, X.device)
        return RandomFeaturesView(tokens, z, block, deeper, phi)


class RandomFeatures(DeepRandomFeatures):
    """φ(X) = ϕ(V flat(X)), V k×D with iid N(0, 1/D) entries (1)."""

    name = "rf"

    @classmethod
    def scale(cls, phi: Activation) -> float:
        return 1.0


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


def dense(name: str, weight: Any, dtype: torch.dtype, device: torch.device | str) -> DenseGaussian:
    """Given weights (k, m) or (T, k, m) as a Gaussian matrix."""
    tensor = real_tensor(f"weights {name}", weight).to(dtype=dtype, device=device)
    if tensor.ndim not in (2, 3) or 0 in tensor.shape:
        raise UserError(
            f"weights {name} have shape {tuple(tensor.shape)}; allowed are (k, m) and (T, k, m)"
        )
    return DenseGaussian(tensor.reshape(-1, *tensor.shape[-2:]))
