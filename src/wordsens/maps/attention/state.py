"""Samples seen through an attention layer: what all positions share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.kernels.products import product, summed
from wordsens.maps.attention.normalization import Normalization


@dataclass(frozen=True)
class Projection:
    """v ↦ M v for one matrix per head, (B, H, r, d); the identity where ``matrix`` is None."""

    matrix: torch.Tensor | None = None

    def __call__(self, v: torch.Tensor) -> torch.Tensor:
        """(B, 1, N, d) → (B, H, N, r)."""
        return v if self.matrix is None else product(v, self.matrix)

    def pull(self, g: torch.Tensor) -> torch.Tensor:
        """(B, H, N, r) → (B, N, d): Mᵀ g summed over heads."""
        return summed(g if self.matrix is None else product(g, self.matrix.mT), 1)


@dataclass(frozen=True)
class AttentionState:
    """Samples X (T, n, d) in a layer: shapes (T, H, n, ·), scores and weights (T, H, n, n)."""

    query: Projection
    key: Projection
    value: Projection
    normalization: Normalization
    X: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scores: torch.Tensor
    weights: torch.Tensor
    summary: torch.Tensor
    output: torch.Tensor

    def to(self, dtype: torch.dtype) -> AttentionState:
        """The same numbers in a dtype; scores and weights, which are n × n, stay as they are."""
        turned: dict[str, Any] = {
            name: x.to(dtype) if isinstance(x, torch.Tensor) else _turned(x, dtype)
            for name, x in vars(self).items()
            if name not in ("scores", "weights", "normalization")
        }
        return replace(self, **turned)

    @classmethod
    def of(
        cls,
        X: torch.Tensor,
        query: Projection,
        key: Projection,
        value: Projection,
        normalization: Normalization,
    ) -> AttentionState:
        tokens = X[:, None]
        queries, keys, values = query(tokens), key(tokens), value(tokens)
        scores = product(queries, keys)
        if not all(map(math.isfinite, scores.detach().aminmax())):
            raise UserError("the attention scores of this map overflow; scale X or W down")
        weights, summary = normalization.attend(scores)
        parts = (queries, keys, values, scores, weights, summary, product(weights, values.mT))
        return cls(query, key, value, normalization, X, *parts)

    def own_form(self) -> torch.Tensor:
        """S (B, H, d, d), symmetric, with ⟨query(v), key(v)⟩ = ½ vᵀ S v; its gradient is S v."""
        query, key = self.query.matrix, self.key.matrix
        if query is None:
            size = self.X.shape[-1]
            query = torch.eye(size, dtype=self.X.dtype, device=self.X.device)[None, None]
        form = query if key is None else query.mT @ key
        return form + form.mT

    def trials(self, index: list[int]) -> AttentionState:
        """Some of the samples."""
        chosen: dict[str, Any] = {
            name: x[index] if isinstance(x, torch.Tensor) else _some(x, index)
            for name, x in vars(self).items()
            if name != "normalization"
        }
        return replace(self, **chosen)

    def token_rows(self) -> torch.Tensor:
        """Mᵀ query(x_j) for the key projection M of every head, (T, H n, d)."""
        matrix = self.key.matrix
        return (self.queries if matrix is None else self.queries @ matrix).flatten(1, 2)

    def token_columns(self) -> torch.Tensor:
        """Mᵀ key(x_k) for the query projection M of every head, (T, H n, d)."""
        matrix = self.query.matrix
        return (self.keys if matrix is None else self.keys @ matrix).flatten(1, 2)


def _turned(projection: Projection, dtype: torch.dtype) -> Projection:
    return projection if projection.matrix is None else Projection(projection.matrix.to(dtype))


def _some(projection: Projection, index: list[int]) -> Projection:
    matrix = projection.matrix
    return projection if matrix is None or len(matrix) == 1 else Projection(matrix[index])
