"""The losses of the generalization experiments, minimised over a changed word.

Every quantity of Section 6 of Bombari and Mondelli (2024) depends on Δ through three numbers,

    q(Δ) = (⟨φ(X^i(Δ)), θ*⟩, ⟨φ(X^i(Δ)), φ⟩/‖φ‖², ⟨φ(X^i(Δ)), P⊥φ⟩/‖P⊥φ‖²),       φ = φ(X),

linear functionals of the one-token view, so that a step costs what one product with the view
does.  With e = y − f(X, θ*), the losses are squares of affine functions of q:

    features (145)      (q_1 + 1)²
    alignment (146)     (q_2 + 1)²
    error_finetuned     (q_0 + q_1 e + y)²          (16) with (14)
    error_retrained     (q_0 + q_2 e + y)²          (16) with (15)
    change             −(q_0 + q_2 e − f(X, θ_r))²  Appendix E, to be maximised

and (147)–(149) add p·(q_0 − f(X, θ*))².  Whatever point a search visits, q tells the value of
every loss there, so that all losses of a trial learn from each other's steps at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.nn.functional import normalize

from wordsens.errors import UserError
from wordsens.perturbation import OneTokenView
from wordsens.progress import portion, reached
from wordsens.randomness import Stream

LOSSES = ("features", "alignment", "error_finetuned", "error_retrained", "change")
METHODS = ("spectral", "published", "thorough")
MEMORY = 8  # accepted values among which a step must not exceed the largest
DECREASE = 1e-4  # share of the linear model's decrease that a step must bring
SOLVED = 1e-8  # a loss that is a square has reached zero
NEAR = 0.3  # distance, in radii, of the points polished beside the best; its square next, …
TIE = 1e-9  # weight of γ where losses are equal
BOLD, CAREFUL = 4.0, 0.2  # longest gradient step, in radii
BATCH = 96  # candidates evaluated at once
STRIDES = (0.01, 0.03, 0.1)  # first steps of ``settle``, in radii
SETTLING = 100  # steps of one round of ``settle``


@dataclass(frozen=True)
class Neighbourhood:
    """What a trained model says around new samples (X, y), for T trials; all float64.

    u (T, 3, p): θ*, φ/‖φ‖² and w, see ``glm``; f_x = f(X, θ*), y and f_x_retrained (T,).
    """

    u: torch.Tensor
    f_x: torch.Tensor
    y: torch.Tensor
    f_x_retrained: torch.Tensor

    @classmethod
    def stack(cls, parts: Sequence[Neighbourhood]) -> Neighbourhood:
        """Several trials as one."""
        return cls(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True)
class Evaluation:
    """What fine-tuning and re-training on (X, y) say of X^i(Δ), whose label is −y.

    f_x, f_x_retrained      f(X, θ*) and f(X, θ_r)
    f_delta, f_delta_finetuned, f_delta_retrained      f(X^i(Δ), ·) at θ*, θ_f, θ_r
    feature_cosine          ⟨φ(X^i(Δ)), φ(X)⟩/‖φ(X)‖², first term of (25)
    feature_alignment       𝓕(X, X^i(Δ)) (23); where φ(X) lies in the span of the training
                            features, the coefficient that takes its place in (22)
    gamma                   |f(X^i(Δ), θ*) − f(X, θ*)| (13)
    err_finetuned, err_retrained      (f(X^i(Δ), ·) + y)² (16)
    """

    f_x: Any
    f_delta: Any
    f_delta_finetuned: Any
    f_delta_retrained: Any
    f_x_retrained: Any
    feature_alignment: Any
    feature_cosine: Any
    gamma: Any
    err_finetuned: Any
    err_retrained: Any

    def reshaped(self, shape: Sequence[int]) -> Evaluation:
        """The same numbers as tensors of another shape."""
        return Evaluation(*(getattr(self, f.name).reshape(shape) for f in fields(Evaluation)))

    def plain(self) -> Evaluation:
        """Python numbers, where there is one of each."""
        return Evaluation(*(getattr(self, f.name).item() for f in fields(Evaluation)))


def evaluation(q: torch.Tensor, around: Neighbourhood) -> Evaluation:
    """All quantities, (T, S) each, from the functionals q (T, S, 3)."""
    q = q.to(torch.float64)
    f_delta, cosine, alignment = q.unbind(-1)
    f_x, y = around.f_x[:, None], around.y[:, None]
    finetuned = f_delta + cosine * (y - f_x)
    retrained = f_delta + alignment * (y - f_x)
    return Evaluation(
        f_x=f_x.expand_as(f_delta),
        f_delta=f_delta,
        f_delta_finetuned=finetuned,
        f_delta_retrained=retrained,
        f_x_retrained=around.f_x_retrained[:, None].expand_as(f_delta),
        feature_alignment=alignment,
        feature_cosine=cosine,
        gamma=(f_delta - f_x).abs(),
        err_finetuned=(finetuned + y) ** 2,
        err_retrained=(retrained + y) ** 2,
    )


@dataclass(frozen=True)
class Goal:
    """One loss to minimise: its base, the penalty p, and what of γ goes unpunished.

    Where γ ≤ ``slack`` there is no penalty; points with γ > ``limit`` do not count.
    """

    loss: str
    penalty: float = 0.0
    slack: float = 0.0
    limit: float = float("inf")


def parse_goal(loss: str, penalty: float = 0.0) -> Goal:
    """The goal a user names; ``UserError`` says which exist."""
    if loss not in LOSSES:
        raise UserError(f"loss {loss!r} is not known; choose one of {', '.join(LOSSES)}")
    if not (penalty >= 0 and penalty < float("inf")):
        raise UserError(f"penalty = {penalty} must be a number of at least 0")
    return Goal(loss, float(penalty))


def trade_off(limits: Sequence[float]) -> list[Goal]:
    """The smallest test error with γ ≤ g for every g: fine-tuned goals first, then re-trained."""
    return [
        Goal(f"error_{mode}", limit=float(g)) for mode in ("finetuned", "retrained") for g in limits
    ]


@dataclass(frozen=True)
class SearchEffort:
    """Starts per loss, and evaluations for exploring from them and for each polishing round.

    Every round polishes the best point of each goal and ``beside`` points near it.  ``settle``
    rounds of subgradient steps follow, for maps with kinks.
    """

    starts: int
    explore: int
    polish: int
    rounds: int
    beside: int
    settle: int = 0


@dataclass(frozen=True)
class FoundLosses:
    """The best point found for J goals in T trials.

    value (T, J), inf where no point met a limit; delta (T, J, m, d); start names by trial and
    goal; ``steps`` evaluations made.
    """

    value: torch.Tensor
    delta: torch.Tensor
    start: list[list[str]]
    steps: int


def published_descent(map_name: str, n: int) -> tuple[float, int]:
    """The authors' step length and step count for these losses at n tokens."""
    return (100.0, 300) if map_name in ("rf", "drf") else (1.0, 50 * n)


