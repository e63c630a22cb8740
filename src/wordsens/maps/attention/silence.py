"""Directions in which the changed words themselves attend to nothing, or to one word alone.

With ReLU weights the changed row i outputs a mean of the words to which its scores are positive,
whatever their size, and zero where none is.  F jumps where the last positive score vanishes, and is
often largest right there: at a v with ⟨query(v), key(x_k)⟩ ≤ 0 for all words k, or for all but one.
No gradient leads into these cones.  They are reached by projected gradient steps on

    Σ_k relu(⟨query(v), key(x_k)⟩/‖·‖ + margin)²        over directions Δ on the sphere.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.maps.attention.state import AttentionState

STEPS = 40
MARGIN = 0.01  # of the radius
OVER = 1.5  # step, in units of the inverse largest curvature


def silenced(
    state: AttentionState,
    sets: torch.Tensor,
    u: torch.Tensor,
    radius: float,
    *,
    but_one: bool,
) -> torch.Tensor:
    """Directions near u (T, P, S, m, d), of length one, with scores ≤ 0 as far as they go.

    With ``but_one``, the word to which the start attends most is left out of the sum.
    """
    matrix = state.query.matrix
    rows = (state.keys if matrix is None else state.keys @ matrix).flatten(1, 2)  # (T, H n, d)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    rows = rows / length.clamp_min(torch.finfo(rows.dtype).tiny)
    top = _largest_square(rows)[:, None, None, None, None]
    heads = state.keys.shape[1]
    changed = torch.zeros(len(sets), state.X.shape[1], dtype=torch.bool, device=u.device)
    changed.scatter_(1, sets, True)
    kept = (~changed).to(u.dtype).repeat(1, heads)[None, :, None, None]  # (1, P, 1, 1, H n)
    centre = state.X[:, sets][:, :, None]
    rows = rows[:, None, None]

    def scores(u: torch.Tensor) -> torch.Tensor:
        return (centre + radius * u) @ rows.mT

    if but_one:
        first = (scores(u) * kept).argmax(-1, keepdim=True)
        kept = kept.expand(*u.shape[:-1], -1).scatter(-1, first, 0)
    for _ in range(STEPS):
        over = torch.relu(scores(u) + MARGIN * radius) * kept
        u = torch.nn.functional.normalize(u - OVER / (top * radius) * (over @ rows), dim=-1)
    return u


def _largest_square(rows: torch.Tensor) -> torch.Tensor:
    """About ‖rows‖² (T,), by power steps from the mean."""
    x = torch.nn.functional.normalize(rows.mean(1) + rows[:, 0], dim=-1)
    size = rows.new_ones(len(rows))
    for _ in range(12):
        x = (rows.mT @ (rows @ x[..., None]))[..., 0]
        size = torch.linalg.vector_norm(x, dim=-1).clamp_min(torch.finfo(x.dtype).tiny)
        x = x / size[:, None]
    return 1.1 * size
