"""What the linear part of a kernel does to input sensitivity, in the limit of infinite width.

For ‖x‖ = √d and width → ∞ the kernels of random and of tangent features are, per feature and up to
terms of higher degree in ⟨x, x'⟩/d that show on the diagonal alone,

    K = μ₁² XXᵀ/d + (E ψ² − μ₀² − μ₁²) I,      ψ = ϕ,  μ₀ = E ϕ, μ₁ = E ϕ'          (random)
    K = μ₁² XXᵀ/d + (E ϕ'² − μ₁²) I,                                               (tangent)

expectations over ρ ~ N(0, 1).  Interpolation is then ridge regression on x with
λ = diagonal/μ₁², and of random labels its gradient is, with s the eigenvalues of XXᵀ/d,

    S² = d ‖∇f‖² = Σ s/(s + λ)²,

an integral over the law of Marchenko and Pastur.  It is n/(1 + λ)² for n ≪ d and d²/n for n ≫ d.
"""

from __future__ import annotations

import math

import numpy as np

from wordsens.activations import Activation

ZERO = 1e-6  # of E ϕ'


def linear_limit(n: int, d: int, phi: Activation, features: str) -> float:
    """S of the linear part at n random labels in dimension d; 0 where E ϕ' = 0."""
    slope = phi.mean_slope()
    if abs(slope) < ZERO:
        return 0.0
    rest = _diagonal(phi, features) / slope**2
    ratio = n / d
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2
    # s = (low + high)/2 + (high − low)/2 cos θ takes the root of the density away.
    nodes, weights = np.polynomial.legendre.leggauss(400)
    theta = np.pi * (nodes + 1) / 2
    s = (low + high) / 2 + (high - low) / 2 * np.cos(theta)
    density = ((high - low) / 2 * np.sin(theta)) ** 2 / (2 * np.pi * ratio * s)
    return math.sqrt(n * float(np.pi / 2 * weights @ (density * s / (s + rest) ** 2)))


def _diagonal(phi: Activation, features: str) -> float:
    """What the kernel's diagonal holds beyond the constant and the linear part."""
    import torch

    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    psi = phi.derivative if features == "ntk" else phi.value
    values = psi(torch.from_numpy(nodes)).numpy()
    below = 0.0 if features == "ntk" else float(weights @ values)
    return float(weights @ values**2) - below**2 - phi.mean_slope() ** 2
