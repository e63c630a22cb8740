"""Two descents of the losses: by spectral gradients, and the published one.

Each takes many candidates Δ (T, S, m, d) in one batch, shows every point that it visits to an
archive, and leaves there what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from wordsens.progress import advance, stage
from wordsens.search.goals import SOLVED, Archive, Goal, Problem, Terms

MEMORY = 8  # accepted values among which a step must not exceed the largest
DECREASE = 1e-4  # share of the linear model's decrease that a step must bring
BOLD, CAREFUL = 4.0, 0.2  # longest gradient step, in radii
BATCH, NUMBERS = 96, 400_000  # candidates evaluated at once, at least, and numbers of features


@dataclass(frozen=True)
class Control:
    """How a descent goes: the published rate, the most evaluations, and when candidates stop.

    A candidate must improve by the share ``tolerance`` of its value every ten evaluations to go on.
    With ``halve`` the candidates come in groups of ``group`` for one goal each, of which at these
    evaluations the better half goes on.
    """

    rate: float
    steps: int
    tolerance: float
    group: int = 1
    halve: Sequence[int] = ()


def descend(
    problem: Problem,
    archive: Archive,
    goals: Sequence[Goal],
    delta: torch.Tensor,
    labels: torch.Tensor,
    idle: torch.Tensor,
    control: Control,
) -> int:
    """Spectral projected gradients (Birgin, Martínez and Raydan, SIAM J. Optim. 2000), batched.

    Candidate s descends goals[s] from Δ = delta[:, s] (T, S, m, d); where ``idle`` (T, S) it
    stays.  The direction is P(Δ − λ∇) − Δ with Barzilai and Borwein's λ; along it, a step is
    taken when the value stays below the largest of the last ``MEMORY`` ones, and shortened
    otherwise.  Starts at Δ = 0 keep close to the path of steepest descent, into the basin that
    the published optimiser finds: their values never rise, and their steps are the shorter ones
    of Barzilai and Borwein, the first of the published rate.  Every evaluation serves all
    candidates, each in its own state.  Returns the evaluations made.
    """
    made = 0
    terms = problem.terms(goals)
    batch = max(1, at_once(problem) // control.group) * control.group
    for first in range(0, len(goals), batch):
        part = min(batch, len(goals) - first) / len(goals)
        index = torch.arange(first, min(first + batch, len(goals)), device=delta.device)
        own = terms.take(index)
        state = (delta[:, index], labels[:, index], idle[:, index])
        with stage(part):
            made += _descend(problem, archive, own, *state, control)
    return made


def at_once(problem: Problem) -> int:
    """Candidates evaluated at once: many where there are few features, as a call costs, too."""
    return max(BATCH, NUMBERS // problem.around.u[:, 0].numel())


def better_halves(value: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices (T, K) of the better half of each group of value (T, S), and those of their goals."""
    by_group = value.unflatten(1, (-1, group))
    first = group * torch.arange(by_group.shape[1], device=value.device)[:, None]
    chosen = by_group.sort(-1).indices[..., : -(-group // 2)]
    own = torch.arange(chosen.shape[-1], device=value.device)
    return (chosen + first).flatten(1), (own + first).flatten()


def taken(value: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Of value (T, S, …) the candidates index (T, K)."""
    wide = index.reshape(*index.shape, *[1] * (value.ndim - 2))
    return value.gather(1, wide.expand(*index.shape, *value.shape[2:]))


def _descend(
    problem: Problem,
    archive: Archive,
    terms: Terms,
    x: torch.Tensor,
    labels: torch.Tensor,
    idle: torch.Tensor,
    control: Control,
) -> int:
    rate, steps, tolerance, group = control.rate, control.steps, control.tolerance, control.group
    radius = problem.view.radius

    def evaluate(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, pull = problem.functionals(at)
        archive.see(q, at, labels)
        value, slope = problem.value(q, terms)
        return value, pull(slope)

    def inner(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * b).sum((-1, -2), dtype=torch.float64)

    def ahead(x: torch.Tensor, g: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        return problem.ball(x - step[..., None, None].to(x) * g) - x

    x = problem.ball(x)
    f, g = evaluate(x)
    length = inner(g, g).sqrt()
    span = radius * x.shape[-2] ** 0.5
    careful = (x == 0).all(-1).all(-1)
    reach = torch.where(careful, CAREFUL, BOLD) * span
    first = torch.where(careful, rate, 0.5 * span / length.clamp_min(1e-30))
    step = first.minimum(reach / length.clamp_min(1e-30))
    way = ahead(x, g, step)
    slope = inner(g, way)
    share = torch.ones_like(f)
    history = f[..., None].repeat(1, 1, MEMORY)
    best = f.clone()
    earlier = best.clone()
    active = (slope < 0) & ~idle
    for i in range(1, steps):
        wanted = active.any(0)
        if not wanted.any():
            return i
        chosen = None
        if i in control.halve and group > 1:
            chosen, own = better_halves(best, group)
            group = -(-group // 2)
        elif not control.halve and wanted.sum() <= 0.7 * len(wanted):
            own = wanted.nonzero()[:, 0]
            chosen = own.expand(len(x), -1)
        if chosen is not None:
            terms = terms.take(own)
            x, f, g, way, slope, share, history, best, earlier, active, careful, reach, labels = (
                taken(value, chosen)
                for value in (
                    *(x, f, g, way, slope, share, history, best, earlier, active),
                    *(careful, reach, labels),
                )
            )
        advance(i, steps)
        # who stopped stays, so that nothing depends on how long others of the batch go on
        y = x + (share * active)[..., None, None].to(x) * way
        f_y, g_y = evaluate(y)
        allowed = torch.where(careful, f, history.amax(-1))
        accepted = active & (f_y <= allowed + DECREASE * share * slope)
        moved, turned = y - x, g_y - g
        curvature = inner(moved, turned)
        long = inner(moved, moved) / curvature.clamp_min(1e-30)
        short = curvature / inner(turned, turned).clamp_min(1e-30)
        step = torch.where(curvature > 0, torch.where(careful, short, long), torch.inf)
        step = step.minimum(reach / inner(g_y, g_y).sqrt().clamp_min(1e-30))
        way_y = ahead(y, g_y, step)

        # a refused step shrinks to the minimum of the parabola through what is known
        bend = 2 * (f_y - f - share * slope)
        shorter = torch.where(bend > 0, -slope * share**2 / bend.clamp_min(1e-300), 0)
        shorter = shorter.clamp(min=0.1 * share, max=0.5 * share)
        share = torch.where(accepted, 1.0, torch.where(active, shorter, share))

        wide = accepted[..., None, None]
        x, g, way = (torch.where(wide, new, old) for new, old in ((y, x), (g_y, g), (way_y, way)))
        f = torch.where(accepted, f_y, f)
        slope = torch.where(accepted, inner(g, way), slope)
        history[..., i % MEMORY] = torch.where(accepted, f, history[..., i % MEMORY])
        best = torch.minimum(best, f)
        active &= (slope < 0) & (share > 1e-6) & ~(f.abs() < 0.01 * SOLVED)
        if i % 10 == 0:
            active &= earlier - best > tolerance * best.abs() + 1e-9
            earlier = best.clone()
    return steps


def published(
    problem: Problem, terms: Terms, schedule: tuple[float, int], archive: Archive | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Projected gradient descent from Δ = 0; the values and points of the last iterates."""
    rate, steps = schedule
    trials, _, _, words, d = problem.centre.shape
    delta = problem.centre.new_zeros(trials, terms.a.shape[1], words, d)
    labels = torch.zeros(delta.shape[:2], dtype=torch.long, device=delta.device)
    for step in range(steps + 1):
        q, pull = problem.functionals(delta)
        value, slope = problem.value(q, terms)
        if archive is not None:
            archive.see(q, delta, labels)
        advance(step, steps)
        if step < steps:
            delta = problem.ball(delta - rate * pull(slope))
    return value, delta
