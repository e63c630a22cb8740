"""How far found losses are from a longer search, and from the published descent: for ``audit``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import wordsens
from wordsens.glm import Model
from wordsens.maps import position_sets
from wordsens.maps.declaration import LossEffort
from wordsens.randomness import Stream
from wordsens.search.auditing_losses import LEAST_LOSS, longer_losses
from wordsens.search.goals import LOSSES, Goal
from wordsens.search.losses import Question, search_losses

GOALS = [Goal(loss, penalty) for loss in LOSSES[:4] for penalty in (0.0, 0.1)] + [Goal("change")]
SIZES = ((5, 8, 20), (10, 8, 30), (10, 32, 60), (40, 8, 60), (40, 32, 100), (20, 96, 60))  # n, d, N


def audited_losses(
    name: str, options: dict[str, Any], trials: int, largest: int
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Shares by which losses lie above the least value known, and above the published descent's.

    All goals of a trial are searched jointly, then each singly: shares (trials, 2 × goals).  The
    least value known is that of both, of ten times as long a search, and of the published one.
    Half of the samples have words that share a mean.  Also evaluations and seconds, jointly.
    """
    above, published, evaluations, seconds = [], [], 0, 0.0
    for n, d, N in SIZES:
        if n * d > largest:
            continue
        for seed in range(trials):
            model, x, y = _trained(name, options, n, d, N, seed)
            began = time.process_time()
            jointly, made = _minima(model, x, y, GOALS)
            seconds += time.process_time() - began
            evaluations += made
            singly = np.concatenate([_minima(model, x, y, [goal])[0] for goal in GOALS])
            effort = longer_losses(model.map.loss_effort_for(n, d))
            long, _ = _minima(model, x, y, GOALS, effort, seed=1)
            path, _ = _minima(model, x, y, GOALS, method="published")
            best = np.minimum.reduce([jointly, singly, long, path])
            found = np.concatenate([jointly, singly])
            above.append(_share(found, np.tile(best, 2)))
            published.append(_share(found, np.tile(path, 2)))
    return np.stack(above), np.stack(published), evaluations, seconds


def _share(found: np.ndarray, least: np.ndarray) -> np.ndarray:
    share: np.ndarray = (found - least).clip(0) / np.maximum(np.abs(found), LEAST_LOSS)
    return share


def _trained(
    name: str, options: dict[str, Any], n: int, d: int, N: int, seed: int
) -> tuple[Model, torch.Tensor, float]:
    stream = Stream(seed, "audit losses", map=name, n=n, d=d)
    X = stream.child("X").normal(N + 1, n, d, dtype=torch.float64)
    if seed % 2:
        X = X + stream.child("mean").normal(1, 1, d, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    Y = stream.child("labels").normal(N + 1, dtype=torch.float64).sign()
    map = wordsens.build_map(name, n=n, d=d, seed=seed, **options)
    return wordsens.fit(map, X[1:], Y[1:]), X[0], Y[0].item()


def _minima(
    model: Model,
    x: torch.Tensor,
    y: float,
    goals: Sequence[Goal],
    effort: LossEffort | None = None,
    *,
    method: str = "spectral",
    seed: int = 0,
) -> tuple[np.ndarray, int]:
    """Values (goals,), and evaluations of one Δ."""
    n, d = x.shape
    view = model.map.view(x[None], position_sets([[0]], n))
    count, plain = 0, view.functionals

    def counting(u: torch.Tensor) -> Any:
        linear = plain(u)

        def evaluate(v: torch.Tensor) -> Any:
            nonlocal count
            count += v.shape[:3].numel()
            return linear(v)

        return evaluate

    view.functionals = counting  # type: ignore[method-assign]
    around = model.solution.around(model.map.rows(x[None])[0], y)
    schedule = model.map.published_descent(n)
    effort = effort or model.map.loss_effort_for(n, d)
    asked = Question(view, around, goals, [Stream(seed, "search")], schedule, effort)
    return search_losses(asked, method).value[0].numpy(), count
