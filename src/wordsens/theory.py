"""Large-width limits of the word sensitivity of (deep) random features.

As the width k grows with the sample fixed, ‖φ(X^I(Δ)) − φ(X)‖²/k → E (ϕ(a) − ϕ(b))² with (a, b)
jointly Gaussian.  With m of n words changed and every changed word moving alike, c = ⟨x, Δ⟩/d and
s² = ‖Δ‖²/d,

    var a = 1,    var b = 1 + (m/n)(2c + s²),    cov(a, b) = 1 + (m/n) c,

so the supremum over the balls is one over |c| ≤ s ≤ 1.  Deeper layers map the three moments to
β times those of ϕ(a), ϕ(b).  For ReLU they are the arc-cosine kernel's (Cho and Saul, 2009).
At finite width the search also adapts to the random matrix, which adds a factor: for ReLU, found
values stay below 1 + √(2 m d/k) times the limit, as about half of the neurons are active.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from wordsens.activations import activation as activation_by_name
from wordsens.activations import he_scale
from wordsens.errors import UserError, whole_number

LONGEST = 10**9  # beyond it the limit is a difference of numbers that are equal to rounding
NODES = 120  # Gauss–Hermite nodes per dimension, for activations without a closed form


def large_width_limit(
    n: int, *, words: int = 1, depth: int | None = None, activation: str = "relu"
) -> float:
    """lim_{k → ∞} of the word sensitivity (4) of rf (``depth`` None) or drf of that depth.

    >>> round(large_width_limit(100), 3), round(large_width_limit(400), 3)
    (0.099, 0.05)
    """
    n, words = whole_number("n", n), whole_number("words", words)
    if words > n:
        raise UserError(f"words = {words} must lie between 1 and n = {n}")
    if n > LONGEST * words:
        raise UserError(
            f"n = {n} is beyond what can be computed; allowed: up to {LONGEST * words}, from where "
            "on the limit falls as 1/√n"
        )
    if depth is not None:
        whole_number("depth", depth)
    activation_by_name(activation)
    ratio = words / n
    scale = 1.0 if depth is None else he_scale(activation)

    def squared(point: np.ndarray) -> float:
        s, angle = point
        c = s * math.cos(angle)
        moments = (scale, scale * (1 + ratio * (2 * c + s * s)), scale * (1 + ratio * c))
        for layer in range(depth or 1):
            factor = scale if layer else 1.0
            aa, bb, ab = (factor * x for x in moments)
            moments = _through(aa, bb, ab, activation)
        aa, bb, ab = moments
        return (aa + bb - 2 * ab) / aa

    starts = [(1.0, angle) for angle in (0.05, 0.8, 1.6, 2.4, 3.1)] + [(0.5, 1.6)]
    found = [
        minimize(lambda x: -squared(x), start, bounds=[(0, 1), (0, math.pi)]).fun
        for start in starts
    ]
    return math.sqrt(-min(found))


def _through(aa: float, bb: float, ab: float, activation: str) -> tuple[float, float, float]:
    """E ϕ(a)², E ϕ(b)², E ϕ(a)ϕ(b) for centred Gaussians with these moments."""
    if activation == "relu":
        if aa <= 0 or bb <= 0:  # every word cancelled: b = 0 almost surely
            return max(aa, 0.0) / 2, max(bb, 0.0) / 2, 0.0
        rho = min(1.0, max(-1.0, ab / math.sqrt(aa * bb)))
        theta = math.acos(rho)
        mixed = (math.sin(theta) + (math.pi - theta) * rho) / (2 * math.pi)
        return aa / 2, bb / 2, math.sqrt(aa * bb) * mixed
    import torch

    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    phi = activation_by_name(activation).value
    along = ab / math.sqrt(aa) if aa > 0 else 0.0
    across = math.sqrt(max(bb - along * along, 0.0))
    a = phi(torch.from_numpy(math.sqrt(max(aa, 0.0)) * nodes)).numpy()
    b = phi(torch.from_numpy(along * nodes[:, None] + across * nodes)).numpy()
    return (
        float(weights @ a**2),
        float(weights @ b**2 @ weights),
        float((weights * a) @ (b @ weights)),
    )
