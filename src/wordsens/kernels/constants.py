"""What a step of the search on an attention layer reads besides v: see ``attention``."""

from __future__ import annotations

from dataclasses import dataclass

from wordsens.deferred import torch


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
