"""Directions in which the changed words attend to themselves alone, or to one other word alone.

With ReLU weights the changed row i outputs a mean of the words to which its scores are positive,
whatever their size, and zero where none is.  F jumps where the last but one positive score
vanishes, and is often largest right there: at a v that attends to itself alone, as v is up to twice
as long as other words, or to one other word k.  No gradient leads into these cones

    ⟨query(v), key(x_j)⟩ ≤ 0 for all words j, but for k;     ⟨query(v), key(v)⟩ > 0.

They are reached by accelerated projected gradient steps (Nesterov's, begun anew where they lead
upwards: O'Donoghue and Candès, Found. Comput. Math. 2015) on

    Σ_j relu(⟨query(v), key(x_j)⟩/‖·‖ + margin)²        over directions Δ on the sphere

and, for the words' own scores, on the distance to the cone's boundary in first order.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.maps.attention.state import AttentionState

STEPS = 60
MARGIN = 0.01  # of the radius
OWN_MARGIN, OWN_STEP = 0.1, 0.5  # of the radius, and of the way there, for words' own scores


def alone(
    state: AttentionState, sets: torch.Tensor, u: torch.Tensor, radius: float
) -> torch.Tensor:
    """Directions near u (T, P, S, m, d) in which the words attend to themselves alone.

    Half the way leads towards the words themselves, as long v weigh more.
    """
    x = torch.nn.functional.normalize(state.X[:, sets][:, :, None], dim=-1)
    u = torch.nn.functional.normalize(torch.nn.functional.normalize(u, dim=-1) + x, dim=-1)
    return _reached(state, sets, u, radius, but_one=False)


def but_one(
    state: AttentionState, sets: torch.Tensor, u: torch.Tensor, radius: float
) -> torch.Tensor:
    """Directions near u (T, P, S, m, d) that attend only to the word that u attends to most."""
    u = torch.nn.functional.normalize(u, dim=-1)
    return _reached(state, sets, u, radius, but_one=True)


def _reached(
    state: AttentionState, sets: torch.Tensor, u: torch.Tensor, radius: float, *, but_one: bool
) -> torch.Tensor:
    rows = unit_rows(state.token_columns())
    top = largest_square(rows)[:, None, None, None, None]
    kept = unchanged(state, sets).to(u.dtype)
    centre = state.X[:, sets][:, :, None]
    rows = rows[:, None, None]
    if but_one:
        first = (((centre + radius * u) @ rows.mT) * kept).argmax(-1, keepdim=True)
        kept = kept.expand(*u.shape[:-1], -1).scatter(-1, first, 0)
    before, pace = u, torch.ones_like(u[..., :1])
    for _ in range(STEPS):
        later = (1 + (1 + 4 * pace**2).sqrt()) / 2
        ahead = torch.nn.functional.normalize(u + (pace - 1) / later * (u - before), dim=-1)
        v = centre + radius * ahead
        step = (torch.relu(v @ rows.mT + MARGIN * radius) * kept) @ rows / (top * radius)
        if not but_one:
            step = step - OWN_STEP * _own_lack(state, v, OWN_MARGIN * radius) / radius
        moved = torch.nn.functional.normalize(ahead - step, dim=-1)
        upwards = (step * (moved - u)).sum(-1, keepdim=True) > 0
        before = torch.where(upwards, moved, u)
        pace = torch.where(upwards, 1, later)
        u = moved
    return u


def unit_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows of length one, or zero."""
    return torch.nn.functional.normalize(rows, dim=-1, eps=torch.finfo(rows.dtype).tiny)


def unchanged(state: AttentionState, sets: torch.Tensor) -> torch.Tensor:
    """Which words of all heads stay as they are, (1, P, 1, 1, H n)."""
    stays = torch.ones(len(sets), state.X.shape[1], dtype=torch.bool, device=sets.device)
    stays.scatter_(1, sets, False)
    return stays.repeat(1, state.keys.shape[1])[None, :, None, None]


def _own_lack(state: AttentionState, v: torch.Tensor, margin: float) -> torch.Tensor:
    """What v (T, P, S, m, d) lacks to be ``margin`` within ⟨query(v), key(v)⟩ > 0, roughly."""
    flat = v.flatten(1, 3)[:, None]
    query, key = state.query(flat), state.key(flat)
    score = (query * key).sum(-1).sum(1)[..., None]
    slope = state.query.pull(key) + state.key.pull(query)  # (T, N, d)
    size = torch.linalg.vector_norm(slope, dim=-1, keepdim=True)
    size = size.clamp_min(torch.finfo(v.dtype).tiny)
    lack = torch.relu(margin - score / size) * slope / size
    return lack.reshape(v.shape)


def largest_square(rows: torch.Tensor) -> torch.Tensor:
    """About ‖rows‖² (T,), by power steps from the mean."""
    x = torch.nn.functional.normalize(rows.mean(1) + rows[:, 0], dim=-1)
    size = rows.new_ones(len(rows))
    for _ in range(12):
        x = (rows.mT @ (rows @ x[..., None]))[..., 0]
        size = torch.linalg.vector_norm(x, dim=-1).clamp_min(torch.finfo(x.dtype).tiny)
        x = x / size[:, None]
    return 1.1 * size
