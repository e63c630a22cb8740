"""Attention layers with random weights.

    φ(X)_j = Σ_k s_jk value(x_k),    s_j = weights of the scores ⟨query(x_j), key(x_k)⟩/τ,

with linear projections query, key and value per head and a temperature τ.  RAF (3) has
query = Wᵀ/√d, key and value the identity; QKV (2) has all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.maps.attention.normalization import Normalization
from wordsens.maps.attention.state import AttentionState, Projection
from wordsens.maps.attention.view import AttentionView
from wordsens.maps.base import FeatureMap
from wordsens.maps.declaration import DEFAULTS, Effort, LossEffort, MapOptions

LOW = 128  # dimensions in which few starts come to the best maximum where words share a mean
SMALL, TINY = 5_000, 100  # n·d up to which losses are small problems, and the smallest
JUMPING = 1_000  # n·d up to which the jumps of ReLU attention matter to losses
RUGGED = 6_000  # n·d up to which a start that alone came to the best maximum happens to miss one
INFINITY = float("inf")
Layer = TypeVar("Layer", bound="AttentionMap")


class AttentionMap(FeatureMap):
    """A layer of attention heads; features are (n, heads · value dimension)."""

    effort = Effort(starts=32, anneal=50, steps=50, halve=8, plain=12)
    normalization: Normalization
    query: Projection
    key: Projection
    value: Projection

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        if cls.normalization.kinks:
            return cls.effort
        if d <= LOW:  # annealing leads astray there, too, so that many plain ones climb
            return replace(cls.effort, starts=96, plain=None, afresh=48)
        return cls.effort if n * d > RUGGED else replace(cls.effort, afresh=48)

    @classmethod
    def with_weights(
        cls,
        weights: Mapping[str, Any],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> AttentionMap:
        made = super().with_weights(weights, options, dtype=dtype, device=device)
        assert isinstance(made, AttentionMap)
        return tempered(made, options)

    @classmethod
    def loss_effort_for(cls, n: int, d: int) -> LossEffort:
        if not cls.normalization.kinks:
            return super().loss_effort_for(n, d)
        small = SMALL // (n * d)
        if not small:
            return LossEffort(16, 40, 40, rounds=1, beside=4, settle=2, halve=(12, 24))
        # rows come and go with the signs of their scores, which makes tiny problems the hardest
        tiny, jumps = n * d <= TINY, n * d <= JUMPING
        starts, slide = (150, 100) if tiny else (48, 80) if jumps else (24, 0)
        beside = max(2, min(20 if tiny else 10, small))
        return LossEffort(starts, 40, 40, rounds=4, beside=beside, settle=8, slide=slide)

    @classmethod
    def score_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return n * n * options.heads

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X) (2), (3): (..., n, d) → (..., n, heads · value dimension); differentiable in X."""
        X = self.cast(X)
        if self.batch is None or X.ndim == 3:
            out = self.state(X.reshape(-1, *X.shape[-2:])).output
        else:  # one draw of the weights per leading index, several samples each
            out = torch.stack(
                [self.state(sample).output for sample in X.flatten(1, -3).unbind(1)], dim=1
            )
        out = out.movedim(-3, -2).flatten(-2)  # heads side by side
        return out.reshape(*X.shape[:-1], out.shape[-1])

    def check_size(self, n: int, d: int) -> None:
        matrix = self.query.matrix
        if matrix is not None and matrix.shape[-1] != d:
            raise UserError(
                f"X has tokens of dimension {d}; this {self.name} map was built for d = "
                f"{matrix.shape[-1]}"
            )

    def state(self, X: torch.Tensor) -> AttentionState:
        """Everything about samples X (T, n, d) that all positions share."""
        return AttentionState.of(X, self.query, self.key, self.value, self.normalization)

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> AttentionView:
        return AttentionView(self.state(X), sets)

    def attention(self, X: torch.Tensor) -> AttentionState:
        return self.state(X[None])


def temperature(options: MapOptions) -> float:
    """The option τ, by which scores are divided; ``UserError`` where it is no positive number."""
    value = options.more.get("temperature", 1)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < INFINITY:
        raise UserError(f"temperature = {value!r} must be a positive number")
    return float(value)


def tempered(made: Layer, options: MapOptions) -> Layer:
    """The map with its scores divided by τ; at τ = 1 no bit of it changes."""
    made.chosen, tau = options, temperature(options)
    if tau != 1 and made.query.matrix is not None:
        made.query = Projection(made.query.matrix / tau)
    return made
