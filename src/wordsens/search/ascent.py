"""Maximise F over a product of balls: annealed, then guarded, generalized power steps.

A power step v ← x + √d ∇F/‖∇F‖ (Journée et al., JMLR 2010) needs no step size; its fixed points
are the stationary points on the sphere.  For softmax it overshoots, so that two measures are
taken.  First the step is averaged with where it starts from while the sharpness of the scores
rises from ``SHARPNESS`` to one: a smoother F leads most starts to the same good region.  Then
every start climbs under a guard: a step that lowers F is taken back and shortened, a good one
lengthens the next.  ReLU maps have ridges, where a gradient points across; there a step taken
back lends its own gradient to the next direction, as bundle methods do.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import normalize

from wordsens.perturbation import OneTokenView
from wordsens.progress import reached

SHARPNESS = 0.4  # of the scores when annealing begins
AVERAGING = 0.5  # share of the power step in an annealing step
GROW, SHRINK = 1.3, 0.7  # of the guarded step
LONGEST = 4.0  # guarded step in power steps: over-relaxed, which nearly linear maps reward
SETTLED = 1e-3  # guarded step below which a start has arrived


@dataclass(frozen=True)
class Found:
    """The best of S starts for T trials and P position sets.

    value F (T, P); delta (T, P, m, d); winner the start's index (T, P); steps taken by the winner
    (T, P); finals F of every start (T, P, S).
    """

    value: torch.Tensor
    delta: torch.Tensor
    winner: torch.Tensor
    steps: torch.Tensor
    finals: torch.Tensor


def climb(
    view: OneTokenView, starts: torch.Tensor, *, anneal: int, steps: int, tolerance: float = 1e-6
) -> Found:
    """Climb from directions ``starts`` (T, P, S, m, d), of any length.

    ``anneal`` averaged steps of rising sharpness are followed by at most ``steps`` guarded ones.
    A start stops once its step has shrunk to nothing or ten steps brought less than
    ``tolerance`` of F; each on its own account, so that no start's result depends on its
    companions in the batch.
    """
    centre = view.tokens[:, :, None]
    u = normalize(starts, dim=-1)
    for i in range(anneal):
        sharpness = SHARPNESS ** (1 - i / anneal)
        _, grad = view.value_and_grad(centre + view.radius * u, sharpness)
        u = normalize(AVERAGING * _unit(grad, u) + (1 - AVERAGING) * u, dim=-1)
        reached(i, anneal + steps)
    value, grad = view.value_and_grad(centre + view.radius * u)
    pace = torch.ones_like(value)
    taken = torch.full_like(value, anneal)
    reference, active = value.clone(), torch.ones_like(value, dtype=torch.bool)
    for i in range(1, steps + 1):
        step = pace[..., None, None]
        moved = normalize(step * _unit(grad, u) + (1 - step) * u, dim=-1)
        candidate, slope = view.value_and_grad(centre + view.radius * moved)
        better = (candidate > value) & active
        value = torch.where(better, candidate, value)
        # a step taken back saw the far side of a ridge: follow the mean of both sides
        both = _unit(grad, u) + _unit(slope, u)
        grad = torch.where(better[..., None, None], slope, both)
        u = torch.where(better[..., None, None], moved, u)
        taken += active
        pace = torch.where(better, (pace * GROW).clamp_max(LONGEST), pace * SHRINK)
        active &= pace > SETTLED
        if i % 10 == 0:
            active &= value > reference * (1 + tolerance)
            reference = value.clone()
        if not active.any():
            break
        reached(anneal + i, anneal + steps)
    winner = value.argmax(-1)
    at = winner[..., None]
    best = at[..., None, None].expand(*at.shape, *u.shape[-2:])
    return Found(
        value=value.gather(-1, at)[..., 0],
        delta=view.radius * u.gather(2, best)[:, :, 0],
        winner=winner,
        steps=taken.gather(-1, at)[..., 0].long(),
        finals=value,
    )


def _unit(grad: torch.Tensor, where_flat: torch.Tensor) -> torch.Tensor:
    """∇F/‖∇F‖ per word; where F is flat there is nothing to follow and the start stays."""
    length = torch.linalg.vector_norm(grad, dim=-1, keepdim=True)
    return torch.where(length > 0, grad / torch.where(length > 0, length, 1), where_flat)
