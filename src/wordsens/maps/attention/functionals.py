"""Linear functionals of an attention layer as one word changes, for many v and always the same u_c.

Per head, with p_j the weight of the new word in row j, w = value(v), o_j the output of row j over
the other keys, and q the weights of the changed row i,

    ⟨φ(X^i), u_c⟩ = Σ_{j≠i} [⟨o_j, u_cj⟩ + p_j ⟨w − o_j, u_cj⟩]
                    + Σ_{k≠i} q_k ⟨y_k, u_ci⟩ + q_i ⟨w, u_ci⟩.

Apart from the score of the new word with itself, v meets fixed rows only: those of its scores in
the rows j, of the scores of row i, and of ⟨w, u_cj⟩.  They are stacked into one matrix, so that a
step costs one product with it and the way back another.  The word's own score is ½ vᵀ S v with S
symmetric, and S v is its gradient, too.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.kernels.constants import AttentionConstants
from wordsens.kernels.products import product
from wordsens.maps.attention.state import AttentionState
from wordsens.perturbation import Pullback


class FixedFunctionals:
    """v (T, 1, S, 1, d) ↦ ⟨φ(X^i(v − x_i)), u_c⟩ (T, 1, S, C) and the pullback.

    Of a view with one position set of one word, for u (T, H, C, n, e) and u_o (T, H, 1, C, n), the
    ⟨o_j, u_cj⟩: what ``view.linear`` says.
    """

    def __init__(
        self,
        state: AttentionState,
        constants: AttentionConstants,
        u: torch.Tensor,
        u_o: torch.Tensor,
    ) -> None:
        heads, n = state.values.shape[1:3]
        count = u.shape[2]
        self.normalization, self.word = state.normalization, int(constants.sets[0, 0])
        self.shape = (heads, count, n)
        self.outside = constants.outside[:, :, 0]  # (1, 1, 1, n)
        self.others = constants.others[:, None, :, 0, 0]  # (T, 1, H, 1, n)
        u_o = u_o[:, :, 0] * self.outside  # (T, H, C, n)
        self.constant = u_o.sum((1, -1))[:, None]  # (T, 1, C)
        self.u_o = u_o[:, None]
        u_y = u[:, :, :, self.word] @ state.values.mT  # ⟨y_k, u_ci⟩, (T, H, C, n)
        self.u_y = (u_y * self.outside)[:, None]
        parts = [
            _through(state.queries, state.key.matrix),
            _through(state.keys, state.query.matrix),
            _through(u.flatten(2, 3), state.value.matrix),
            state.own_form().expand(len(u), -1, -1, -1),
        ]
        self.rows = torch.cat([part.flatten(1, 2) for part in parts], 1)
        self.sizes = [part.shape[1] * part.shape[2] for part in parts]

    def __call__(self, v: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        heads, count, n = self.shape
        flat = v[:, 0, :, 0]  # (T, S, d)
        scores, own_scores, change, turned = product(flat, self.rows).split(self.sizes, -1)
        scores = scores.unflatten(-1, (heads, 1, n))
        own_scores = own_scores.unflatten(-1, (heads, n))
        turned = turned.unflatten(-1, (heads, -1))  # S v, (T, S, H, d)
        own_scores[..., self.word] = 0.5 * (turned * flat[:, :, None]).sum(-1)
        p, pull_p = self.normalization.changed(scores, self.others)
        q, pull_q = self.normalization.row(own_scores)
        p = p[..., 0, :] * self.outside[0]
        p[..., self.word] = q[..., self.word]
        # ⟨w − o_j, u_cj⟩, and ⟨w, u_ci⟩ in row i
        change = change.unflatten(-1, (heads, count, n)) - self.u_o
        value = (p[..., None, :] * change + q[..., None, :] * self.u_y).sum((2, -1))
        value = value + self.constant
        back = self.rows[:, : -self.sizes[-1]].mT

        def pullback(weight: torch.Tensor) -> torch.Tensor:
            w = weight[:, 0, :, None, :, None]  # (T, S, 1, C, 1)
            along = (w * change).sum(-2)  # (T, S, H, n)
            on_q = (w * self.u_y).sum(-2)
            on_q[..., self.word] = along[..., self.word]
            own = pull_q(on_q)
            ds = own[..., self.word].clone()
            own[..., self.word] = 0
            on_p = pull_p((along * self.outside[0])[..., None, :])
            parts = (on_p, own, w * p[..., None, :])
            pulled = product(torch.cat([x.flatten(2) for x in parts], -1), back)
            return (pulled + (ds[..., None] * turned).sum(2))[:, None, :, None]

        return value[:, None], pullback


def _through(x: torch.Tensor, matrix: torch.Tensor | None) -> torch.Tensor:
    """Rows of a projected space as rows of tokens."""
    return x if matrix is None else x @ matrix
