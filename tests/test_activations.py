import math

import pytest
import torch

from wordsens.activations import activation, he_scale
from wordsens.errors import UserError

NAMES = ("relu", "tanh", "gelu", "sigmoid", "identity")


@pytest.mark.parametrize("name", NAMES)
def test_derivative_and_lipschitz_constant(name):
    phi = activation(name)
    a = torch.linspace(-9, 9, 20001, dtype=torch.float64) + 1e-5
    step = 1e-6
    slope = (phi.value(a + step) - phi.value(a - step)) / (2 * step)
    assert torch.allclose(phi.derivative(a), slope, atol=2e-8)
    assert slope.abs().max() <= phi.lipschitz + 1e-8
    assert slope.abs().max() > phi.lipschitz - 1e-6  # the constant is attained


def test_he_scale_solves_equation_7():
    assert he_scale("relu") == pytest.approx(2, rel=1e-10)
    assert he_scale("identity") == pytest.approx(1, rel=1e-10)
    beta = he_scale("gelu")
    rho = torch.linspace(-12, 12, 400001, dtype=torch.float64)
    density = torch.exp(-rho * rho / 2) / math.sqrt(2 * math.pi)
    value = activation("gelu").value(math.sqrt(beta) * rho) ** 2
    assert torch.trapezoid(value * density, rho).item() == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_bounded_activations_have_no_he_scale(name):
    with pytest.raises(UserError, match="equation 7"):
        he_scale(name)


def test_unknown_activation():
    with pytest.raises(UserError, match=r"swish.*relu, tanh"):
        activation("swish")
