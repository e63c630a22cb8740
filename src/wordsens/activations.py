"""Activations ϕ: value, derivatives and their bounds, and He's scale β of equation (7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

PIECES = 128  # of either side of zero, in which even cos(100 ρ) is smooth

Function = Callable[["torch.Tensor"], "torch.Tensor"]


def _not_given(a: torch.Tensor) -> torch.Tensor:
    raise UserError("this activation was made without its second derivative; give it, too")


@dataclass(frozen=True)
class Activation:
    """A componentwise non-linearity ϕ.

    ``value``, ``derivative`` and ``second`` are ϕ, ϕ' and ϕ'' (almost everywhere) and act on
    tensors of any shape; ``lipschitz``, ``curvature`` and ``third`` are sup |ϕ'|, sup |ϕ''| and
    sup |ϕ'''|, infinite where there is none or none is known.  ``monotone``: ϕ never falls.
    """

    name: str
    value: Function
    derivative: Function
    lipschitz: float
    second: Function = _not_given
    curvature: float = math.inf
    third: float = math.inf
    monotone: bool = True

    def mean_slope(self) -> float:
        """E ϕ'(ρ), ρ ~ N(0, 1), on which the robustness of random features hinges."""
        import numpy as np
        import torch

        nodes, weights = np.polynomial.hermite_e.hermegauss(200)
        slopes = self.derivative(torch.from_numpy(nodes)).numpy()
        return float(weights @ slopes / weights.sum())

    def parity(self) -> str:
        """ "even", "odd" or "general", by the values on a grid."""
        import torch

        grid = torch.linspace(0.01, 4, 400, dtype=torch.float64)
        right, left = self.value(grid), self.value(-grid)
        size = right.abs() + left.abs()
        if bool(((right - left).abs() <= 1e-9 * size).all()):
            return "even"
        return "odd" if bool(((right + left).abs() <= 1e-9 * size).all()) else "general"

    def second_moment(self, variance: float) -> float:
        """E ϕ²(√variance ρ), ρ ~ N(0, 1), by Gauss's rule on pieces of both sides of zero.

        By NumPy alone, as every job that draws a deep map asks for it: to import SciPy's quadrature
        takes 50 MB and longer than this.
        """
        import numpy as np
        import torch

        nodes, weights = np.polynomial.legendre.leggauss(16)
        length = 12 / PIECES
        rho = (length * (np.arange(-PIECES, PIECES)[:, None] + (nodes + 1) / 2)).ravel()
        value = self.value(torch.from_numpy(math.sqrt(variance) * rho)).numpy()
        density = np.exp(-rho * rho / 2) / math.sqrt(2 * math.pi)
        return float(np.tile(length / 2 * weights, 2 * PIECES) @ (value * value * density))


def activation(name: str) -> Activation:
    """The activation of that name; ``UserError`` names the known ones."""
    known = _activations()
    if not isinstance(name, str) or name not in known:
        raise UserError(f"activation {name!r} is not known; choose one of {', '.join(known)}")
    return known[name]


def own_activation(
    value: Function, derivative: Function, second: Function | None = None
) -> Activation:
    """An activation of the user's own from ϕ and ϕ'; without ϕ'', autograd differentiates ϕ'.

    Raises ``UserError`` where the functions are not componentwise on tensors or do not agree.
    """
    import torch

    name = getattr(value, "__name__", "own")
    grid = torch.linspace(-2.03, 1.97, 41, dtype=torch.float64)

    def slope_of(function: Function) -> Function:
        def slope(a: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                at = a.detach().requires_grad_()
                summed = function(at).sum()
                if not summed.requires_grad:  # a constant
                    return torch.zeros_like(a)
                return torch.autograd.grad(summed, at)[0]

        return slope

    pairs = [("ϕ'", derivative, value)] + ([("ϕ''", second, derivative)] if second else [])
    for symbol, given, below in pairs:
        try:
            found, by_differences = given(grid), (below(grid + 1e-5) - below(grid - 1e-5)) / 2e-5
            agree = bool((found - by_differences).abs().max() <= 1e-4 * (1 + found.abs().max()))
        except Exception as error:
            raise UserError(
                f"activation {name!r} does not map tensors componentwise: "
                f"{type(error).__name__}: {error}"
            ) from None
        if found.shape != grid.shape or not agree:
            raise UserError(
                f"activation {name!r}: the {symbol} given is not the derivative; give functions of "
                "tensors (ϕ, ϕ') or (ϕ, ϕ', ϕ''), such as (torch.sin, torch.cos)"
            )
    return Activation(
        name, value, derivative, math.inf, second or slope_of(derivative), monotone=False
    )


@cache
def he_scale(name: str) -> float:
    """β with E ϕ²(√β ρ) = 1, equation (7) of Bombari and Mondelli.

    Raises ``UserError`` where ϕ is bounded by one and no β exists (tanh, sigmoid).
    """
    phi = activation(name)
    low, high = 1e-4, 1e4
    if not phi.second_moment(low) < 1 < phi.second_moment(high):
        raise UserError(
            f"activation {name!r} admits no β with E ϕ²(√β ρ) = 1 (equation 7), which a deep map "
            "needs; choose relu, gelu, softplus or identity"
        )
    while low < (middle := math.sqrt(low * high)) < high:  # bisection down to the last digit
        low, high = (middle, high) if phi.second_moment(middle) < 1 else (low, middle)
    return high


@cache
def _activations() -> dict[str, Activation]:
    import torch

    def normal_cdf(a: torch.Tensor) -> torch.Tensor:
        return 0.5 * torch.erfc(-a / math.sqrt(2))

    def gelu_slope(a: torch.Tensor) -> torch.Tensor:
        return normal_cdf(a) + a * torch.exp(-a * a / 2) / math.sqrt(2 * math.pi)

    def gelu_second(a: torch.Tensor) -> torch.Tensor:
        return (2 - a * a) * torch.exp(-a * a / 2) / math.sqrt(2 * math.pi)

    def sigmoid_slope(a: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(a) * torch.sigmoid(-a)

    def sigmoid_second(a: torch.Tensor) -> torch.Tensor:
        return sigmoid_slope(a) * (torch.sigmoid(-a) - torch.sigmoid(a))

    def tanh_second(a: torch.Tensor) -> torch.Tensor:
        t = torch.tanh(a)
        return -2 * t * (1 - t * t)

    root2 = math.sqrt(2)  # the slope of gelu is largest where its second derivative vanishes
    gelu_lipschitz = 0.5 * math.erfc(-1) + root2 * math.exp(-1) / math.sqrt(2 * math.pi)
    extreme = (7 - math.sqrt(33)) / 2  # a² where the third derivative of gelu is extreme
    gelu_third = math.sqrt(extreme) * (4 - extreme) * math.exp(-extreme / 2)
    sigmoid_curvature = 1 / (6 * math.sqrt(3))
    zeros = torch.zeros_like
    listed = (
        Activation("relu", torch.relu, lambda a: (a > 0).to(a.dtype), 1.0, zeros),
        Activation(
            "tanh",
            torch.tanh,
            lambda a: 1 - torch.tanh(a) ** 2,
            1.0,
            tanh_second,
            4 / (3 * math.sqrt(3)),
            2.0,
        ),
        Activation(
            "gelu",
            lambda a: a * normal_cdf(a),
            gelu_slope,
            gelu_lipschitz,
            gelu_second,
            math.sqrt(2 / math.pi),
            gelu_third / math.sqrt(2 * math.pi),
            monotone=False,
        ),
        Activation(
            "sigmoid", torch.sigmoid, sigmoid_slope, 0.25, sigmoid_second, sigmoid_curvature, 0.125
        ),
        Activation("identity", lambda a: a, torch.ones_like, 1.0, zeros, 0.0, 0.0),
        Activation(
            "softplus",
            torch.nn.functional.softplus,
            torch.sigmoid,
            1.0,
            sigmoid_slope,
            0.25,
            sigmoid_curvature,
        ),
        Activation(
            "cos", torch.cos, lambda a: -torch.sin(a), 1.0, lambda a: -torch.cos(a), 1.0, 1.0, False
        ),
        Activation("sin", torch.sin, torch.cos, 1.0, lambda a: -torch.sin(a), 1.0, 1.0, False),
        Activation(  # even
            "square",
            lambda a: a * a / 2,
            lambda a: a.clone(),
            math.inf,
            torch.ones_like,
            1.0,
            0.0,
            monotone=False,
        ),
        Activation(  # odd, with E ϕ' = 0: the third Hermite polynomial, of unit second moment
            "hermite3",
            lambda a: (a**3 - 3 * a) / math.sqrt(6),
            lambda a: (3 * a * a - 3) / math.sqrt(6),
            math.inf,
            lambda a: 6 * a / math.sqrt(6),
            math.inf,
            math.sqrt(6),
            monotone=False,
        ),
    )
    return {phi.name: phi for phi in listed}
