"""A Δ that attracts attention, and what it does to a trained encoder (Figure 3, right; Remark 5.2).

Head h of the first block scores key x against query x_j by (W_Q x_j + b_Q)ᵀ W_K x, up to what is
the same for all keys.  Along the top right singular vector u_h of W_QᵀW_K the scores move most.  Its
sign is free; the one taken is that by which the text's queries attend more on average,
Σ_j ⟨W_Q x_j + b_Q, W_K u_h⟩ ≥ 0.  The heads' vectors are averaged and scaled to the token's length.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import normalize

from wordsens.encoders.layered import LayeredEncoder
from wordsens.errors import UserError
from wordsens.randomness import Stream


@dataclass(frozen=True)
class Attraction:
    """What Δ and Gaussian noise of its length do to one token of a text.

    attracting  relative change of every layer under Δ, (L+1,)
    noise       the same under each noise, (draws, L+1)
    before, after  first block's attention without and with Δ, (heads, n, n)
    delta       Δ, (d,)
    """

    attracting: torch.Tensor
    noise: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor
    delta: torch.Tensor


def attracting_direction(model: LayeredEncoder, X: torch.Tensor) -> torch.Tensor:
    """The average of the heads' aligned singular vectors, of length 1, for one sample X (n, d)."""
    queries, keys, bias = (part.double() for part in model.first_heads())
    # W_QᵀW_K has rank d' at most: its SVD is that of a d'×d' matrix between two orthonormal bases.
    _, left = torch.linalg.qr(queries.transpose(1, 2))
    basis, right = torch.linalg.qr(keys.transpose(1, 2))
    top = torch.linalg.svd(left @ right.transpose(1, 2)).Vh[:, 0]
    top = torch.einsum("hde,he->hd", basis, top)
    asked = torch.einsum("nd,hed->he", X.double(), queries) + len(X) * bias
    pull = torch.einsum("he,hed,hd->h", asked, keys, top)
    aligned = torch.where(pull < 0, -1.0, 1.0)[:, None] * top
    return normalize(aligned.mean(0), dim=0).to(X)


def attract(
    model: LayeredEncoder, token_ids: torch.Tensor, row: int, *, draws: int, stream: Stream
) -> Attraction:
    """Move token ``row`` of a text (n,) by the attracting Δ and by ``draws`` Gaussian noises.

    Raises UserError for a row that the text does not have.
    """
    n = len(token_ids)
    if not 0 <= row < n:
        raise UserError(f"position {row} is not in a text of {n} tokens; allowed: 0 to {n - 1}")
    X = model.embed(token_ids[None])
    length = X[0, row].norm()
    delta = length * attracting_direction(model, X[0])
    noise = stream.child("noise").normal(draws, X.shape[-1], dtype=X.dtype).to(X.device)
    moves = torch.cat([torch.zeros_like(delta)[None], delta[None], length * normalize(noise)])
    moved = X.repeat(len(moves), 1, 1)
    moved[:, row] += moves
    changes = []
    with torch.no_grad():
        for states in model.layers(moved):
            change = (states[1:] - states[0]).flatten(1)
            changes.append(change.norm(dim=1) / states[0].norm())
    change = torch.stack(changes, 1)
    before, after = model.first_attention(moved[:2])
    return Attraction(change[0], change[1:], before, after, delta)
