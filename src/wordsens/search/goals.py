"""The losses of the generalization experiments, as functions of a changed word.

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

from wordsens.arguments import real_number
from wordsens.errors import UserError
from wordsens.perturbation import OneTokenView

LOSSES = ("features", "alignment", "error_finetuned", "error_retrained", "change")
SOLVED = 1e-8  # a loss that is a square has reached zero
TIE = 1e-9  # weight of γ where losses are equal


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

    def trials(self, index: list[int]) -> Neighbourhood:
        """Some of the trials."""
        return Neighbourhood(*(getattr(self, f.name)[index] for f in fields(self)))


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
    if not isinstance(loss, str) or loss not in LOSSES:
        raise UserError(f"loss {loss!r} is not known; choose one of {', '.join(LOSSES)}")
    if real_number("penalty", penalty) < 0:
        raise UserError(f"penalty = {penalty} must be a number of at least 0")
    return Goal(loss, float(penalty))


def trade_off(limits: Sequence[float]) -> list[Goal]:
    """The smallest test error with γ ≤ g for every g: fine-tuned goals first, then re-trained."""
    return [
        Goal(f"error_{mode}", limit=float(g)) for mode in ("finetuned", "retrained") for g in limits
    ]


@dataclass(frozen=True)
class Minima:
    """The best point found for J goals in T trials.

    value (T, J), inf where no point met a limit; delta (T, J, m, d); start names by trial and
    goal; ``steps`` evaluations made.
    """

    value: torch.Tensor
    delta: torch.Tensor
    start: list[list[str]]
    steps: int


@dataclass(frozen=True)
class Terms:
    """Goals as numbers: a (T, J, 3), target (T, J), sign, penalty, slack, limit (J,) or (T, J)."""

    a: torch.Tensor
    target: torch.Tensor
    sign: torch.Tensor
    penalty: torch.Tensor
    slack: torch.Tensor
    limit: torch.Tensor

    def take(self, index: torch.Tensor) -> Terms:
        return Terms(
            self.a[:, index],
            self.target[:, index],
            *(getattr(self, name)[index] for name in ("sign", "penalty", "slack", "limit")),
        )

    def each(self, index: torch.Tensor) -> Terms:
        """Goals of its own for every trial, index (T, K)."""
        a = self.a.gather(1, index[..., None].expand(*index.shape, 3))
        own = (getattr(self, name)[index] for name in ("sign", "penalty", "slack", "limit"))
        return Terms(a, self.target.gather(1, index), *own)


class Problem:
    """The functionals q of a view around trained models, and goals' values."""

    def __init__(self, view: OneTokenView, around: Neighbourhood) -> None:
        self.view, self.around = view, around
        self.centre = view.tokens[:, :, None]
        shape = view.features(self.centre).shape[3:]
        u = around.u.to(self.centre).reshape(*around.u.shape[:2], *shape)
        self.linear = view.functionals(u)

    def terms(self, goals: Sequence[Goal]) -> Terms:
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

        return Terms(
            torch.stack([torch.stack(row[0], -1) for row in chosen], 1),
            torch.stack([row[1] for row in chosen], 1),
            torch.tensor([row[2] for row in chosen]).to(y),
            numbers("penalty"),
            numbers("slack"),
            numbers("limit"),
        )

    def functionals(self, delta: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """q (T, S, 3) in float64 at Δ (T, S, m, d), and the pullback of weights (T, S, 3)."""
        q, pull = self.linear(self.centre + delta[:, None])
        return q[:, 0].to(torch.float64), lambda w: pull(w[:, None].to(delta))[:, 0]

    def value(self, q: torch.Tensor, terms: Terms) -> tuple[torch.Tensor, torch.Tensor]:
        """A goal's value (T, S) for each candidate, and its gradient in q (T, S, 3)."""
        rest = (q * terms.a).sum(-1) - terms.target
        gap = q[..., 0] - self.around.f_x[:, None]
        over = (gap.abs() - terms.slack).clamp_min(0)
        value = terms.sign * rest**2 + terms.penalty * over**2
        slope = 2 * (terms.sign * rest)[..., None] * terms.a
        slope[..., 0] += 2 * terms.penalty * over * gap.sign()
        return value, slope

    def ball(self, delta: torch.Tensor) -> torch.Tensor:
        """Each changed word's Δ, (..., d), projected onto ‖Δ‖ ≤ √d."""
        length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        return delta * (self.view.radius / length.clamp_min(self.view.radius))


class Archive:
    """The best point of every goal among all that any candidate visits.

    Squares below ``SOLVED`` count as solved, where rounding would decide; among solved points the
    one of least γ is kept.
    """

    def __init__(self, problem: Problem, kept: Terms, names: Sequence[str]) -> None:
        self.problem, self.kept, self.names = problem, kept, list(names)
        self.limited = bool((kept.limit < torch.inf).any())
        trials, _, _, words, d = problem.centre.shape
        shape = (trials, len(kept.sign))
        self.value = kept.target.new_full(shape, torch.inf)
        self.rank = self.value.clone()
        self.delta = problem.centre.new_zeros(*shape, words, d)
        self.label = torch.zeros(shape, dtype=torch.long, device=self.delta.device)
        self.steps = 0

    def see(self, q: torch.Tensor, delta: torch.Tensor, labels: torch.Tensor) -> None:
        """Candidates at Δ (T, S, m, d) with functionals q (T, S, 3)."""
        t = self.kept
        rest = q @ t.a.mT - t.target[:, None]  # (T, S, J)
        gamma = (q[..., 0] - self.problem.around.f_x[:, None]).abs()[..., None]
        values = t.sign * rest**2 + t.penalty * (gamma - t.slack).clamp_min(0) ** 2
        ranks = torch.where(t.sign > 0, values.clamp_min(SOLVED), values) + TIE * gamma
        ranks = ranks.nan_to_num_(nan=torch.inf, posinf=torch.inf, neginf=torch.inf)
        if self.limited:
            ranks = torch.where(gamma <= t.limit, ranks, torch.inf)
        best, at = ranks.min(1)
        better = best < self.rank
        if better.any():
            trial, goal = better.nonzero(as_tuple=True)
            where = at[trial, goal]
            self.rank[trial, goal] = best[trial, goal]
            self.value[trial, goal] = values[trial, where, goal]
            self.delta[trial, goal] = delta[trial, where]
            self.label[trial, goal] = labels[trial, where]

    def found(self) -> Minima:
        start = [[self.names[i] for i in row] for row in self.label.tolist()]
        return Minima(self.value, self.delta, start, self.steps)
