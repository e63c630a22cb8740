"""One step of the search on an attention layer: F(v) = ‖φ(X^I(v − x_I)) − φ(X)‖² and ∇F.

Row j has the output φ_j, and o_j over the keys that do not change; r_j = o_j − φ_j.  The word that
leaves has the value y_i, the one that comes w = value(v) and in row j the weight p_j.  The rows
j ≠ i of one changed word contribute

    F_j = ‖r_j + p_j (w − o_j)‖² = ‖r_j‖² + p_j (2⟨r_j, w − o_j⟩ + p_j ‖w − o_j‖²)

and, with o_j = (1 + c_j) φ_j − c_j y_i where the changed word had weight below 1/2, gradients

    in the score a_j    2 p_j' ⟨r_j + p_j (w − o_j), w − o_j⟩        p_j' = dp_j/da_j
    in w                Σ_j [k_j c_j − 2 p_j²] φ_j − Σ_j k_j c_j y_i + 2 Σ_j p_j² w
                        with k_j = 2 p_j (1 − p_j)

The changed row contributes ‖e_i‖², e_i = Σ_{k≠i} q_k y_k + q_i w − φ_i, with gradient 2 e_i in its
output.  What does not depend on v is ``AttentionConstants``; the plain step is that of the view
which made them (``wordsens.maps.attention.view``), and ``attention_triton`` has it for a card.
"""

from __future__ import annotations

from dataclasses import dataclass

from wordsens.deferred import torch
from wordsens.kernels import fused

KNOWN = ("softmax", "relu")  # normalizations of the scores that the kernels have


@dataclass(frozen=True)
class AttentionConstants:
    """What a step reads besides v, for T samples, H heads, P position sets of m words.

    Projections of tokens, M (B, H, r, d) with B = 1 or T, or None for the identity:

    query, key, value   x ↦ M x

    Rows j of the samples, (T, H, n, ·):

    queries   query(x_j)
    keys      key(x_j)
    values    y_j = value(x_j)
    output    φ_j = Σ_k s_jk y_k

    Position sets I:

    sets        (P, m)              the changed words i ∈ I
    outside     (P, 1, 1, n)        1 for the rows j ∉ I, else 0
    own_values  (T, H, P, m, e)     y_i

    Rows j with the words I left out, (T, H, P, 1, 1, n) and ``share`` (T, H, P, 1, m, n):

    others   of the normalization over the keys k ∉ I: softmax ℓ_j = log Σ_k exp S_jk, ReLU
             R_j = Σ_k relu(S_jk)
    share    c_ji = s_ji / (1 − Σ_{i∈I} s_ji); 0 for heavy pairs and rows of I
    gain     c_j = Σ_{i∈I} c_ji
    rr       ⟨r_j, r_j⟩ with r_j = o_j − φ_j
    ro       ⟨r_j, o_j⟩
    oo       ⟨o_j, o_j⟩

    Heavy pairs, the rows j ∉ I where Σ_{i∈I} s_ji ≥ 1/2, computed over the other keys:

    heavy    indices (t, h, p, j), each (pairs,)
    surplus  (pairs, e)   r_j

    normalization   the name of what turns scores into weights
    """

    query: torch.Tensor | None
    key: torch.Tensor | None
    value: torch.Tensor | None
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    output: torch.Tensor
    sets: torch.Tensor
    outside: torch.Tensor
    own_values: torch.Tensor
    others: torch.Tensor
    share: torch.Tensor
    gain: torch.Tensor
    rr: torch.Tensor
    ro: torch.Tensor
    oo: torch.Tensor
    heavy: tuple[torch.Tensor, ...]
    surplus: torch.Tensor
    normalization: str


def applies(constants: AttentionConstants, v: torch.Tensor) -> bool:
    """Whether a kernel takes v: one changed word, softmax or ReLU weights, float32 on a card."""
    return constants.sets.shape[1] == 1 and fused(v) and constants.normalization in KNOWN


def step(
    constants: AttentionConstants, v: torch.Tensor, sharpness: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """F (T, P, S) and ∇F (T, P, S, m, d) at v (T, P, S, m, d), where ``applies``."""
    from wordsens.kernels import attention_triton

    return attention_triton.value_and_grad(constants, v, sharpness)
