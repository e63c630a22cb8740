"""Descend the losses by subgradient steps with momentum, on one side of the walls where they jump.

    w ← β w − ∇/‖∇‖,    Δ ← P(Δ + η w)

A ReLU map has kinks, along which spectral gradients stall and short steps zigzag down (Shor,
Minimization Methods for Non-Differentiable Functions, 1985), and small ones have walls at which
they jump (``perturbation.Walls``): there Δ is put back to the side where it began, so that it
slides along the wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import normalize

from wordsens.perturbation import Walls
from wordsens.progress import advance
from wordsens.search.descent import at_once, better_halves, taken
from wordsens.search.goals import Archive, Problem, Terms

MOMENTUM, INERTIA = 0.8, 0.9  # β, and that of ``settle``
STRIDES = (0.01, 0.03, 0.1)  # first lengths η of ``settle``, in radii
SETTLING = 70  # steps of one round of ``settle``
HALVED = (1 / 3, 2 / 3)  # shares of the steps after which the better half of a group goes on
MARGIN, LEAST = 0.02, 1e-6  # kept from a wall, of a step and of the radius
ROUNDS = 3  # projections that put a step back


@dataclass(frozen=True)
class Candidates:
    """Points under way: a goal for each, Δ (T, S, m, d), start and first step in radii (T, S)."""

    terms: Terms
    delta: torch.Tensor
    labels: torch.Tensor
    stride: torch.Tensor

    def take(self, index: torch.Tensor, own: torch.Tensor) -> Candidates:
        """Those of index (T, K), whose goals are those of candidates own (K,) in every trial."""
        parts = (taken(x, index) for x in (self.delta, self.labels, self.stride))
        return Candidates(self.terms.take(own), *parts)


def follow(
    problem: Problem,
    archive: Archive,
    start: Candidates,
    steps: int,
    walls: Walls | None = None,
    group: int = 1,
) -> int:
    """Candidates go so many steps of falling length; returns the evaluations made.

    Where they come in groups of several for one goal, half of each is given up twice on the way.
    """
    made, count = 0, start.delta.shape[1]
    batch = max(1, at_once(problem) // group) * group
    for first in range(0, count, batch):
        own = torch.arange(first, min(first + batch, count), device=start.delta.device)
        part = start.take(own.expand(len(start.delta), -1), own) if batch < count else start
        made += _follow(problem, archive, part, steps, MOMENTUM, walls, group)
    return made


def _follow(
    problem: Problem,
    archive: Archive,
    here: Candidates,
    steps: int,
    memory: float,
    walls: Walls | None,
    group: int = 1,
) -> int:
    halved = {round(share * steps) for share in HALVED}
    radius = problem.view.radius
    here = replace(here, delta=problem.ball(here.delta))
    side = None if walls is None else walls.side(here.delta)
    moving = torch.zeros_like(here.delta)
    best = torch.full_like(here.labels, torch.inf, dtype=torch.float64)
    for step in range(steps):
        q, pull = problem.functionals(here.delta)
        archive.see(q, here.delta, here.labels)
        advance(step, steps)
        value, slope = problem.value(q, here.terms)
        moving = memory * moving - normalize(pull(slope), dim=-1)
        best = torch.minimum(best, value)
        if group > 1 and step in halved:
            index, own = better_halves(best, group)
            group = -(-group // 2)
            here, moving, best = here.take(index, own), taken(moving, index), taken(best, index)
            side = None if side is None else taken(side, index)
        length = 0.5 * (1 + math.cos(math.pi * step / steps)) * radius * here.stride
        delta = problem.ball(here.delta + length[..., None, None] * moving)
        if walls is not None and side is not None:
            delta = walls.back(delta, side, MARGIN * length + LEAST * radius, ROUNDS)
        here = replace(here, delta=delta)
    return steps


def settle(
    problem: Problem,
    archive: Archive,
    terms: Terms,
    open: torch.Tensor,
    walls: Walls | None = None,
) -> int:
    """``follow`` from the best points, of every goal that is ``open`` (T, J), pursued by ``terms``.

    Each goes once with each first length of ``STRIDES``.  Returns the evaluations made.
    """
    most = int(open.sum(1).max())
    if not most:
        return 0
    chosen = open.byte().sort(dim=1, descending=True, stable=True).indices[:, :most]
    lengths = torch.tensor(STRIDES, dtype=archive.delta.dtype, device=open.device)
    moves = taken(open, chosen).repeat(1, len(STRIDES))
    start = Candidates(
        terms.each(chosen.repeat(1, len(STRIDES))),
        taken(archive.delta, chosen).repeat(1, len(STRIDES), 1, 1),
        taken(archive.label, chosen).repeat(1, len(STRIDES)),
        lengths.repeat_interleave(most) * moves,
    )
    return _follow(problem, archive, start, SETTLING, INERTIA, walls)