def effort_for(map_name: str, n: int, d: int) -> SearchEffort:
    """A search's default effort on samples of shape (n, d)."""
    small = 5_000 // (n * d)  # small problems are the rugged ones, and cheap
    if map_name in ("rf", "drf"):
        starts = max(3, min(16, small))
        rounds = 2 if small else 1
        return SearchEffort(starts, explore=30, polish=40, rounds=rounds, beside=min(4, small))
    if map_name == "relu_raf":  # rows come and go with the signs of their scores
        beside = max(2, min(10, small))
        rounds = 4 if small else 1
        return SearchEffort(24, explore=40, polish=40, rounds=rounds, beside=beside, settle=3)
    beside = max(1, min(6, small))
    return SearchEffort(starts=16, explore=40, polish=100, rounds=2, beside=beside)


def search_losses(
    view: OneTokenView,
    around: Neighbourhood,
    goals: Sequence[Goal],
    streams: Sequence[Stream],
    *,
    schedule: tuple[float, int],
    effort: SearchEffort,
    method: str = "spectral",
) -> FoundLosses:
    """Minimise every goal over the balls of a view of T trials and one position set.

    "published" is projected gradient descent from Δ = 0 with the rate and steps of ``schedule``;
    its last iterate is reported, as published.  "spectral" explores every base loss from
    several starts by ``descend`` and then polishes every goal from the best point that any
    candidate has visited, maps with kinks by ``settle`` too; Δ = 0 with the published rate is
    among its starts.  "thorough"
    runs the published descent first and polishes from its points too: never above it, at its cost.
    """
    if method not in METHODS:
        raise UserError(
            f"search method {method!r} is not known; choose one of {', '.join(METHODS)}"
        )
    problem = _Problem(view, around)
    if effort.starts < 1:
        raise UserError(f"starts = {effort.starts} must be at least 1")
    kept = problem.terms(goals)
    if method == "published":
        value, delta = _published(problem, kept, schedule)
        start = [["zero"] * len(goals) for _ in streams]
        return FoundLosses(value, delta, start, schedule[1])
    rate = schedule[0]
    directions, names = _starts(view, streams, effort.starts)
    archive = _Archive(problem, kept, names)
    steps = 0
    # shares of the enclosing work, by the most evaluations of each
    most = effort.explore + effort.rounds * effort.polish + effort.settle * SETTLING
    if method == "thorough":
        most += schedule[1]
        with portion(schedule[1] / most):
            _published(problem, kept, schedule, archive)
        steps = schedule[1]
    bases = list(dict.fromkeys(goal.loss for goal in goals))
    count = directions.shape[2]
    explored = [Goal(loss) for loss in bases for _ in range(count)]
    delta = directions.repeat(1, 1, len(bases), 1, 1)[:, 0]
    labels = torch.arange(count, device=delta.device).repeat(len(bases))
    labels = labels.expand(len(delta), -1)
    idle = torch.zeros_like(labels, dtype=torch.bool)
    control = (rate, effort.explore, 1e-3)
    with portion(effort.explore / most):
        steps += descend(problem, archive, explored, delta, labels, idle, control)
    penalised = [goal for goal in goals if goal.penalty]
    for turn in range(effort.rounds):
        best, label = archive.delta, archive.label
        around_it = view.radius * NEAR ** (turn + 1)
        near = [best + around_it * noise for noise in _noise(best, streams, turn, effort)]
        asked = [_pursued(goal) for goal in goals] * (1 + effort.beside)
        delta, labels = torch.cat([best, *near], 1), label.repeat(1, 1 + effort.beside)
        idle = _idle(goals, best).repeat(1, 1 + effort.beside)
        if turn == 0 and penalised:  # their own descent from Δ = 0
            zero = delta.new_zeros(len(delta), len(penalised), *delta.shape[2:])
            delta, asked = torch.cat([delta, zero], 1), [*asked, *penalised]
            labels = torch.cat([labels, labels.new_zeros(zero.shape[:2])], 1)
            idle = torch.cat([idle, idle.new_zeros(zero.shape[:2])], 1)
        control = (rate, effort.polish, 1e-5)
        with portion(effort.polish / most):
            steps += descend(problem, archive, asked, delta, labels, idle, control)
    asked = [_pursued(goal) for goal in goals] * len(STRIDES)
    for _ in range(effort.settle):
        with portion(SETTLING / most):
            steps += settle(problem, archive, problem.terms(asked))
    return archive.found(steps)


