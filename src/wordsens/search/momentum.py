"""Maximise F over a product of balls by momentum on the sphere, with steps of a given length.

    w ← β w + g/‖g‖,    v ← (v + η w)/‖v + η w‖,    g and w tangent at v,

with η falling as a cosine, or by one factor a step.  A step of fixed length crosses the kinks of a
ReLU map and the small hills of a deep network, at which guarded steps shrink to nothing; the best
point visited is kept.
The right length differs from draw to draw, so that neighbouring starts take different ones.  Many
starts are given up early, as their order shows soon (sequential halving).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from wordsens.perturbation import Cones, OneTokenView
from wordsens.progress import advance, stage
from wordsens.search.maximum import (
    Maximum,
    at,
    leaders,
    leaders_by_kind,
    sphere,
    tangent,
    unit,
)

MEMORY = 0.8  # β where a course does not say otherwise


@dataclass(frozen=True)
class Course:
    """One run of momentum: its steps, first lengths (in turn over the starts) and last length.

    ``keep`` says how many starts of each kind go on after so many steps, ``kinds`` how many there
    are of each, kind after kind, where they are of several; ``memory`` is β, which changes evenly
    to ``memory_at_end`` where that is given.  With ``even`` each step is shorter than the last by
    the same factor, and the lengths do not follow a cosine.  With ``relative`` steps of words
    shorter than a radius are as much shorter.
    """

    steps: int
    first: Sequence[float]
    last: float
    keep: Mapping[int, int]
    memory: float = MEMORY
    kinds: Sequence[int] = ()
    even: bool = False
    memory_at_end: float | None = None
    relative: bool = False

    def length(self, i: int, first: torch.Tensor) -> torch.Tensor:
        """η of step i, from starts' first lengths."""
        if self.even:
            return first * (self.last / first) ** (i / self.steps)
        fall = 0.5 * (1 + math.cos(math.pi * i / self.steps))
        return self.last + (first - self.last) * fall

    def left(self) -> list[int]:
        """How many starts of each of its kinds are not given up."""
        return [min([kind, *self.keep.values()]) for kind in self.kinds]

    def kept(self, i: int) -> float:
        """β of step i."""
        end = self.memory if self.memory_at_end is None else self.memory_at_end
        return self.memory + (end - self.memory) * i / self.steps


