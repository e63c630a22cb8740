"""The rows of an attention layer with the changed words left out.

o_j is the output of row j over the other keys.  It is never the difference of large terms: with s
the weight of the changed words in row j, o_j − φ_j = Σ_i c_ji (φ_j − y_i), c_ji = s_ji/(1 − s), is
used where s < 1/2 (one n×n matrix then serves all positions), and the few other, *heavy* rows are
recomputed over the other keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wordsens.deferred import torch
from wordsens.kernels.constants import AttentionConstants
from wordsens.maps.attention.state import AttentionState


def leave_out(state: AttentionState, sets: torch.Tensor) -> AttentionConstants:
    """What does not depend on the new words, for position sets (P, m)."""
    count, n = len(sets), state.X.shape[1]
    member = torch.zeros(count, n, dtype=torch.bool, device=sets.device)
    member.scatter_(1, sets, True)
    own = state.values[:, :, sets]  # y_I, (T, H, P, m, e)

    taken = state.weights[..., sets].permute(0, 1, 3, 4, 2)  # s_ji as (T, H, P, m, n)
    weight = taken.sum(-2)
    many = (weight >= 0.5) & ~member
    light = torch.where(many | member, 0, weight)
    others = state.normalization.without(state.summary[:, :, None], light)
    share = torch.where((many | member)[..., None, :], 0, taken / (1 - light)[..., None, :])
    heavy = many.nonzero(as_tuple=True)
    surplus, others = _exactly(state, member, own, heavy, others, taken)
    gain = share.sum(-2)[..., None, None, :]
    share = share[..., None, :, :]
    rr, ro, oo = _products(state.output, own, share, gain, heavy, surplus)
    return AttentionConstants(
        query=state.query.matrix,
        key=state.key.matrix,
        value=state.value.matrix,
        queries=state.queries,
        keys=state.keys,
        values=state.values,
        output=state.output,
        sets=sets,
        outside=(~member)[:, None, None, :].to(state.X.dtype),
        own_values=own,
        others=others[..., None, None, :],
        share=share,
        gain=gain,
        rr=rr,
        ro=ro,
        oo=oo,
        heavy=heavy,
        surplus=surplus,
        normalization=state.normalization.name,
    )


def in_dtype(constants: AttentionConstants, dtype: torch.dtype) -> AttentionConstants:
    """The same numbers in a dtype; in a wider one, what is a function of them computed anew."""
    turned: dict[str, Any] = {
        name: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for name, x in vars(constants).items()
    }
    c = AttentionConstants(**turned)
    if dtype.itemsize < constants.rr.dtype.itemsize:
        return c
    rr, ro, oo = _products(c.output, c.own_values, c.share, c.gain, c.heavy, c.surplus)
    return replace(c, rr=rr, ro=ro, oo=oo)


def _exactly(
    state: AttentionState,
    member: torch.Tensor,
    own: torch.Tensor,
    heavy: tuple[torch.Tensor, ...],
    others: torch.Tensor,
    taken: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """o − φ over the other keys for the heavy pairs, and the summaries with theirs put in."""
    t, h, p, j = heavy
    surplus = state.values.new_zeros(len(t), state.values.shape[-1])
    if len(t) == 0:
        return surplus, others
    weights, summary = state.normalization.attend(state.scores[t, h, j], member[p])  # (pairs, n)
    changed = taken[t, h, p, :, j]  # s_ji, (pairs, m)
    for trial, head in torch.stack((t, h), 1).unique(dim=0).tolist():
        mine = (t == trial) & (h == head)
        kept = weights[mine] @ state.values[trial, head]
        left = own[trial, head, p[mine]]  # (pairs, m, e)
        here = changed[mine]
        surplus[mine] = here.sum(-1, keepdim=True) * kept - (here[:, None] @ left)[:, 0]
    return surplus, others.index_put((t, h, p, j), summary)


def _products(
    out: torch.Tensor,
    own: torch.Tensor,
    share: torch.Tensor,
    gain: torch.Tensor,
    heavy: tuple[torch.Tensor, ...],
    surplus: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """⟨r, r⟩, ⟨r, o⟩ and ⟨o, o⟩ of every row, r = o − φ and o the output over the others."""
    square = (out * out).sum(-1)[:, :, None, None, None]  # (T, H, 1, 1, 1, n)
    phi_own = (own.flatten(2, 3) @ out.mT).unflatten(2, own.shape[2:4])[:, :, :, None]
    gram = (own @ own.mT)[:, :, :, None]
    crossed = (share * phi_own).sum(-2, keepdim=True)  # Σ_i c_ji ⟨φ_j, y_i⟩
    phi_r = gain * square - crossed
    rr = gain * phi_r - (gain * crossed - (share * (gram @ share)).sum(-2, keepdim=True))
    t, h, p, j = heavy
    if len(t):
        at = (t, h, p, torch.zeros_like(t), torch.zeros_like(t), j)
        phi_r = phi_r.index_put(at, (surplus * out[t, h, j]).sum(-1))
        rr = rr.index_put(at, (surplus**2).sum(-1))
    return rr, phi_r + rr, square + 2 * phi_r + rr
