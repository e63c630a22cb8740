"""The layer norm's blow-up (17), (18), and the influence of a flip on what is read (Lemma 2.9)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wordsens.boolean.flips import neighbours
from wordsens.boolean.recogniser import Recogniser, plain_rows


@dataclass(frozen=True)
class Influence:
    """Of every flip of every string on the eos row of the last layer.

    ``distance`` (M, B, N) is I_n(y_{N+1}^L, x) of (6); ``constant`` (M, B, N) is that over
    β(x) β(x^⊕n) / N: by (19) at most a constant of the model, as the eos is never flipped.
    """

    distance: torch.Tensor
    constant: torch.Tensor


@torch.no_grad()
def blowup(of: Recogniser, bits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """τ^ℓ (17) and β^ℓ (18) of strings: both (M, B, L); infinite where ε = 0 and a row is flat."""
    tau = _pass(of, bits)[1]
    return tau, tau.cumprod(-1)


@torch.no_grad()
def influence(of: Recogniser, bits: torch.Tensor) -> Influence:
    """How far each flip of strings (B, N) moves the eos row, beside Lemma 2.9's 1/N."""
    B, N = bits.shape
    eos, tau = _pass(of, bits)
    moved, other = _pass(of, neighbours(bits).flatten(0, 1))
    distance = (moved.view(of.models, B, N, -1) - eos[:, :, None]).norm(dim=-1)
    beta = tau.prod(-1)[..., None] * other.prod(-1).view(of.models, B, N)
    return Influence(distance, distance * N / beta)


def _pass(of: Recogniser, bits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The eos row (M, B, D) and τ of every layer (M, B, L)."""
    tau: list[torch.Tensor] = []

    def seen(layer: int, d: torch.Tensor) -> None:
        z = (d.var(-1, correction=0) + of.shape.epsilon).rsqrt()
        tau.append(1 + z.amax(-1))

    rows = plain_rows(of, bits, seen)
    return rows[:, :, -1], torch.stack(tau, -1)
