"""Maximise F over a product of balls by guarded, generalized power steps, partly annealed.

A power step v ← x + √d ∇F/‖∇F‖ (Journée et al., JMLR 2010) needs no step size; its fixed points
are the stationary points on the sphere.  For softmax it overshoots, so that two measures are
taken.  Copies of the first starts are annealed: the step is averaged with where it starts from
while the sharpness of the scores rises from ``SHARPNESS`` to one, as a smoother F leads most
starts to the same good region.  It is not always the best one, so that the starts themselves climb
too.  Then everything climbs under a guard: a step that lowers F is taken back and shortened, a
good one lengthens the next.  Guarded steps follow conjugate directions, as random features are
nearly quadratic with no gap below the top, where plain power steps creep.

Where the leaders show early, only the better half of the starts goes on after some steps, half of
these after as many more, and so on (sequential halving; Karnin, Koren and Somekh, ICML 2013).
Annealed copies and plain starts are halved apart: if one of the two ways leads astray, the values
of those that are left differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wordsens.maps.declaration import Effort
from wordsens.perturbation import OneTokenView
from wordsens.progress import advance
from wordsens.search.maximum import Maximum, at, leaders, leaders_by_kind, sphere, tangent, unit

SHARPNESS = 0.4  # of the scores when annealing begins
AVERAGING = 0.5  # share of the power step in an annealing step
ANNEALED = 32  # starts that are annealed, at most
LEADING = ((0.4, 2), (0.7, 4))  # after such a share of the annealing, one of so many goes on
GROW, SHRINK = 1.3, 0.7  # of the guarded step
LONGEST = 4.0  # guarded step in power steps: over-relaxed, which nearly linear maps reward
SETTLED = 1e-3  # guarded step below which a start has arrived
HALVINGS = (1, 2, 4)  # in units of ``halve`` steps
FINE = 1e-6  # share of F that ten guarded steps must bring for a start to go on


def candidates(effort: Effort) -> int:
    """How many are under way at once in a climb, at most."""
    if not effort.anneal:
        return effort.starts
    copies = min(ANNEALED, effort.starts)
    again = copies if effort.plain is None else min(copies, effort.plain)
    return max(copies, effort.starts - copies + again + _share(copies, LEADING[-1][1]))


def climb(
    view: OneTokenView,
    starts: torch.Tensor,
    *,
    anneal: int,
    steps: int,
    halve: int = 0,
    plain: int | None = None,
    tolerance: float = FINE,
) -> Maximum:
    """Climb from directions ``starts`` (T, P, S, m, d), of any length.

    Copies of the first starts take ``anneal`` averaged steps of rising sharpness; then the leaders
    of these and the starts themselves, of those annealed only the first ``plain``, take at most
    ``steps`` guarded ones.  After ``halve`` of these, twice and four times as many, the better half
    of a set's starts goes on.  A start stops once its step has shrunk to nothing or ten steps
    brought less than ``tolerance`` of F; each on its own account, so that no result depends on the
    other trials and sets in the batch.
    """
    centre = view.tokens[:, :, None]
    u = sphere(starts)
    start = torch.arange(u.shape[2], device=u.device).expand(u.shape[:3])
    kinds = [starts.shape[2]]
    led = 0
    if anneal:
        copies = min(ANNEALED, u.shape[2])
        first = u[:, :, :copies], start[..., :copies]
        if plain is not None and plain < copies:
            u = torch.cat([u[:, :, :plain], u[:, :, copies:]], 2)
            start = torch.cat([start[..., :plain], start[..., copies:]], 2)
        annealed, named = _annealed(view, *first, anneal, anneal + steps)
        led = annealed.shape[2]
        kinds = [led, u.shape[2]]
        u, start = torch.cat([annealed, u], 2), torch.cat([named, start], 2)
    value, grad = view.value_and_grad(centre + view.radius * u)
    slope = unit(grad, u)
    aim = flat = tangent(slope, u)
    pace = torch.ones_like(value)
    taken = torch.zeros_like(value)
    taken[..., :led] = anneal
    reference, active = value.clone(), torch.ones_like(value, dtype=torch.bool)
    halvings = {halve * k for k in HALVINGS if halve and halve * k <= steps}
    left = kinds
    for _ in halvings:
        left = _halves(left)
    last = value[..., :0]  # what the last start given up had reached, where one alone goes on
    for i in range(1, steps + 1):
        step = pace[..., None, None]
        moved = sphere((1 - step) * u + step * (slope - flat + aim))
        candidate, grad = view.value_and_grad(centre + view.radius * moved)
        better = (candidate > value) & active
        value = torch.where(better, candidate, value)
        good = better[..., None, None]
        # a step taken back saw the far side of a ridge: follow the mean of both sides
        seen = unit(grad, moved)
        slope = torch.where(good, seen, unit(slope + seen, u))
        u = torch.where(good, moved, u)
        aim, flat = _conjugate(aim, flat, slope, u, good)
        taken += active
        pace = torch.where(better, (pace * GROW).clamp_max(LONGEST), pace * SHRINK)
        active &= pace > SETTLED
        if i % 10 == 0:
            active &= value > reference * (1 + tolerance)
            reference = value.clone()
        if i in halvings:
            halves = _halves(kinds)
            if sum(halves) == 1 < value.shape[-1]:
                last = value.topk(2).values[..., 1:]
            kept, kinds = leaders_by_kind(value, kinds, halves), halves
            start, value, pace, taken, reference, active, u, slope, aim, flat = (
                at(x, kept)
                for x in (start, value, pace, taken, reference, active, u, slope, aim, flat)
            )
        if not active.any():
            break
        advance(anneal + i, anneal + steps)
    best = value.argmax(-1, keepdim=True)
    return Maximum(
        value=at(value, best)[..., 0],
        delta=view.radius * at(u, best)[:, :, 0],
        start=at(start, best)[..., 0],
        steps=at(taken, best)[..., 0].long(),
        # as many whether or not the climb ended before it halved, which others decide
        finals=_finals(value, kinds, left, last),
    )


def _halves(kinds: Sequence[int]) -> list[int]:
    return [_share(count, 2) for count in kinds]


def _share(count: int, one_of: int) -> int:
    return -(-count // one_of)


def _finals(
    value: torch.Tensor, kinds: Sequence[int], left: Sequence[int], last: torch.Tensor
) -> torch.Tensor:
    """Values of the best starts, ``left`` of each kind; two at least, so that there is a spread."""
    several = value.shape[-1] > 1 or last.shape[-1] > 0
    if sum(left) > 1 or not several:
        chosen = leaders_by_kind(value, kinds, left)
        return value.gather(-1, chosen).sort(-1, descending=True).values
    return torch.cat([value.topk(1).values, last], -1) if last.shape[-1] else value.topk(2).values


def _annealed(
    view: OneTokenView, u: torch.Tensor, start: torch.Tensor, anneal: int, of: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where annealing leads starts u (T, P, S, m, d), of indices ``start``: those that lead."""
    centre = view.tokens[:, :, None]
    keep = {round(share * anneal): _share(u.shape[2], one_of) for share, one_of in LEADING}
    for i in range(anneal):
        sharpness = SHARPNESS ** (1 - i / anneal)
        value, grad = view.value_and_grad(centre + view.radius * u, sharpness)
        if i in keep:
            kept = leaders(value, keep[i])
            u, start, grad = at(u, kept), at(start, kept), at(grad, kept)
        u = sphere(AVERAGING * unit(grad, u) + (1 - AVERAGING) * u)
        advance(i, of)
    return u, start


def _conjugate(
    aim: torch.Tensor,
    before: torch.Tensor,
    slope: torch.Tensor,
    u: torch.Tensor,
    go_on: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The next direction and tangent gradient: Polak and Ribière's share of ``aim`` is kept.

    None is where ``go_on`` is false, or where the direction would not lead upwards.
    """

    def inner(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).sum((-1, -2), keepdim=True)

    flat = tangent(slope, u)
    size = inner(before, before)
    share = inner(flat, flat - tangent(before, u)) / torch.where(size > 0, size, 1)
    kept = flat + share.clamp(0, 1) * tangent(aim, u)
    return torch.where(go_on & (inner(kept, flat) > 0), kept, flat), flat
