"""One step of the search on an attention layer: F(v) = ‖φ(X^I(v − x_I)) − φ(X)‖² and ∇F.

With the notation of ``maps.attention``, p_j the weight of the changed word in row j,
r_j = o_j − φ_j and w = value(v), the rows j ≠ i of one changed word contribute

    F_j = ‖r_j + p_j (w − o_j)‖² = ‖r_j‖² + p_j (2⟨r_j, w − o_j⟩ + p_j ‖w − o_j‖²)

and, with o_j = (1 + c_j) φ_j − c_j y_i where the changed word had weight below 1/2, gradients

    in the score a_j    2 p_j' ⟨r_j + p_j (w − o_j), w − o_j⟩        p_j' = dp_j/da_j
    in w                Σ_j [k_j c_j − 2 p_j²] φ_j − Σ_j k_j c_j y_i + 2 Σ_j p_j² w
                        with k_j = 2 p_j (1 − p_j)

The changed row contributes ‖e_i‖², e_i = Σ_{k≠i} q_k y_k + q_i w − φ_i, with gradient 2 e_i in its
output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wordsens.kernels import fused

if TYPE_CHECKING:
    from wordsens.maps.attention import AttentionView


def step(
    view: AttentionView, v: torch.Tensor, sharpness: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """F (T, P, S) and ∇F (T, P, S, m, d) at v (T, P, S, m, d), by the kernels where they apply.

    They take one changed word, softmax or ReLU weights, float32 on a CUDA device.
    """
    if v.shape[3] == 1 and fused(v) and view.state.layer.normalization.name in ("softmax", "relu"):
        from wordsens.kernels import attention_triton

        return attention_triton.value_and_grad(view, v, sharpness)
    return value_and_grad(view, v, sharpness)


def value_and_grad(
    view: AttentionView, v: torch.Tensor, sharpness: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in plain Torch, for any number of changed words, any dtype and device."""
    state, at = view.state, view.at(v, sharpness)
    value, p = at.value, at.p
    inner = p.shape[2:5]
    own = view.own_values[:, :, :, None]  # (T, H, P, 1, m, e)
    phi_w = (value.flatten(2, 4) @ state.output.mT).unflatten(2, inner)
    r_w = view.gain * phi_w - (value @ own.mT) @ view.share
    view.surplus_times(value, r_w)
    o_w = phi_w + r_w
    moved = p.sum(-2, keepdim=True)  # Σ_a p_a
    mixed = (p * o_w).sum(-2, keepdim=True)
    lean = r_w - view.ro  # ⟨r, w_a − o⟩
    along = lean + (value @ value.mT) @ p - moved * o_w - mixed + moved * view.oo
    # rr and ro are meaningless on the changed rows themselves, which are counted below
    rows = (view.rr * view.outside) + (p * (lean + along)).sum(-2, keepdim=True)
    gap = view.changed_rows(at) - state.output[:, :, view.sets][:, :, :, None]
    # rounding can push a change far below ‖φ‖ under zero
    total = (rows.sum((1, -1, -2)) + (gap * gap).sum((1, -1, -2))).clamp_min(0)

    kept = 2 * p * (1 - moved)
    on_phi = (kept * view.gain - 2 * p * moved).flatten(2, 4) @ state.output
    dvalue = on_phi.unflatten(2, inner) - (kept @ view.share.mT) @ own + 2 * (p @ p.mT) @ value
    t, h, s, j = view.heavy
    if len(t):
        dvalue.index_put_(
            (t, h, s), kept[t, h, s, :, :, j, None] * view.surplus[:, None, None], True
        )
    return total, view.pull(at, 2 * along, dvalue, 2 * gap)
