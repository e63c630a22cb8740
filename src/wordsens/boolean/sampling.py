"""Sensitivities of sampled strings, exact string by string, and intervals for shares."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from wordsens.boolean.flips import chunks, flip_logits, neighbours
from wordsens.boolean.recogniser import Recogniser
from wordsens.progress import portion
from wordsens.randomness import Stream

Function = Callable[[torch.Tensor], torch.Tensor]
TOGETHER = 1 << 22  # bits handed to a user's function at once


def sample_strings(stream: Stream, count: int, N: int) -> torch.Tensor:
    """Uniformly random strings (count, N), int8."""
    return torch.from_numpy(stream.generator().integers(0, 2, (count, N), dtype=np.int8))


def recogniser_sensitivities(of: Recogniser, bits: torch.Tensor) -> torch.Tensor:
    """s(x) of (2) of strings (S, N) or (M, S, N) under every model: (M, S), int16.

    −1 where the string itself is inside the margin; a flip into the margin does not count.
    """
    found = []
    for part in chunks(of, bits):
        with portion(part.shape[-2] / bits.shape[-2]):
            plain, flipped = flip_logits(of, part)
        found.append(changes(of.decide(plain), of.decide(flipped)).cpu())
    return torch.cat(found, 1)


def function_sensitivities(f: Function, bits: torch.Tensor) -> torch.Tensor:
    """s(x) of (2) of strings (S, N) under a function of bits (B, N) to 0 and 1 (B,): (S,)."""
    N = bits.shape[-1]
    found = []
    for part in bits.split(max(1, TOGETHER // N**2)):
        flipped = f(neighbours(part).flatten(0, 1)).view(-1, N)
        found.append(changes(f(part), flipped))
    return torch.cat(found)


def changes(plain: torch.Tensor, flipped: torch.Tensor) -> torch.Tensor:
    """Flips (…, S, N) that lead to the other class than that of the string (…, S)."""
    count = ((plain[..., None] ^ flipped) == 1).sum(-1).to(torch.int16)
    return count.masked_fill(plain < 0, -1)


def exact_interval(
    successes: np.ndarray | int, trials: np.ndarray | int, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """The Clopper–Pearson interval of a binomial share: low and high ends."""
    from scipy.stats import beta

    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    tail = (1 - confidence) / 2
    low = np.where(k > 0, beta.ppf(tail, np.maximum(k, 1), n - k + 1), 0.0)
    high = np.where(k < n, beta.ppf(1 - tail, k + 1, np.maximum(n - k, 1)), 1.0)
    return low, high
