"""Exponents and knees are found, and intervals cover as often as they say."""

import numpy as np
import pytest

from wordsens.robustness.fits import knee, slope


def test_exact_power_laws():
    x = np.array([1.0, 2, 4, 8, 8])
    found = slope(x, 3 * x**-0.7)
    assert found.value == pytest.approx(-0.7)
    assert found.high - found.low < 1e-9
    assert str(found) == "−0.70 [−0.70, −0.70]"


def test_too_little_says_nothing():
    assert np.isnan(slope(np.ones(5), np.ones(5)).value)
    assert np.isnan(slope(np.array([1.0, 2]), np.array([1.0, 2])).low)
    assert np.isnan(knee(np.array([1.0, 2, 3]), np.ones(3)).floor.value)


def test_intervals_cover():
    """1000 draws with a spread that grows with x: 95 % intervals, between 92 and 98 %.

    Were 95 % right, leaving that range would have probability about 1e-5 two-sided; it is seeded.
    """
    draws = np.random.default_rng(0)
    x = np.repeat([10.0, 20, 40, 80, 160], 8)
    covered = 0
    for _ in range(1000):
        y = 2 * x**0.5 * np.exp(draws.normal(size=len(x)) * 0.02 * x**0.5)
        found = slope(x, y)
        covered += found.low <= 0.5 <= found.high
    assert 920 <= covered <= 980


def test_a_knee_is_found():
    draws = np.random.default_rng(1)
    x = np.repeat(np.geomspace(10, 1e5, 12), 10)
    y = np.hypot(30 * x**-0.5, 0.7) * np.exp(draws.normal(size=len(x)) * 0.05)
    found = knee(x, y)
    assert found.exponent.low < -0.5 < found.exponent.high
    assert found.floor.low < 0.7 < found.floor.high
    assert found.factor.low < 30 < found.factor.high
    assert found.knee == pytest.approx((30 / 0.7) ** 2, rel=0.3)
    assert np.allclose(np.log(found(x)), np.log(np.hypot(30 * x**-0.5, 0.7)), atol=0.05)
    fixed = knee(x, y, exponent=-0.5)
    assert fixed.exponent.value == fixed.exponent.low == -0.5
    assert fixed.floor.value == pytest.approx(0.7, rel=0.05)
