"""Minimise the losses of the generalization experiments over a changed word.

All losses of a trial are searched together: whatever point one of them visits, the archive knows
the value of every other there (see ``goals``), and each is polished from the best point of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import normalize

from wordsens.errors import UserError
from wordsens.maps.declaration import LossEffort
from wordsens.perturbation import OneTokenView, Walls
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.descent import Control, descend, published
from wordsens.search.goals import Archive, Goal, Minima, Neighbourhood, Problem
from wordsens.search.subgradients import SETTLING, Candidates, follow, settle

METHODS = ("spectral", "published", "thorough")
TOGETHER = 4  # goals that learn enough from each other
FINISH = 20  # evaluations in full precision after a search in float32
ROUNDING = 1e-5  # share of a limit on γ that such a search keeps from it
SETTLED = 1e-5  # share of its value that a round of settling must take off a loss for another one
NEAR = 0.3  # distance, in radii, of the points polished beside the best; its square next, …
BESIDE = 0.1  # their first step along walls, in radii, in the first round
SLIDING = (0.02, 0.05, 0.1, 0.2)  # first steps along walls, in radii, in turn over the starts
QUIET = 6  # of so many starts one has a quiet point beside it


@dataclass(frozen=True)
class Question:
    """Goals to be minimised over the balls of a view of T trials and one position set.

    ``around`` says what the trained models are, and ``schedule`` is the published rate and steps.
    """

    view: OneTokenView
    around: Neighbourhood
    goals: Sequence[Goal]
    streams: Sequence[Stream]
    schedule: tuple[float, int]
    effort: LossEffort

    def trials(self, index: list[int]) -> Question:
        """The same question about some of the trials."""
        streams = [self.streams[t] for t in index]
        view, around = self.view.trials(index), self.around.trials(index)
        return replace(self, view=view, around=around, streams=streams)


def search_losses(asked: Question, method: str = "spectral") -> Minima:
    """Minimise every goal.

    "published" is projected gradient descent from Δ = 0 with the rate and steps of the schedule;
    its last iterate is reported, as published.  "spectral" explores every base loss from
    several starts by ``descend`` and then polishes every goal from the best point that any
    candidate has visited, maps with kinks by ``settle`` too; Δ = 0 with the published rate is
    among its starts, and both ways out of it for "change".  "thorough" runs the published descent
    first and polishes from its points too: never above it, at its cost.
    """
    if method not in METHODS:
        raise UserError(
            f"search method {method!r} is not known; choose one of {', '.join(METHODS)}"
        )
    if asked.effort.starts < 1:
        raise UserError(f"starts = {asked.effort.starts} must be at least 1")
    view, goals = asked.view, asked.goals
    if method == "published":
        problem = Problem(view, asked.around)
        value, delta = published(problem, problem.terms(goals), asked.schedule)
        start = [["zero"] * len(goals) for _ in asked.streams]
        return Minima(value, delta, start, asked.schedule[1])
    coarse = view.coarse()
    if coarse is view or method == "thorough":
        return _searched(asked, method).found()
    # rounding must not push γ beyond a limit
    within = [replace(goal, limit=goal.limit * (1 - ROUNDING)) for goal in goals]
    seen = _searched(replace(asked, view=coarse, goals=within), method)
    problem = Problem(view, asked.around)
    archive = Archive(problem, problem.terms(goals), seen.names)
    delta, idle = seen.delta.to(view.tokens), torch.zeros_like(seen.label, dtype=torch.bool)
    control = Control(asked.schedule[0], FINISH, 1e-5)
    archive.steps = seen.steps
    archive.steps += descend(
        problem, archive, [_pursued(goal) for goal in goals], delta, seen.label, idle, control
    )
    return archive.found()


def _searched(asked: Question, method: str) -> Archive:
    """The best points of all goals as the view sees them."""
    view, goals, effort, rate = asked.view, asked.goals, asked.effort, asked.schedule[0]
    problem = Problem(view, asked.around)
    # goals learn from each other's points; few of them look around more instead
    effort = replace(effort, beside=effort.beside * max(1, TOGETHER // len(goals)))
    walls = view.walls() if effort.slide else None
    directions, names = _starts(view, asked.streams, effort.starts)
    ways = _ways_out(problem)
    if effort.apart:
        directions, names = torch.cat([directions, ways], 2), [*names, *["steepest"] * 2]
    archive = Archive(problem, problem.terms(goals), names)
    # shares of the enclosing work, by the most evaluations of each
    most = effort.explore + effort.rounds * effort.polish + effort.settle * SETTLING
    most += effort.slide * (walls is not None)
    if method == "thorough":
        most += asked.schedule[1]
        with stage(asked.schedule[1] / most):
            published(problem, archive.kept, asked.schedule, archive)
        archive.steps += asked.schedule[1]
    bases = list(dict.fromkeys(Goal(goal.loss) for goal in goals))
    if effort.apart or len(goals) < TOGETHER:  # few bases lead to few points of small γ
        bases += [goal for goal in goals if goal.penalty]
    count = directions.shape[2]
    explored = [goal for goal in bases for _ in range(count)]
    delta = directions.repeat(1, 1, len(bases), 1, 1)[:, 0]
    labels = torch.arange(count, device=delta.device).repeat(len(bases))
    labels = labels.expand(len(delta), -1)
    idle = torch.zeros_like(labels, dtype=torch.bool)
    control = Control(rate, effort.explore, 1e-3, count, effort.halve)
    with stage(effort.explore / most):
        archive.steps += descend(problem, archive, explored, delta, labels, idle, control)
    if walls is not None:
        with stage(effort.slide / most):
            archive.steps += _slide(problem, archive, asked, directions[:, 0], walls)
    for turn in range(effort.rounds):
        best, label = archive.delta, archive.label
        around_it = view.radius * NEAR ** (turn + 1)
        near = [best + around_it * noise for noise in _noise(best, asked.streams, turn, effort)]
        near, rolled = (near, []) if walls is None else ([], near)
        wanted = [_pursued(goal) for goal in goals]
        pursued = wanted * (1 + len(near))
        delta, labels = torch.cat([best, *near], 1), label.repeat(1, 1 + len(near))
        idle = _idle(goals, best).repeat(1, 1 + len(near))
        if turn == 0:
            alone, zero = _from_zero(goals, ways)
            delta, pursued = torch.cat([delta, zero], 1), [*pursued, *alone]
            labels = torch.cat([labels, labels.new_zeros(zero.shape[:2])], 1)
            idle = torch.cat([idle, idle.new_zeros(zero.shape[:2])], 1)
        control = Control(rate, effort.polish, 1e-5)
        with stage(effort.polish / most):
            archive.steps += descend(problem, archive, pursued, delta, labels, idle, control)
            if rolled:
                delta, labels = torch.cat(rolled, 1), label.repeat(1, len(rolled))
                stride = delta.new_full(labels.shape, BESIDE * NEAR**turn)
                start = Candidates(problem.terms(wanted * len(rolled)), delta, labels, stride)
                archive.steps += follow(problem, archive, start, effort.polish, walls)
    terms = problem.terms([_pursued(goal) for goal in goals])
    open = torch.ones_like(archive.label, dtype=torch.bool)
    for _ in range(effort.settle):
        before = archive.rank.clone()
        with stage(SETTLING / most):
            archive.steps += settle(problem, archive, terms, open, walls)
        # from the same point it would go the same way again
        open = archive.rank < before - SETTLED * before.abs()
    return archive


def _slide(
    problem: Problem, archive: Archive, asked: Question, delta: torch.Tensor, walls: Walls
) -> int:
    """Every goal from every start (T, S, m, d), and from quiet points near some, along walls."""
    each = torch.arange(delta.shape[1], device=delta.device)
    labels = torch.cat([each, each[1::QUIET]])
    delta = torch.cat([delta, walls.quiet(delta[:, 1::QUIET])], 1)
    goals = [_pursued(goal) for goal in asked.goals for _ in labels]
    count, many = len(labels), len(asked.goals)
    stride = delta.new_tensor(SLIDING).repeat(-(-count // len(SLIDING)))[:count]
    start = Candidates(
        problem.terms(goals),
        delta.repeat(1, many, 1, 1),
        labels.repeat(many).expand(len(delta), -1),
        stride.repeat(many).expand(len(delta), -1),
    )
    return follow(problem, archive, start, asked.effort.slide, walls, count)


def _noise(
    like: torch.Tensor, streams: Sequence[Stream], turn: int, effort: LossEffort
) -> torch.Tensor:
    """Random Δ of length 1 on average, ``beside`` for each of like (T, J, m, d)."""
    shape = (effort.beside, *like.shape[1:])
    drawn = [s.child("beside", turn=turn).normal(*shape, dtype=like.dtype) for s in streams]
    return torch.stack(drawn, 1).to(like.device) / like.shape[-1] ** 0.5


def _idle(goals: Sequence[Goal], delta: torch.Tensor) -> torch.Tensor:
    """Where a limit on γ excludes nothing, (T, J): the free goal's own point meets it."""
    free = {goal.loss: j for j, goal in enumerate(goals) if goal == Goal(goal.loss)}
    idle = torch.zeros(delta.shape[:2], dtype=torch.bool, device=delta.device)
    for j, goal in enumerate(goals):
        twin = free.get(goal.loss, j)
        if goal.limit < float("inf") and twin != j:
            idle[:, j] = (delta[:, j] == delta[:, twin]).flatten(1).all(1)
    return idle


