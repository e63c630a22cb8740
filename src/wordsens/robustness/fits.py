"""Exponents and floors fitted to measurements, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A fitted number and its 95 % confidence interval; NaN where nothing could be fitted."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]".replace("-", "−")


NONE = Estimate(np.nan, np.nan, np.nan)


def slope(x: np.ndarray, y: np.ndarray) -> Estimate:
    """The exponent of y ∝ x^s by least squares of log y on log x.

    Every point is an independent draw.  The interval is Student's with HC3 standard errors, which
    allow the spread of y to depend on x.
    """
    from scipy.stats import t

    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    kept = (x > 0) & (y > 0) & np.isfinite(y)
    x, y = np.log(x[kept]), np.log(y[kept])
    if len(x) < 3 or np.ptp(x) == 0:
        return NONE
    A = np.stack([np.ones_like(x), x], axis=1)
    inverse = np.linalg.inv(A.T @ A)
    fitted = inverse @ A.T @ y
    leverage = ((A @ inverse) * A).sum(1).clip(max=1 - 1e-12)
    scaled = (y - A @ fitted) / (1 - leverage)
    spread = inverse @ (A.T * scaled**2) @ A @ inverse
    half = t.ppf(0.5 + LEVEL / 2, len(x) - 2) * np.sqrt(spread[1, 1])
    return Estimate(float(fitted[1]), float(fitted[1] - half), float(fitted[1] + half))


@dataclass(frozen=True)
class Knee:
    """y² = (a x^s)² + b²: a power law that runs into a floor."""

    factor: Estimate
    exponent: Estimate
    floor: Estimate

    @property
    def knee(self) -> float:
        """The x at which the power law has come down to the floor."""
        return float((self.floor.value / self.factor.value) ** (1 / self.exponent.value))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        falling = self.factor.value * np.asarray(x, dtype=float) ** self.exponent.value
        return np.hypot(falling, self.floor.value)


def knee(x: np.ndarray, y: np.ndarray, exponent: float | None = None) -> Knee:
    """Fit a power law with a floor in logarithms; ``exponent`` fixes s where it is given."""
    from scipy.optimize import least_squares
    from scipy.stats import t

    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    kept = (x > 0) & (y > 0) & np.isfinite(y)
    x, y = np.log(x[kept]), np.log(y[kept])
    free = 2 if exponent is not None else 3
    if len(x) <= free or np.ptp(x) == 0:
        return Knee(NONE, NONE, NONE)
    centre = x.mean()

    def model(p: np.ndarray) -> np.ndarray:
        s = exponent if exponent is not None else p[2]
        return 0.5 * np.logaddexp(2 * (p[0] + s * (x - centre)), 2 * p[1])

    start = [y.mean(), y.min() - 0.5, -0.5][:free]
    found = least_squares(lambda p: model(p) - y, start)
    variance = (found.fun**2).sum() / (len(x) - free)
    errors = np.sqrt(np.diag(np.linalg.pinv(found.jac.T @ found.jac)) * variance)
    half = t.ppf(0.5 + LEVEL / 2, len(x) - free) * errors
    s = exponent if exponent is not None else found.x[2]
    shift = -s * centre

    def exponential(i: int, shift: float) -> Estimate:
        middle = found.x[i] + shift
        return Estimate(*(float(np.exp(middle + sign * half[i])) for sign in (0, -1, 1)))

    spread = half[2] if exponent is None else 0.0
    return Knee(
        exponential(0, shift),
        Estimate(float(s), float(s - spread), float(s + spread)),
        exponential(1, 0.0),
    )
