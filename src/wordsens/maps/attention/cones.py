"""Cones in which words score other words at most zero, and the way back into them.

Within the cone of its silent words k,

    ⟨query(v), key(x_k)⟩ = ⟨a_k, v⟩ ≤ 0,

the row of a changed word outputs itself or one other word, and F grows towards vertices, where as
many words as there are dimensions are about to be heard.  A climb that leaves the cone wherever F
grows outside comes to few of them.  Steps are therefore followed by the projection onto the cone,
in its dual form

    v − Σ_k λ_k a_k,    λ ≥ 0 maximises −½‖Σ_k λ_k a_k‖² + Σ_k λ_k ⟨a_k, v⟩,

by a few accelerated projected gradient steps (Nesterov's) that begin at the last step's λ, so that
they track the projection while v moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wordsens.deferred import torch
from wordsens.maps.attention.silence import largest_square, unchanged, unit_rows
from wordsens.maps.attention.state import AttentionState
from wordsens.perturbation import Cones

INNER = 3  # dual steps after a step
MEMORY = 0.9  # share of λ with which they begin


@dataclass(frozen=True)
class ReLUCones(Cones):
    """The cones that starts keep to: ``silent`` and λ (T, P, S, m, K) for K rows a_k of length one.

    rows (T, K, d), their Gram matrices (T, K, K) and about the largest eigenvalues of these (T,).
    """

    rows: torch.Tensor
    gram: torch.Tensor
    top: torch.Tensor
    silent: torch.Tensor
    push: torch.Tensor

    @classmethod
    def at(cls, state: AttentionState, sets: torch.Tensor, v: torch.Tensor) -> ReLUCones:
        """Those of v (T, P, S, m, d): all words are silent but the loudest, where it is heard."""
        rows = unit_rows(state.token_columns())
        silent = unchanged(state, sets).to(v.dtype).expand(*v.shape[:-1], -1)
        scores = (v @ rows[:, None, None].mT).masked_fill(silent == 0, -torch.inf)
        loudest, word = scores.max(-1, keepdim=True)
        silent = silent.scatter(-1, word, (loudest <= 0).to(v.dtype))
        return cls(rows, rows @ rows.mT, largest_square(rows), silent, torch.zeros_like(silent))

    def take(self, index: torch.Tensor) -> ReLUCones:
        wide = index[..., None, None].expand(*index.shape, *self.silent.shape[3:])
        return replace(self, silent=self.silent.gather(2, wide), push=self.push.gather(2, wide))

    def back(self, v: torch.Tensor) -> tuple[torch.Tensor, ReLUCones]:
        shape = v.shape[1:4]
        silent, push = self.silent.flatten(1, 3), MEMORY * self.push.flatten(1, 3)
        flat, top = v.flatten(1, 3), self.top[:, None, None]
        scores = flat @ self.rows.mT
        before, ahead, pace = push, push, 1.0
        for _ in range(INNER):
            push = torch.relu(ahead + (scores - ahead @ self.gram) / top) * silent
            later = (1 + (1 + 4 * pace**2) ** 0.5) / 2
            ahead = (push + (pace - 1) / later * (push - before)).clamp_min(0)
            before, pace = push, later
        within = flat - push @ self.rows
        return within.unflatten(1, shape), replace(self, push=push.unflatten(1, shape))
