"""Whether F is larger inside the balls than on their spheres, where the searches look.

F grows along most rays, and at the sizes of the studies the maximum lies on the sphere.  In one or
two dimensions, or where an activation falls, it can lie inside.  One evaluation looks along the
ray to the best point, in small dimensions at random points too; where one of them does better, or
F falls towards the sphere at the best point, projected gradient steps follow.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from wordsens.perturbation import OneTokenView
from wordsens.search.maximum import Maximum, at, leaders, unit

ALONG = (0.75, 0.5, 0.25, 0.05, -0.5)  # where on the ray
SMALL = 8  # dimensions in which random points say something
RANDOM = 64  # points tried there
CLIMBING = 4  # points that climb on
STEPS = 30
FIRST = 0.1  # step, in radii


def look_inside(view: OneTokenView, maximum: Maximum, noise: torch.Tensor) -> Maximum:
    """The maximum, or a larger value inside the balls; noise (T, P, S, m, d) standard normal."""
    if view.grows_along_rays:
        return maximum
    best = maximum.delta[:, :, None]
    m, d = best.shape[-2:]
    tried = torch.cat([best, *(share * best for share in ALONG)], 2)
    small = m * d <= SMALL
    if small:
        length = torch.linalg.vector_norm(noise, dim=-1, keepdim=True)
        shares = torch.linspace(0, 1, noise.shape[2] + 1, dtype=noise.dtype, device=noise.device)
        shares = shares[1:, None, None] ** (1 / d)
        tried = torch.cat([tried, view.radius * shares * noise / length], 2)
    centre = view.tokens[:, :, None]
    top, grad = view.value_and_grad(centre + best)
    value = torch.cat([top, view.value(centre + tried[:, :, 1:])], 2)
    falls = ((grad * best).sum(-1) < 0).any(-1)[:, :, 0]
    asked = small | falls | (value[:, :, 1:].amax(-1) > value[:, :, 0])
    if not asked.any():
        return maximum
    delta = at(tried, leaders(value, CLIMBING))
    value, grad = view.value_and_grad(centre + delta)
    slope = unit(grad, torch.zeros_like(grad))
    pace = torch.full_like(value, FIRST * view.radius)
    for _ in range(STEPS):
        moved = _into_ball(delta + pace[..., None, None] * slope, view.radius)
        candidate, grad = view.value_and_grad(centre + moved)
        better = candidate > value
        wide = better[..., None, None]
        value = torch.where(better, candidate, value)
        delta = torch.where(wide, moved, delta)
        slope = torch.where(wide, unit(grad, torch.zeros_like(grad)), slope)
        pace = torch.where(better, pace * 1.5, pace * 0.5)
    top = value.argmax(-1, keepdim=True)
    found = replace(maximum, value=at(value, top)[..., 0], delta=at(delta, top)[:, :, 0])
    return maximum.or_better(replace(found, value=torch.where(asked, found.value, -torch.inf)))


def _into_ball(delta: torch.Tensor, radius: float) -> torch.Tensor:
    length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
    return delta * (radius / length.clamp_min(radius))
