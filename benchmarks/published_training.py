"""The published way to test generalization on a changed word, as the baseline of the benchmarks.

Our own plain implementation of what Bombari and Mondelli (ICML 2024) did in Section 6: θ* by the
pseudo-inverse, the p×p projector P⊥ = I − Φ⁺Φ formed and stored, then every loss minimised by
itself, by projected gradient descent from Δ = 0 with a fixed rate, with the whole map computed anew
and differentiated by autograd at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.published import Map


def schedule(n: int) -> tuple[float, int]:
    """The published rate and number of steps for attention maps at context length n."""
    return 1.0, 50 * n


@dataclass(frozen=True)
class Trained:
    """θ* of (12), and the sample (X, y) with what the losses need of it."""

    phi: Map
    X: torch.Tensor
    y: float
    theta: torch.Tensor
    features: torch.Tensor
    orthogonal: torch.Tensor  # P⊥φ(X)


def train(
    phi: Map, samples: torch.Tensor, labels: torch.Tensor, X: torch.Tensor, y: float
) -> Trained:
    """Fit samples (N, n, d) to ±1 labels and project the features of X."""
    Phi = torch.stack([phi(sample).flatten() for sample in samples])
    inverse = torch.linalg.pinv(Phi)
    projector = -(inverse @ Phi)
    projector.diagonal().add_(1)
    own = phi(X).flatten()
    return Trained(phi, X, y, inverse @ labels, own, projector @ own)


def loss(trained: Trained, delta: torch.Tensor, name: str, penalty: float) -> torch.Tensor:
    """(145), (146) or (16) at Δ, with the penalty of (147) to (149)."""
    t = trained
    changed = t.phi(torch.cat([(t.X[0] + delta)[None], t.X[1:]])).flatten()
    f_x, f_delta = t.features @ t.theta, changed @ t.theta
    cosine = changed @ t.features / (t.features @ t.features)
    alignment = changed @ t.orthogonal / (t.orthogonal @ t.orthogonal)
    value = {
        "features": (cosine + 1) ** 2,
        "alignment": (alignment + 1) ** 2,
        "error_finetuned": (f_delta + cosine * (t.y - f_x) + t.y) ** 2,
        "error_retrained": (f_delta + alignment * (t.y - f_x) + t.y) ** 2,
    }[name]
    return value + penalty * (f_delta - f_x) ** 2


def descend(
    trained: Trained, goals: Sequence[tuple[str, float]], *, rate: float, steps: int
) -> list[float]:
    """The loss of every goal (name, penalty) after its own ``steps`` steps from Δ = 0."""
    radius = trained.X.shape[1] ** 0.5
    values = []
    for name, penalty in goals:
        delta = torch.zeros_like(trained.X[0])
        for _ in range(steps):
            delta = delta.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(loss(trained, delta, name, penalty), delta)
            with torch.no_grad():
                delta = delta - rate * slope
                length = torch.linalg.vector_norm(delta)
                delta = delta * (radius / length) if length > radius else delta
        with torch.no_grad():
            values.append(float(loss(trained, delta, name, penalty)))
    return values
