"""Maximise F over a product of balls: annealed, then guarded, generalized power steps.

A power step v ← x + √d ∇F/‖∇F‖ (Journée et al., JMLR 2010) needs no step size; its fixed points
are the stationary points on the sphere.  For softmax it overshoots, so that two measures are
taken.  First the step is averaged with where it starts from while the sharpness of the scores
rises from ``SHARPNESS`` to one: a smoother F leads most starts to the same good region.  Then
every start climbs under a guard: a step that lowers F is taken back and shortened, a good one
lengthens the next.  Guarded steps follow conjugate directions, as random features are nearly
quadratic with no gap below the top, where plain power steps creep.  ReLU maps have ridges, where
a gradient points across; there a step taken back lends its own gradient to the next direction, as
bundle methods do.

Where the leaders show early, only the better half of the starts goes on after some steps, and half
of these after as many more (sequential halving; Karnin, Koren and Somekh, ICML 2013).
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
    (T, P); finals F of every start, or of those that halving leaves (T, P, ≤ S).
    """

    value: torch.Tensor
    delta: torch.Tensor
    winner: torch.Tensor
    steps: torch.Tensor
    finals: torch.Tensor


def climb(
    view: OneTokenView,
    starts: torch.Tensor,
    *,
    anneal: int,
    steps: int,
    halve: int = 0,
    tolerance: float = 1e-6,
) -> Found:
    """Climb from directions ``starts`` (T, P, S, m, d), of any length.

    ``anneal`` averaged steps of rising sharpness are followed by at most ``steps`` guarded ones;
    after ``halve`` of these, and after twice as many, the better half of a set's starts goes on.
    A start stops once its step has shrunk to nothing or ten steps brought less than
    ``tolerance`` of F; each on its own account, so that no result depends on the other trials and
    sets in the batch.
    """
    centre = view.tokens[:, :, None]
    u = normalize(starts, dim=-1)
    for i in range(anneal):
        sharpness = SHARPNESS ** (1 - i / anneal)
        _, grad = view.value_and_grad(centre + view.radius * u, sharpness)
        u = normalize(AVERAGING * _unit(grad, u) + (1 - AVERAGING) * u, dim=-1)
        reached(i, anneal + steps)
    value, grad = view.value_and_grad(centre + view.radius * u)
    unit = _unit(grad, u)
    aim = tangent = _tangent(unit, u)
    pace = torch.ones_like(value)
    taken = torch.full_like(value, anneal)
    reference, active = value.clone(), torch.ones_like(value, dtype=torch.bool)
    start = torch.arange(value.shape[-1], device=value.device).expand(value.shape)
    for i in range(1, steps + 1):
        step = pace[..., None, None]
        moved = normalize((1 - step) * u + step * (unit - tangent + aim), dim=-1)
        candidate, grad = view.value_and_grad(centre + view.radius * moved)
        better = (candidate > value) & active
        value = torch.where(better, candidate, value)
        good = better[..., None, None]
        # a step taken back saw the far side of a ridge: follow the mean of both sides
        slope = _unit(grad, moved)
        unit = torch.where(good, slope, _unit(unit + slope, u))
        u = torch.where(good, moved, u)
        aim, tangent = _conjugate(aim, tangent, unit, u, good)
        taken += active
        pace = torch.where(better, (pace * GROW).clamp_max(LONGEST), pace * SHRINK)
        active &= pace > SETTLED
        if i % 10 == 0:
            active &= value > reference * (1 + tolerance)
            reference = value.clone()
        if halve and i in (halve, 2 * halve):
            kept = value.topk(_half(value.shape[-1])).indices.sort().values
            start, value, pace, taken, reference, active = (
                each.gather(-1, kept) for each in (start, value, pace, taken, reference, active)
            )
            kept = kept[..., None, None].expand(*kept.shape, *u.shape[-2:])
            u, unit, aim, tangent = (each.gather(2, kept) for each in (u, unit, aim, tangent))
        if not active.any():
            break
        reached(anneal + i, anneal + steps)
    at = value.argmax(-1, keepdim=True)
    best = at[..., None, None].expand(*at.shape, *u.shape[-2:])
    return Found(
        value=value.gather(-1, at)[..., 0],
        delta=view.radius * u.gather(2, best)[:, :, 0],
        winner=start.gather(-1, at)[..., 0],
        steps=taken.gather(-1, at)[..., 0].long(),
        # as many whether or not the climb ended before it halved, which others decide
        finals=value.topk(_half(_half(starts.shape[2]))).values if halve else value,
    )


def _half(count: int) -> int:
    """The better half, but two of a few, so that there is a spread."""
    return min(count, max(2, (count + 1) // 2))


def _tangent(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """What of x is tangent to the spheres at u, word by word."""
    return x - (x * u).sum(-1, keepdim=True) * u


def _conjugate(
    aim: torch.Tensor,
    before: torch.Tensor,
    unit: torch.Tensor,
    u: torch.Tensor,
    go_on: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The next direction and tangent gradient: Polak and Ribière's share of ``aim`` is kept.

    None is where ``go_on`` is false, or where the direction would not lead upwards.
    """

    def inner(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).sum((-1, -2), keepdim=True)

    tangent = _tangent(unit, u)
    size = inner(before, before)
    share = inner(tangent, tangent - _tangent(before, u)) / torch.where(size > 0, size, 1)
    kept = tangent + share.clamp(0, 1) * _tangent(aim, u)
    return torch.where(go_on & (inner(kept, tangent) > 0), kept, tangent), tangent


def _unit(grad: torch.Tensor, where_flat: torch.Tensor) -> torch.Tensor:
    """∇F/‖∇F‖ per word; where F is flat there is nothing to follow and the start stays."""
    length = torch.linalg.vector_norm(grad, dim=-1, keepdim=True)
    return torch.where(length > 0, grad / torch.where(length > 0, length, 1), where_flat)
