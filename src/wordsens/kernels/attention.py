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
output.  What does not depend on v is in ``constants``; the plain step is that of the view
which made them (``wordsens.maps.attention.view``), and ``attention_triton`` has it for a card.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.kernels import fused
from wordsens.kernels.constants import AttentionConstants

KNOWN = ("softmax", "relu")  # normalizations of the scores that the kernels have


def applies(constants: AttentionConstants, v: torch.Tensor) -> bool:
    """Whether a kernel takes v: one changed word, softmax or ReLU weights, float32 on a card."""
    return constants.sets.shape[1] == 1 and fused(v) and constants.normalization in KNOWN


def step(
    constants: AttentionConstants, v: torch.Tensor, sharpness: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """F (T, P, S) and ∇F (T, P, S, m, d) at v (T, P, S, m, d), where ``applies``."""
    from wordsens.kernels import attention_triton

    return attention_triton.value_and_grad(constants, v, sharpness)
