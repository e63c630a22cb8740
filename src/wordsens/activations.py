"""Activations ϕ: value, derivative, Lipschitz constant, and He's scale β of equation (7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

Function = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Activation:
    """A componentwise non-linearity ϕ.

    ``value`` and ``derivative`` act on tensors of any shape; ``lipschitz`` is sup |ϕ'|.
    """

    name: str
    value: Function
    derivative: Function
    lipschitz: float

    def second_moment(self, variance: float) -> float:
        """E ϕ²(√variance ρ), ρ ~ N(0, 1), by adaptive quadrature on each side of zero."""
        from scipy.integrate import quad

        return quad(self._density(variance), -12, 0)[0] + quad(self._density(variance), 0, 12)[0]

    def _density(self, variance: float) -> Callable[[float], float]:
        import torch

        scale = math.sqrt(variance)

        def integrand(rho: float) -> float:
            value = self.value(torch.tensor(scale * rho, dtype=torch.float64)).item()
            return value * value * math.exp(-rho * rho / 2) / math.sqrt(2 * math.pi)

        return integrand


def activation(name: str) -> Activation:
    """The activation of that name; ``UserError`` names the known ones."""
    known = _activations()
    if not isinstance(name, str) or name not in known:
        raise UserError(f"activation {name!r} is not known; choose one of {', '.join(known)}")
    return known[name]


@cache
def he_scale(name: str) -> float:
    """β with E ϕ²(√β ρ) = 1, equation (7) of Bombari and Mondelli.

    Raises ``UserError`` where ϕ is bounded by one and no β exists (tanh, sigmoid).
    """
    from scipy.optimize import brentq

    phi = activation(name)
    low, high = 1e-4, 1e4
    if not phi.second_moment(low) < 1 < phi.second_moment(high):
        raise UserError(
            f"activation {name!r} admits no β with E ϕ²(√β ρ) = 1 (equation 7), which a deep map "
            "needs; choose relu, gelu or identity"
        )
    return brentq(lambda variance: phi.second_moment(variance) - 1, low, high, xtol=1e-13)


@cache
def _activations() -> dict[str, Activation]:
    import torch

    def normal_cdf(a: torch.Tensor) -> torch.Tensor:
        return 0.5 * torch.erfc(-a / math.sqrt(2))

    def gelu_slope(a: torch.Tensor) -> torch.Tensor:
        return normal_cdf(a) + a * torch.exp(-a * a / 2) / math.sqrt(2 * math.pi)

    def sigmoid_slope(a: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(a) * torch.sigmoid(-a)

    root2 = math.sqrt(2)  # the slope of gelu is largest where its second derivative vanishes
    gelu_lipschitz = 0.5 * math.erfc(-1) + root2 * math.exp(-1) / math.sqrt(2 * math.pi)
    listed = (
        Activation("relu", torch.relu, lambda a: (a > 0).to(a.dtype), 1.0),
        Activation("tanh", torch.tanh, lambda a: 1 - torch.tanh(a) ** 2, 1.0),
        Activation("gelu", lambda a: a * normal_cdf(a), gelu_slope, gelu_lipschitz),
        Activation("sigmoid", torch.sigmoid, sigmoid_slope, 0.25),
        Activation("identity", lambda a: a, torch.ones_like, 1.0),
    )
    return {phi.name: phi for phi in listed}
