"""The attack that input sensitivity predicts: how far f moves towards its other sign in ‖Δ‖ ≤ δ‖x‖.

Along the gradient, Δ = −sign f(x) δ‖x‖ ∇f/‖∇f‖, f moves by δ S(x) to first order.  Projected
gradient starts there and in random directions and never ends below it.  Where ∇f is known to be
Lipschitz over the ball with constant L, no attack moves f by more than

    δ S(x) + L (δ‖x‖)² / 2        (Cauchy–Schwarz, Taylor).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream
from wordsens.robustness.input_sensitivity import Model


@dataclass(frozen=True)
class Attack:
    """What attacks of R strengths on B points did; all (R, B) but ``deltas`` (R,), ``output`` (B,).

    output       f(x)
    predicted    δ S(x), the first-order change
    along        how far f moved towards the other sign along the gradient
    projected    the same by projected gradient, at least ``along``
    bound        an upper bound on both; infinite where none is known
    """

    deltas: torch.Tensor
    output: torch.Tensor
    predicted: torch.Tensor
    along: torch.Tensor
    projected: torch.Tensor
    bound: torch.Tensor

    def flipped(self, change: torch.Tensor) -> torch.Tensor:
        """Whether a change of (R, B) towards the other sign reaches it."""
        return change > self.output.abs()


def attack(
    model: Model,
    x: torch.Tensor,
    deltas: Sequence[float],
    *,
    starts: int = 4,
    steps: int = 20,
    stream: Stream | None = None,
) -> Attack:
    """Attack a fitted interpolator at points x (B, …) with every strength δ.

    ``steps`` of projected gradient from ``starts`` points: the gradient's and random ones.  Raises
    ``UserError`` for strengths that are not positive.
    """
    if not deltas or not all(0 < delta < torch.inf for delta in deltas):
        raise UserError(f"deltas = {list(deltas)} must be positive numbers")
    stream = stream or Stream(0, "attack")
    shape, B, R = x.shape[1:], len(x), len(deltas)
    strengths = torch.tensor(deltas, dtype=x.dtype, device=x.device)
    f, gradient = model.value_and_gradient(x)
    norm = x.flatten(1).norm(dim=1)
    radius = strengths[:, None] * norm  # (R, B)
    sign = torch.where(f < 0, 1.0, -1.0)  # the way to the other sign

    def moved(delta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How far f moved the wanted way at Δ (R, B, S, D), and its gradient."""
        value, slope = model.value_and_gradient((x.flatten(1)[:, None] + delta).unflatten(3, shape))
        return sign[:, None] * (value - f[:, None]), sign[:, None, None] * slope.flatten(3)

    ascent = sign[:, None] * gradient.flatten(1)
    noise = stream.child("starts").normal(R, B, whole_number("starts", starts) - 1, ascent.shape[1])
    away = torch.cat([ascent.expand(R, -1, -1)[:, :, None], noise.to(ascent)], 2)
    reach = radius[..., None, None]
    delta = reach * torch.nn.functional.normalize(away, dim=-1)
    value, slope = moved(delta)
    along, best = value[..., 0], value
    length = torch.ones_like(value)[..., None]  # of a step, in units of the radius
    for _ in range(whole_number("steps", steps, 0)):
        stepped = delta + length * reach * torch.nn.functional.normalize(slope, dim=-1)
        size = stepped.norm(dim=-1, keepdim=True)
        stepped = stepped * (reach / size.clamp_min(1e-300)).clamp_max(1)
        new_value, new_slope = moved(stepped)
        better = (new_value > best)[..., None]
        delta, slope = torch.where(better, stepped, delta), torch.where(better, new_slope, slope)
        best = torch.maximum(best, new_value)
        length = torch.where(better, length, length / 2)
    predicted = radius * gradient.flatten(1).norm(dim=1)
    return Attack(
        strengths, f, predicted, along, best.amax(-1), predicted + _remainder(model, x, radius)
    )


def _remainder(model: Model, x: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """L r²/2 (R, B), infinite where no L is known."""
    if not hasattr(model, "gradient_lipschitz"):
        return torch.full_like(radius, torch.inf)
    flat = x.flatten(1)
    return model.gradient_lipschitz(flat, radius) * radius**2 / 2
