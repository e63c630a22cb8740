"""The linear part of the kernel: averages over draws, its two limits, and wide interpolators."""

import numpy as np
import pytest
import torch

import wordsens
from wordsens.activations import activation
from wordsens.randomness import Stream
from wordsens.robustness.limits import linear_limit
from wordsens.robustness.vectors import draw_vectors


@pytest.mark.parametrize(("n", "d"), [(60, 200), (200, 60), (120, 120)])
def test_equals_the_average_over_draws(n, d):
    """λ = 0.0747… of tanh; the mean over 20 draws of a smooth spectral sum, to 3 %."""
    phi = activation("tanh")
    rho = torch.randn(4_000_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slope = phi.derivative(rho).mean().item()
    rest = (phi.value(rho) ** 2).mean().item() / slope**2 - 1
    squares = []
    for seed in range(20):
        X = Stream(seed, "test").normal(n, d, dtype=torch.float64).numpy()
        s = np.linalg.eigvalsh(X @ X.T / d).clip(0)
        squares.append((s / (s + rest) ** 2).sum())
    assert linear_limit(n, d, phi, "rf") == pytest.approx(np.mean(squares) ** 0.5, rel=0.03)


def test_limits_in_n():
    phi = activation("tanh")
    few = linear_limit(10, 10**6, phi, "rf")
    many = linear_limit(10**8, 10**4, phi, "rf")
    assert few / 10**0.5 == pytest.approx(linear_limit(20, 10**6, phi, "rf") / 20**0.5, rel=1e-3)
    assert many == pytest.approx(10**4 / 10**4, rel=0.01)
    assert linear_limit(10, 10, activation("cos"), "ntk") == 0


@pytest.mark.parametrize(("features", "width"), [("rf", 40_000), ("ntk", 2000)])
def test_wide_interpolators_reach_it(features, width):
    """Four draws of n = 60, d = 200, averaged over 20 points: to 12 %."""
    found = []
    for seed in range(4):
        drawn = draw_vectors(None, 60, 200, 20, Stream(seed, "test"))
        S = wordsens.input_sensitivity(drawn.X, drawn.y, drawn.x, features, width=width, seed=seed)
        found.append(S.sensitivity.mean().item())
    limit = linear_limit(60, 200, activation("tanh"), features)
    assert np.mean(found) == pytest.approx(limit, rel=0.12)
