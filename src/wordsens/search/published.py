"""The published optimiser: projected gradient ascent with a fixed step and step count."""

from __future__ import annotations

import torch

from wordsens.perturbation import OneTokenView
from wordsens.progress import reached
from wordsens.search.maximum import Maximum, at


def published_ascent(
    view: OneTokenView, noise: torch.Tensor, *, rate: float, steps: int, features: int
) -> Maximum:
    """Ascend ‖φ(X^I(Δ)) − φ(X)‖ / √p by projected gradient steps, as the authors' scripts do.

    ``noise`` (T, P, S, m, d) standard normal; starts are x + 0.1 noise.  ``rate`` is 100 with
    300 steps for (deep) random features and 10 with 50 n steps for attention maps; ``features``
    is p, the number of features.  The last iterate is reported, as published.
    """
    centre = view.tokens[:, :, None]
    delta = _into_ball(0.1 * noise, view.radius)
    for step in range(steps):
        value, grad = view.value_and_grad(centre + delta)
        root = torch.sqrt(value * features)[..., None, None]
        slope = torch.where(root > 0, grad / (2 * torch.where(root > 0, root, 1)), 0)
        delta = _into_ball(delta + rate * slope, view.radius)
        reached(step, steps)
    value, _ = view.value_and_grad(centre + delta)
    best = value.argmax(-1, keepdim=True)
    return Maximum(
        value=at(value, best)[..., 0],
        delta=at(delta, best)[:, :, 0],
        start=best[..., 0],
        steps=torch.full_like(best[..., 0], steps),
        finals=value,
    )


def _into_ball(delta: torch.Tensor, radius: float) -> torch.Tensor:
    length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
    return delta * (radius / length.clamp_min(radius))
