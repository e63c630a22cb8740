"""Training with word sensitivity in the loss, log-loss + λ S, and its measurement afterwards.

S is estimated as in a search cut short: from a random direction, at a random word, a few power
steps Δ ← √d ∇F/‖∇F‖ are taken without a trace; then S = ‖φ(X^i(Δ)) − φ(X)‖/‖φ(X)‖ is
differentiable in the weights, and by Danskin's theorem its gradient at the best Δ is that of the
supremum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import logsigmoid

from wordsens.boolean.optimiser import adam_step
from wordsens.maps.autograd import AutogradView
from wordsens.progress import advance, stage
from wordsens.randomness import Stream
from wordsens.search.momentum import follow_kinks
from wordsens.studies.training.model import Classifiers

PROBED = 4  # one text of so many has its sensitivity in the loss
STARTS, STEPS = 6, 42  # of the search that measures
AT_ONCE = 256  # texts judged at once


def train(
    models: Classifiers,
    ids: torch.Tensor,
    labels: torch.Tensor,
    vectors: torch.Tensor,
    streams: Sequence[Stream],
    settings: Mapping[str, Any],
) -> None:
    """Train M models in place on texts ids (M, N, n) with labels ±1 (M, N).

    ``vectors`` (V, d) are the word vectors; ``settings`` those of an entry, with ``weight`` λ.
    """
    for W in models.weights.values():
        W.requires_grad_()
    first = {name: torch.zeros_like(W) for name, W in models.weights.items()}
    second = {name: torch.zeros_like(W) for name, W in models.weights.items()}
    N, size = ids.shape[1], min(settings["batch"], ids.shape[1])
    steps = settings["epochs"] * (N // size)
    rows = torch.arange(len(ids))[:, None]
    noise = [stream.child("probes").generator() for stream in streams]
    step = 0
    for epoch in range(settings["epochs"]):
        orders = [s.child("order", epoch=epoch).generator().permutation(N) for s in streams]
        order = torch.from_numpy(np.stack(orders))
        for chosen in order.split(size, 1):
            if chosen.shape[1] < size:
                continue
            X, y = vectors[ids[rows, chosen]], labels[rows, chosen]
            phi = models.features(X)
            loss = -logsigmoid(y * models.verdict(phi)).mean(1).sum()
            if settings["weight"]:
                probes = max(1, size // PROBED)
                S = sensitivity(models, X[:, :probes], phi[:, :probes], noise, settings["ascent"])
                loss = loss + settings["weight"] * S.mean(1).sum()
            for W in models.weights.values():
                W.grad = None
            loss.backward()
            fall = 0.5 * (1 + math.cos(math.pi * step / steps))
            step += 1
            rates = torch.full((len(ids),), settings["rate"] * fall)
            adam_step(models.weights, first, second, rates, step)
            advance(step, steps)


def sensitivity(
    models: Classifiers, X: torch.Tensor, phi: torch.Tensor, noise: Sequence[Any], ascent: int
) -> torch.Tensor:
    """An estimate of S (M, C) at a random word of each text, differentiable in the weights."""
    count, n, d = X.shape[1:]
    where = torch.stack([torch.from_numpy(g.integers(n, size=count)) for g in noise])
    index = where[..., None, None].expand(-1, -1, 1, d)
    start = [torch.from_numpy(g.standard_normal((count, 1, d))) for g in noise]
    delta = torch.stack(start).to(X)
    delta = d**0.5 * delta / delta.norm(dim=-1, keepdim=True)
    fixed, base = models.detached(), phi.detach()
    for _ in range(ascent):
        moving = delta.requires_grad_()
        gap = fixed.features(X.scatter_add(2, index, moving)) - base
        (slope,) = torch.autograd.grad((gap * gap).sum(), moving)
        length = slope.norm(dim=-1, keepdim=True)
        delta = torch.where(length > 0, d**0.5 * slope / length.clamp_min(1e-30), delta.detach())
    moved = models.features(X.scatter_add(2, index, delta))
    length = torch.linalg.vector_norm(phi.flatten(2), dim=-1)
    return torch.linalg.vector_norm((moved - phi).flatten(2), dim=-1) / length


@torch.no_grad()
def right(models: Classifiers, X_ids: torch.Tensor, y: torch.Tensor, vectors: Any) -> torch.Tensor:
    """Which verdicts on texts ids (M, K, n) with labels ±1 (M, K) are right, (M, K)."""
    parts = []
    for ids, own in zip(X_ids.split(AT_ONCE, 1), y.split(AT_ONCE, 1), strict=True):
        parts.append(models.verdict(models.features(vectors[ids])) * own > 0)
    return torch.cat(parts, 1)


def measured(
    models: Classifiers, ids: torch.Tensor, vectors: torch.Tensor, streams: Sequence[Stream]
) -> torch.Tensor:
    """Word sensitivity (M, K) of texts ids (M, K, n), each at a random word, by a search."""
    fixed, found = models.detached(), []
    for k in range(ids.shape[1]):
        X = vectors[ids[:, k]]
        places = [int(s.child("word", text=k).generator().integers(ids.shape[2])) for s in streams]
        with stage(1 / ids.shape[1]):
            found.append(_sup(fixed, X, places, [s.child("search", text=k) for s in streams]))
    return torch.stack(found, 1)


def _sup(
    models: Classifiers, X: torch.Tensor, places: Sequence[int], streams: Sequence[Stream]
) -> torch.Tensor:
    # a view changes one position in all its samples: each text's word is rolled to the front
    turn = torch.stack([torch.arange(X.shape[1]).roll(-place) for place in places])
    back = turn.argsort(1)

    def rolled(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        shape = (len(order), *[1] * (x.ndim - 3), order.shape[1], 1)
        return x.gather(-2, order.reshape(shape).expand(x.shape))

    def features(x: torch.Tensor) -> torch.Tensor:
        return models.features(rolled(x, back))

    view = AutogradView(features, rolled(X, turn), torch.tensor([[0]]))
    starts = torch.stack([s.normal(1, STARTS, 1, X.shape[-1]) for s in streams])
    best = follow_kinks(view, starts, steps=STEPS)
    return (view.squared_change(best.delta).sqrt() / view.norm)[:, 0]
