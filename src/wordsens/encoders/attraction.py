"""A Δ that attracts attention, and what it does to a trained encoder (Figure 3, right; Remark 5.2).

Head h of the first block scores key x against query x_j by q_jᵀ W_K x with q_j = W_Q x_j + b_Q, up
to what is the same for all keys.  Two directions, each scaled to the length of the token:

singular  the heads' top right singular vectors of W_QᵀW_K, averaged, as in the paper.  A vector's
          sign is free; taken is the one by which the text attends more, Σ_j ⟨q_j, W_K u_h⟩ ≥ 0.
queries   Σ_h W_Kᵀ Σ_j q_j, along which the scores of all queries and heads rise most in sum; for
          one head without bias it is Σ_j Wᵀx_j, as in the proof of Theorem 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import normalize

from wordsens.encoders.layered import LayeredEncoder
from wordsens.errors import UserError
from wordsens.randomness import Stream

DIRECTIONS = ("singular", "queries")


@dataclass(frozen=True)
class Attraction:
    """What Δ and Gaussian noise of its length do to one token of a text.

    change  relative change of every layer under each direction's Δ, by name, (L+1,); empty where
            the first block's heads do not score layer 0 itself
    noise   the same under each noise, (draws, L+1)
    scores  first block's attention (heads, n, n) under each Δ, and unchanged as "none"; empty where
            the block hands out none
    """

    change: dict[str, torch.Tensor]
    noise: torch.Tensor
    scores: dict[str, torch.Tensor]


def attracting_directions(model: LayeredEncoder, X: torch.Tensor) -> dict[str, torch.Tensor]:
    """The directions of length 1 for one sample X (n, d), by name."""
    queries, keys, bias = (part.double() for part in model.first_heads())
    asked = torch.einsum("nd,hed->he", X.double(), queries) + len(X) * bias
    # W_QᵀW_K has rank d' at most: its SVD is that of a d'×d' matrix between two orthonormal bases.
    _, left = torch.linalg.qr(queries.transpose(1, 2))
    basis, right = torch.linalg.qr(keys.transpose(1, 2))
    top = torch.linalg.svd(left @ right.transpose(1, 2)).Vh[:, 0]
    top = torch.einsum("hde,he->hd", basis, top)
    pull = torch.einsum("he,hed,hd->h", asked, keys, top)
    aligned = torch.where(pull < 0, -1.0, 1.0)[:, None] * top
    rising = torch.einsum("he,hed->d", asked, keys)
    found = {"singular": aligned.mean(0), "queries": rising}
    return {name: normalize(found[name], dim=0).to(X) for name in DIRECTIONS}


def attract(
    model: LayeredEncoder, token_ids: torch.Tensor, row: int, *, draws: int, stream: Stream
) -> Attraction:
    """Move token ``row`` of a text (n,) by each attracting Δ and by ``draws`` Gaussian noises.

    Raises UserError for a row that the text does not have.
    """
    n = len(token_ids)
    if not 0 <= row < n:
        raise UserError(f"position {row} is not in a text of {n} tokens; allowed: 0 to {n - 1}")
    X = model.embed(token_ids[None])
    length = X[0, row].norm()
    deltas = {"none": torch.zeros_like(X[0, row])}
    if model.attracts:
        deltas |= {name: length * u for name, u in attracting_directions(model, X[0]).items()}
    drawn = stream.child("noise").normal(draws, X.shape[-1], dtype=X.dtype).to(X.device)
    moves = torch.cat([torch.stack(list(deltas.values())), length * normalize(drawn)])
    moved = X.repeat(len(moves), 1, 1)
    moved[:, row] += moves
    changes = []
    with torch.no_grad():
        for states in model.layers(moved, token_ids):
            difference = (states - states[:1]).flatten(1)
            changes.append(difference.norm(dim=1) / states[0].norm())
    change = torch.stack(changes, 1)
    try:
        scores = dict(
            zip(deltas, model.first_attention(moved[: len(deltas)], token_ids), strict=True)
        )
    except UserError:
        scores = {}
    return Attraction(
        change=dict(zip(list(deltas)[1:], change[1:], strict=False)),
        noise=change[len(deltas) :],
        scores=scores,
    )
