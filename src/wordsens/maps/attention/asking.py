"""The changed row's own question, from token space at half the cost.

With query(v) = M v and the identity for key, as in RAF, the changed word scores an unchanged key
by ⟨Mᵀ x_k, v⟩ and itself by ⟨M v, v⟩ = ⟨(M + Mᵀ) v, v⟩/2, whose gradient is (M + Mᵀ) v: one product
with a d × d matrix serves the value and the gradient, not one for each.
"""

from __future__ import annotations

from dataclasses import dataclass

from wordsens.deferred import torch
from wordsens.maps.attention.state import AttentionState


@dataclass(frozen=True)
class Asking:
    """``rows`` Mᵀ x_k (T, 1, n, d) and ``half`` (M + Mᵀ)/2, (B, 1, d, d) with B = 1 or T."""

    rows: torch.Tensor
    half: torch.Tensor

    @classmethod
    def of(cls, state: AttentionState, words: int) -> Asking | None:
        """None where several words change, which score each other, or keys are projected."""
        matrix = state.query.matrix
        if words > 1 or matrix is None or state.key.matrix is not None or matrix.shape[1] > 1:
            return None
        return cls(state.token_columns()[:, None], state.own_form() / 2)

    def to(self, dtype: torch.dtype) -> Asking:
        return Asking(self.rows.to(dtype), self.half.to(dtype))