def _pursued(goal: Goal) -> Goal:
    """A goal with a limit on γ is pursued by a penalty that sets in a little before it.

    The error falls in γ by about 4 at most, which a penalty p balances at 2/p beyond its onset.
    """
    if goal.limit == float("inf"):
        return goal
    margin = min(0.03, 0.2 * goal.limit)
    return Goal(goal.loss, penalty=3 / max(margin, 1e-3), slack=goal.limit - margin)


def _ways_out(problem: Problem) -> torch.Tensor:
    """The steepest ways from Δ = 0 for the re-trained output, up and down: (T, 1, 2, m, d).

    Loss "change" is stationary at Δ = 0, where rounding decides which of both the published
    descent takes.
    """
    terms = problem.terms([Goal("change")])
    _, pull = problem.functionals(torch.zeros_like(problem.centre[:, 0]))
    way = problem.view.radius * normalize(pull(terms.a), dim=-1)
    return torch.stack([way, -way], 2)


def _from_zero(goals: Sequence[Goal], ways: torch.Tensor) -> tuple[list[Goal], torch.Tensor]:
    """The goals with a descent of their own from Δ = 0, and its starts (T, K, m, d).

    Those with a penalty have one, loss "change" has one from both ways out.
    """
    zero = torch.zeros_like(ways[:, 0, :1])
    own = [(goal, zero) for goal in goals if goal.penalty and goal.loss != "change"]
    own += [(goal, ways[:, 0]) for goal in goals if goal.loss == "change"]
    alone = [goal for goal, start in own for _ in range(start.shape[1])]
    return alone, torch.cat([zero[:, :0], *(start for _, start in own)], 1)


def _starts(
    view: OneTokenView, streams: Sequence[Stream], count: int
) -> tuple[torch.Tensor, list[str]]:
    """Δ = 0, the view's own directions and random ones, (T, 1, S, m, d), and their names."""
    zero = torch.zeros_like(view.tokens)[:, :, None]
    known = list(view.directions().items())[: max(0, count - 1)]
    rest = max(0, count - 1 - len(known))
    tail = view.tokens.shape[2:]
    random = torch.stack(
        [s.child("starts").normal(1, rest, *tail, dtype=zero.dtype) for s in streams]
    ).to(zero.device)
    directions = torch.cat([*(direction for _, direction in known), random], 2)
    names = [*(name for name, _ in known), *["random"] * rest]
    beside = view.neighbours(directions) if directions.shape[2] else []
    names = ["zero", *names * (1 + len(beside))]
    directions = torch.cat([directions, *beside], 2)
    return torch.cat([zero, view.radius * normalize(directions, dim=-1)], 2), names