def settle(problem: _Problem, archive: _Archive, terms: _Terms, steps: int = SETTLING) -> int:
    """Projected subgradient steps of a fixed length that falls to zero, from the best points.

    A ReLU map has kinks, along which spectral gradients stall and short steps zigzag down (Shor,
    Minimization Methods for Non-Differentiable Functions, 1985).  Every goal of the archive goes
    once with each first length of ``STRIDES``.  Returns the evaluations made.
    """
    delta = archive.delta.repeat(1, len(STRIDES), 1, 1)
    labels = archive.label.repeat(1, len(STRIDES))
    strides = torch.tensor(STRIDES, dtype=delta.dtype, device=delta.device) * problem.view.radius
    strides = strides.repeat_interleave(archive.delta.shape[1])[:, None, None]
    for step in range(steps):
        q, pull = problem.functionals(delta)
        archive.see(q, delta, labels)
        reached(step, steps)
        downhill = normalize(pull(problem.value(q, terms)[1]), dim=-1)
        delta = problem.ball(delta - (1 - step / steps) * strides * downhill)
    return steps


def _noise(
    like: torch.Tensor, streams: Sequence[Stream], turn: int, effort: SearchEffort
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
    return Goal(goal.loss, penalty=3 / margin, slack=goal.limit - margin)


@dataclass(frozen=True)
class _Terms:
    """Goals as numbers: a (T, J, 3), target (T, J), sign, penalty, slack, limit (J,)."""

    a: torch.Tensor
    target: torch.Tensor
    sign: torch.Tensor
    penalty: torch.Tensor
    slack: torch.Tensor
    limit: torch.Tensor

    def take(self, index: torch.Tensor) -> _Terms:
        return _Terms(
            self.a[:, index],
            self.target[:, index],
            *(getattr(self, name)[index] for name in ("sign", "penalty", "slack", "limit")),
        )


class _Problem:
    """The functionals q of a view around trained models, and goals' values."""

    def __init__(self, view: OneTokenView, around: Neighbourhood) -> None:
        self.view, self.around = view, around
        self.centre = view.tokens[:, :, None]
        shape = view.features(self.centre).shape[3:]
        self.u = around.u.to(self.centre).reshape(*around.u.shape[:2], *shape)

    def terms(self, goals: Sequence[Goal]) -> _Terms:
        f_x, y = self.around.f_x, self.around.y
        one, zero, e = torch.ones_like(y), torch.zeros_like(y), y - f_x
        rows = {
            "features": ((zero, one, zero), -one, 1.0),
            "alignment": ((zero, zero, one), -one, 1.0),
            "error_finetuned": ((one, e, zero), -y, 1.0),
            "error_retrained": ((one, zero, e), -y, 1.0),
            "change": ((one, zero, e), self.around.f_x_retrained, -1.0),
        }
        chosen = [rows[goal.loss] for goal in goals]

        def numbers(name: str) -> torch.Tensor:
            return torch.tensor([getattr(goal, name) for goal in goals], dtype=y.dtype).to(y)

        return _Terms(
            torch.stack([torch.stack(row[0], -1) for row in chosen], 1),
            torch.stack([row[1] for row in chosen], 1),
            torch.tensor([row[2] for row in chosen]).to(y),
            numbers("penalty"),
            numbers("slack"),
            numbers("limit"),
        )

    def functionals(self, delta: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """q (T, S, 3) in float64 at Δ (T, S, m, d), and the pullback of weights (T, S, 3)."""
        q, pull = self.view.linear(self.centre + delta[:, None], self.u)
        return q[:, 0].to(torch.float64), lambda w: pull(w[:, None].to(delta))[:, 0]

    def value(
        self, q: torch.Tensor, terms: _Terms
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A goal's value (T, S) for each candidate, its gradient in q (T, S, 3), and γ."""
        rest = (q * terms.a).sum(-1) - terms.target
        gap = q[..., 0] - self.around.f_x[:, None]
        over = (gap.abs() - terms.slack).clamp_min(0)
        value = terms.sign * rest**2 + terms.penalty * over**2
        slope = 2 * (terms.sign * rest)[..., None] * terms.a
        slope[..., 0] += 2 * terms.penalty * over * gap.sign()
        return value, slope, gap.abs()

    def ball(self, delta: torch.Tensor) -> torch.Tensor:
        """Each changed word's Δ, (..., d), projected onto ‖Δ‖ ≤ √d."""
        length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        return delta * (self.view.radius / length.clamp_min(self.view.radius))


class _Archive:
    """The best point of every goal among all that any candidate visits.

    Squares below ``SOLVED`` count as solved, where rounding would decide; among solved points the
    one of least γ is kept.
    """

    def __init__(self, problem: _Problem, kept: _Terms, names: Sequence[str]) -> None:
        self.problem, self.kept, self.names = problem, kept, list(names)
        trials, _, _, words, d = problem.centre.shape
        shape = (trials, len(kept.sign))
        self.value = kept.target.new_full(shape, torch.inf)
        self.rank = self.value.clone()
        self.delta = problem.centre.new_zeros(*shape, words, d)
        self.label = torch.zeros(shape, dtype=torch.long, device=self.delta.device)

    def see(self, q: torch.Tensor, delta: torch.Tensor, labels: torch.Tensor) -> None:
        """Candidates at Δ (T, S, m, d) with functionals q (T, S, 3)."""
        t = self.kept
        rest = q @ t.a.mT - t.target[:, None]  # (T, S, J)
        gamma = (q[..., 0] - self.problem.around.f_x[:, None]).abs()[..., None]
        values = t.sign * rest**2 + t.penalty * (gamma - t.slack).clamp_min(0) ** 2
        values = torch.where((gamma <= t.limit) & values.isfinite(), values, torch.inf)
        ranks = torch.where(t.sign > 0, values.clamp_min(SOLVED), values) + TIE * gamma
        best, at = ranks.min(1)
        better = best < self.rank
        if better.any():
            trial, goal = better.nonzero(as_tuple=True)
            where = at[trial, goal]
            self.rank[trial, goal] = best[trial, goal]
            self.value[trial, goal] = values[trial, where, goal]
            self.delta[trial, goal] = delta[trial, where]
            self.label[trial, goal] = labels[trial, where]

    def found(self, steps: int) -> FoundLosses:
        start = [[self.names[i] for i in row] for row in self.label.tolist()]
        return FoundLosses(self.value, self.delta, start, steps)


def descend(
    problem: _Problem,
    archive: _Archive,
    goals: Sequence[Goal],
    delta: torch.Tensor,
    labels: torch.Tensor,
    idle: torch.Tensor,
    control: tuple[float, int, float],
) -> int:
    """Spectral projected gradients (Birgin, Martínez and Raydan, SIAM J. Optim. 2000), batched.

    Candidate s descends goals[s] from Δ = delta[:, s] (T, S, m, d); where ``idle`` (T, S) it
    stays.  The direction is P(Δ − λ∇) − Δ with Barzilai and Borwein's λ; along it, a step is
    taken when the value stays below the largest of the last ``MEMORY`` ones, and shortened
    otherwise.  Starts at Δ = 0 keep close to the path of steepest descent, into the basin that
    the published optimiser finds: their values never rise, and their steps are the shorter ones
    of Barzilai and Borwein, the first of the published rate.  Every evaluation serves all
    candidates, each in its own state.  ``control`` holds that rate, the most evaluations, and
    the share of its value by which a candidate must improve every ten evaluations to go on.
    Returns the evaluations made.
    """
    made = 0
    terms = problem.terms(goals)
    for first in range(0, len(goals), BATCH):
        part = min(BATCH, len(goals) - first) / len(goals)
        index = torch.arange(first, min(first + BATCH, len(goals)), device=delta.device)
        own = terms.take(index)
        state = (delta[:, index], labels[:, index], idle[:, index])
        with portion(part):
            made += _descend(problem, archive, own, *state, control)
    return made


def _descend(
    problem: _Problem,
    archive: _Archive,
    terms: _Terms,
    x: torch.Tensor,
    labels: torch.Tensor,
    idle: torch.Tensor,
    control: tuple[float, int, float],
) -> int:
    rate, steps, tolerance = control
    radius = problem.view.radius

    def evaluate(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, pull = problem.functionals(at)
        archive.see(q, at, labels)
        value, slope, _ = problem.value(q, terms)
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
        if wanted.sum() <= 0.7 * len(wanted):
            chosen = wanted.nonzero()[:, 0]
            terms, labels = terms.take(chosen), labels[:, chosen]
            x, f, g, way, slope, share, history, best, earlier, active, careful, reach = (
                value[:, chosen]
                for value in (
                    *(x, f, g, way, slope, share, history, best, earlier, active),
                    *(careful, reach),
                )
            )
        reached(i, steps)
        y = x + share[..., None, None].to(x) * way
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
    names = ["zero", *(name for name, _ in known), *["random"] * rest]
    return torch.cat([zero, view.radius * normalize(directions, dim=-1)], 2), names


def _published(
    problem: _Problem, terms: _Terms, schedule: tuple[float, int], archive: _Archive | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Projected gradient descent from Δ = 0; the values and points of the last iterates."""
    rate, steps = schedule
    trials, _, _, words, d = problem.centre.shape
    delta = problem.centre.new_zeros(trials, terms.a.shape[1], words, d)
    labels = torch.zeros(delta.shape[:2], dtype=torch.long, device=delta.device)
    for step in range(steps + 1):
        q, pull = problem.functionals(delta)
        value, slope, _ = problem.value(q, terms)
        if archive is not None:
            archive.see(q, delta, labels)
        reached(step, steps)
        if step < steps:
            delta = problem.ball(delta - rate * pull(slope))
    return value, delta
