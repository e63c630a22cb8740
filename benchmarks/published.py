"""The published way to estimate word sensitivity, as the baseline of the benchmarks.

Our own plain implementation of what Bombari and Mondelli (ICML 2024) did: every random matrix is
stored, the whole map is computed anew at every step, the gradient comes from autograd, and the
first token climbs ‖φ(X¹(Δ)) − φ(X)‖/√p by projected gradient ascent with a fixed rate.

One thing differs on purpose: the ball is the one of equation (4), around x_1.  The authors' scripts
keep Δ within √d of their noisy start, and so reach a little outside it; values would not compare.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Map = Callable[[torch.Tensor], torch.Tensor]


def schedule(name: str, n: int) -> tuple[float, int]:
    """The published rate and number of steps of a map at context length n."""
    return (100.0, 300) if name in ("rf", "drf") else (10.0, 50 * n)


def random_features(layers: list[torch.Tensor]) -> Map:
    """φ(X) = ϕ(V_L … ϕ(V_1 flat(X))) with ϕ = ReLU, equations (1) and (6)."""

    def phi(X: torch.Tensor) -> torch.Tensor:
        h = X.flatten()
        for V in layers:
            h = torch.relu(V @ h)
        return h

    return phi


def softmax_attention(W: torch.Tensor) -> Map:
    """φ(X) = softmax(X W Xᵀ/√d) X, equation (3)."""

    def phi(X: torch.Tensor) -> torch.Tensor:
        return torch.softmax(X @ W @ X.T / X.shape[1] ** 0.5, dim=1) @ X

    return phi


def relu_attention(W: torch.Tensor) -> Map:
    """The same with relu(S), every row divided by its sum; a row without positive score gives 0."""

    def phi(X: torch.Tensor) -> torch.Tensor:
        scores = torch.relu(X @ W @ X.T / X.shape[1] ** 0.5)
        total = scores.sum(1, keepdim=True)
        return scores / torch.where(total > 0, total, 1) @ X

    return phi


def draw(name: str, n: int, d: int, depth: int, generator: torch.Generator) -> Map:
    """A map with all its matrices drawn and stored in float64, k = D for random features."""

    def normal(rows: int, columns: int, variance: float) -> torch.Tensor:
        entries = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
        return entries.mul_(variance**0.5)

    if name == "raf":
        return softmax_attention(normal(d, d, 1 / d))
    if name == "relu_raf":
        return relu_attention(normal(d, d, 1 / d))
    D = n * d
    beta = 1.0 if name == "rf" else 2.0  # (7) for ReLU
    return random_features([normal(D, D, beta / D) for _ in range(depth)])


def ascend(
    phi: Map, X: torch.Tensor, noise: torch.Tensor, *, rate: float, steps: int
) -> tuple[float, torch.Tensor]:
    """The relative change after ``steps`` ascent steps from Δ = 0.1·noise, and that Δ."""
    radius = X.shape[1] ** 0.5
    with torch.no_grad():
        before = phi(X)
    rest = X[1:]

    def change(delta: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(phi(torch.cat([(X[0] + delta)[None], rest])) - before)

    def project(delta: torch.Tensor) -> torch.Tensor:
        length = torch.linalg.vector_norm(delta)
        return delta * (radius / length) if length > radius else delta

    delta = project(0.1 * noise)
    for _ in range(steps):
        delta = delta.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(change(delta) / before.numel() ** 0.5, delta)
        with torch.no_grad():
            delta = project(delta + rate * slope)
    with torch.no_grad():
        found = change(delta) / torch.linalg.vector_norm(before)
    return float(found), delta.detach()