@dataclass(frozen=True)
class Front:
    """Starts under way: best F visited (T, P, S) and where, u (T, P, S, m, d); indices, steps."""

    value: torch.Tensor
    u: torch.Tensor
    start: torch.Tensor
    steps: torch.Tensor

    @classmethod
    def of(cls, u: torch.Tensor) -> Front:
        """Starts at directions u, nothing evaluated yet."""
        shape = u.shape[:3]
        return cls(
            u.new_full(shape, -torch.inf),
            sphere(u),
            torch.arange(shape[2], device=u.device).expand(shape),
            torch.zeros(shape, dtype=torch.long, device=u.device),
        )

    def take(self, index: torch.Tensor) -> Front:
        return Front(*(at(x, index) for x in vars(self).values()))

    def first(self, count: int) -> Front:
        return Front(*(x[:, :, :count] for x in vars(self).values()))

    def after(self, count: int) -> Front:
        return Front(*(x[:, :, count:] for x in vars(self).values()))

    def beside(self, other: Front) -> Front:
        """This one's starts, and behind them those of another."""
        return Front(
            *(
                torch.cat(pair, 2)
                for pair in zip(vars(self).values(), vars(other).values(), strict=True)
            )
        )

    def where(self, chosen: torch.Tensor, other: Front) -> Front:
        """This one's starts where ``chosen`` (T, P), elsewhere ``other``'s, which are as many."""

        def either(mine: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
            wide = chosen.reshape(*chosen.shape, *[1] * (mine.ndim - 2))
            return torch.where(wide, mine, theirs)

        return Front(*map(either, vars(self).values(), vars(other).values()))

    def repeated(self, count: int) -> Front:
        """The one start, so many times."""
        return Front(*(x.expand(*x.shape[:2], count, *x.shape[3:]) for x in vars(self).values()))

    def unvalued(self) -> Front:
        """The same starts in another view, where nothing is evaluated yet."""
        return replace(self, value=torch.full_like(self.value, -torch.inf))

    def maximum(self, radius: float) -> Maximum:
        best = self.value.argmax(-1, keepdim=True)
        one = self.take(best)
        found = (one.value[..., 0], radius * one.u[:, :, 0], one.start[..., 0], one.steps[..., 0])
        return Maximum(*found, finals=self.value)


def ascend(
    view: OneTokenView,
    front: Front,
    course: Course,
    *,
    cones: Cones | None = None,
    before: list[torch.Tensor] | None = None,
    ranked: Callable[[Front], torch.Tensor] | None = None,
) -> Front:
    """Every start's best point after the course, of those that were not given up.

    Each evaluation counts as a step; the last point is evaluated, too.  Starts of all kinds but the
    first keep to their ``cones``.  ``before`` takes the values of all starts before some were given
    up.  The best go on, by F or by what they are ``ranked`` by.
    """
    centre = view.tokens[:, :, None]
    u, best = front.u, front
    count = u.shape[2]
    first = u.new_tensor(course.first).repeat(-(-count // len(course.first)))[:count]
    first = first.expand(u.shape[:3])[..., None, None]
    moving = torch.zeros_like(u)
    kinds = list(course.kinds) or [count]
    for i in range(course.steps):
        value, grad = view.value_and_grad(centre + view.radius * u)
        better = value > best.value
        best = Front(
            torch.where(better, value, best.value),
            torch.where(better[..., None, None], u, best.u),
            best.start,
            best.steps + 1,
        )
        going = [min(course.keep.get(i, count), kind) for kind in kinds]
        if going != kinds:
            if before is not None:
                before.append(best.value)
            value = best.value if ranked is None else ranked(best)
            kept = leaders_by_kind(value, kinds, going)
            if cones is not None:
                cones = cones.take(kept[..., going[0] :] - kinds[0])
            kinds = going
            best = best.take(kept)
            u, moving, grad, first = (at(x, kept) for x in (u, moving, grad, first))
        moving = tangent(course.kept(i) * moving + unit(tangent(grad, u), torch.zeros_like(u)), u)
        length = course.length(i, first)
        if course.relative:
            short = torch.linalg.vector_norm(centre + view.radius * u, dim=-1, keepdim=True)
            length = length * (short / view.radius).clamp_max(1)
        u = sphere(u + length * moving)
        if cones is not None:
            v, cones = cones.back((centre + view.radius * u)[:, :, kinds[0] :])
            u = torch.cat([u[:, :, : kinds[0]], sphere(v - centre)], 2)
        advance(i, course.steps)
    return best


def polish(view: OneTokenView, front: Front, course: Course, keep: int) -> Front:
    """The ``keep`` best starts go on, each once with every first length of the course."""
    front = front.take(leaders(front.value, keep))
    turns, count = len(course.first), front.u.shape[2]
    spread = Course(course.steps, [x for x in course.first for _ in range(count)], course.last, {})
    several = Front(*(x.repeat(1, 1, turns, *[1] * (x.ndim - 3)) for x in vars(front).values()))
    done = ascend(view, several, spread)
    winner = done.value.unflatten(2, (turns, count)).argmax(2)
    index = torch.arange(count, device=winner.device) + count * winner
    return done.take(index)


EXPLORE = ((0.02, 0.05, 0.1, 0.2), 0.01)  # first and last lengths on maps with kinks
KEPT = (36, 16)  # starts that explore on after a third and two thirds
REFINE = ((0.2, 0.1, 0.03, 0.01), 0.001)
REFINED = (4, 3, 2)  # starts that are refined in each round
SHARES = (3, 3, 5, 5)  # of the steps: exploring, and each round of refining


def follow_kinks(view: OneTokenView, starts: torch.Tensor, *, steps: int) -> Maximum:
    """Momentum for maps with kinks, from directions ``starts`` (T, P, S, m, d), of any length.

    The starts and those that the view knows beside them explore, fewer and fewer; the best are
    refined in rounds with several first lengths each.  Along ridges a start is refined far longer
    than it explores: few starts that are refined long find more than many that are not.
    """
    count = starts.shape[2]
    beside = view.neighbours(starts)
    front = Front.of(torch.cat([starts, *beside], 2))
    front = Front(front.value, front.u, front.start % count, front.steps)
    explore, *refine = (max(1, round(steps * share / sum(SHARES))) for share in SHARES)
    keep = {explore * k // 3: kept for k, kept in enumerate(KEPT, start=1)}
    with stage(SHARES[0] / sum(SHARES)):
        front = ascend(view, front, Course(explore, *EXPLORE, keep))
    for length, kept, share in zip(refine, REFINED, SHARES[1:], strict=True):
        with stage(share / sum(SHARES)):
            front = polish(view, front, Course(length, *REFINE, {}), kept)
    return front.maximum(view.radius)
