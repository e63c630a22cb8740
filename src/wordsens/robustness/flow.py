"""Gradient flow of a small network, against the rate that its tangent kernel promises.

    dθ/dt = −∇L(θ),    L(θ) = ½ Σ_i (f(x_i; θ) − y_i)²,    L(t) ≤ L(0) exp(−λ_min t / 2)

as long as the kernel's smallest eigenvalue stays above a quarter of λ_min, its value at the start
(dL/dt = −rᵀKr ≤ −2 λ_min(K) L).  With the mean of squares in place of L, as the talk writes it,
time runs n/2 times slower.  The flow is integrated by an adaptive Runge–Kutta method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from wordsens.activations import Activation
from wordsens.errors import UserError
from wordsens.robustness.tangent_kernel import kernel_of, passes

MOST_EVALUATIONS = 15_000
DONE = 1e-9  # of the loss at the start; the loss only falls, and what is below is rounding
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Flow:
    """A gradient flow, seen at times t (m,).

    loss        L(t), not followed below ``DONE`` of L(0); NaN where it was too stiff to follow
    smallest    λ_min(K) at t = 0, ``later`` at the last time reached
    parameters  p
    evaluations gradients that it took
    """

    times: np.ndarray
    loss: np.ndarray
    smallest: float
    later: float
    parameters: int
    evaluations: int

    @property
    def bound(self) -> np.ndarray:
        """L(0) exp(−λ_min t / 2)."""
        return self.loss[0] * np.exp(-max(self.smallest, 0.0) * self.times / 2)


def gradient_flow(
    X: torch.Tensor,
    y: torch.Tensor,
    layers: Sequence[torch.Tensor],
    phi: Activation,
    times: Sequence[float],
) -> Flow:
    """The flow from weights W_1 … W_L on X (n, d) with labels y (n,), float64, seen at ``times``.

    ``times`` begin with 0 and increase, else ``UserError``.
    """
    from scipy.integrate import RK45

    wanted = np.asarray(times, dtype=float)
    if len(wanted) < 2 or wanted[0] != 0 or not (np.diff(wanted) > 0).all():
        raise UserError(f"times = {wanted.tolist()} must begin with 0 and increase")
    sizes = [W.shape for W in layers]

    def unpacked(theta: np.ndarray) -> list[torch.Tensor]:
        parts = torch.from_numpy(theta).split([math.prod(size) for size in sizes])
        return [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]

    def loss(theta: np.ndarray) -> float:
        f, _, _ = passes(X, unpacked(theta), phi)
        return 0.5 * ((f - y) ** 2).sum().item()

    def velocity(_: float, theta: np.ndarray) -> np.ndarray:
        f, features, backwards = passes(X, unpacked(theta), phi)
        parts = [((y - f)[:, None] * B).mT @ F for F, B in zip(features, backwards, strict=True)]
        return torch.cat([part.reshape(-1) for part in parts]).numpy()

    theta = torch.cat([W.reshape(-1) for W in layers]).numpy().copy()
    smallest = kernel_of(X, layers, phi).smallest
    seen = np.full(len(wanted), np.nan)
    seen[0], at = loss(theta), 1
    solver = RK45(velocity, 0.0, theta, wanted[-1], rtol=TOLERANCE, atol=TOLERANCE * 1e-3)
    while at < len(wanted) and solver.status == "running" and solver.nfev < MOST_EVALUATIONS:
        solver.step()
        between = solver.dense_output()
        while at < len(wanted) and wanted[at] <= solver.t:
            seen[at] = loss(between(wanted[at]))
            at += 1
        if seen[at - 1] < DONE * seen[0]:
            seen[at:] = 0
            break
    seen = np.maximum(seen, DONE * seen[0])
    later = kernel_of(X, unpacked(solver.y), phi).smallest
    return Flow(wanted, seen, smallest, later, len(theta), solver.nfev)
