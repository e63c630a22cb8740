"""Languages of bit strings with their sensitivity profiles in closed form (§2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
import torch

from wordsens.boolean.names import check_language
from wordsens.randomness import Stream


@dataclass(frozen=True)
class Language:
    """Strings of N bits, some in the language and some not.

    ``accepts`` takes bits (…, N) of 0 and 1 to booleans (…).  ``counts`` are the exact K_0 … K_N
    as whole numbers, None where there is no closed form; ``positions`` are the bits (from 1) that
    a sparse language or dictator reads.
    """

    name: str
    N: int
    accepts: Callable[[torch.Tensor], torch.Tensor]
    counts: list[int] | None
    positions: tuple[int, ...] | None = None


def language(name: str, N: int, stream: Stream | None = None) -> Language:
    """The language of that name on N bits.

    ``parity``, ``majority``, ``first``; ``dictator-n`` reads bit n; ``sparse-parity-m`` and
    ``sparse-majority-m`` read m bits drawn from ``stream``; ``random`` gives every string a fair
    label of its own, drawn from ``stream`` too.  Raises UserError for unknown names and m > N.
    """
    check_language(name, N)
    stream = stream or Stream(0, "language", language=name, N=N)
    if name == "random":
        return Language(name, N, _random_labels(N, stream), None)
    positions: tuple[int, ...] | None = None
    if name in ("parity", "majority"):
        kind = name
    elif name == "first":
        kind, positions = "dictator", (1,)
    else:
        kind, _, number = name.rpartition("-")
        positions = (int(number),)
        if kind != "dictator":
            drawn = stream.child("positions").generator().permutation(N)[: int(number)]
            positions = tuple(sorted(int(n) + 1 for n in drawn))
            kind = kind.removeprefix("sparse-")
    return _language(name, kind, N, positions)


def _language(name: str, kind: str, N: int, positions: tuple[int, ...] | None) -> Language:
    m = N if positions is None else len(positions)
    chosen = slice(None) if positions is None else torch.tensor(positions) - 1

    def ones(bits: torch.Tensor) -> torch.Tensor:
        return bits[..., chosen].sum(-1, dtype=torch.long)

    rules: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "parity": lambda bits: ones(bits) % 2 == 0,
        "majority": lambda bits: 2 * ones(bits) > m,
        "dictator": lambda bits: ones(bits) == 1,
    }
    counts = [0] * (N + 1)
    if kind == "majority":
        # Strings one bit short of a majority change with every 0, bare majorities with every 1.
        short, bare = m // 2, m // 2 + 1
        counts[m - short] += comb(m, short)
        counts[bare] += comb(m, bare)
        counts[0] = 2**m - sum(counts)
        counts = [count * 2 ** (N - m) for count in counts]
    else:
        counts[m] = 2**N
    return Language(name, N, rules[kind], counts, positions)


def random_function_counts(N: int) -> list[int]:
    """E K_s of a uniformly random function: C(N, s), as s(x) is binomial (N, 1/2) for every x."""
    return [comb(N, s) for s in range(N + 1)]


def _random_labels(N: int, stream: Stream) -> Callable[[torch.Tensor], torch.Tensor]:
    """Fair labels, a fixed one for each string: a keyed hash of its bits.

    The words of 32 bits go one after another through the finaliser of SplitMix64 (Steele, Lea and
    Flood, 2014), so that no table of 2^N labels is needed.
    """
    words = -(-N // 32)
    keys = stream.child("labels").generator().integers(0, 2**64, words + 1, dtype=np.uint64)

    def label(bits: torch.Tensor) -> torch.Tensor:
        plain = bits.reshape(-1, N).cpu().numpy().astype(np.uint64)
        state = np.full(len(plain), keys[-1])
        for word in range(words):
            part = plain[..., 32 * word : 32 * (word + 1)]
            packed = (part << np.arange(part.shape[-1], dtype=np.uint64)).sum(-1, dtype=np.uint64)
            state = _mixed(state ^ packed ^ keys[word])
        fair = torch.from_numpy((state >> np.uint64(63)) == 1)
        return fair.view(bits.shape[:-1]).to(bits.device)

    return label


def _mixed(z: np.ndarray) -> np.ndarray:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
