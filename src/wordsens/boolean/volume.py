"""Which functions random transformers compute: a census of whole truth tables.

Figure 1 of the paper claims that functions without strings of sensitivity 0 fill a set of
parameters of measure zero, for long strings.  For short ones the share is counted here.
"""

from __future__ import annotations

import numpy as np
import torch

from wordsens.boolean.languages import language
from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.tables import strings, table_profile, truth_table

# What a function can be called, itself or its negation; the first that fits is taken.
KINDS = ("constant", "parity", "majority", "first", "dictator", "sparse-parity", "other")


def census(of: Recogniser, N: int) -> dict[str, np.ndarray]:
    """Exactly what every model computes on strings of N bits; one value per model.

    ``K0``, ``average`` and ``maximum`` of the profile, strings ``unclassified``, and ``kind``, one
    of ``KINDS``.
    """
    table = truth_table(of, N)
    counts = table_profile(table)
    found, unclassified = counts[:, :-1], counts[:, -1]
    s = torch.arange(N + 1)
    classified = found.sum(1)
    return {
        "K0": found[:, 0].numpy(),
        "average": ((found * s).sum(1).double() / classified).numpy(),
        "maximum": torch.where(found > 0, s, 0).amax(1).numpy(),
        "unclassified": unclassified.numpy(),
        "kind": named(table, found),
    }


def named(table: torch.Tensor, counts: torch.Tensor) -> np.ndarray:
    """The kind of every function of tables (M, 2^N), with its K_0 … K_N (M, N + 1)."""
    N = counts.shape[1] - 1
    kinds = np.full(len(table), "other", dtype=object)
    whole = counts.sum(1) == 2**N
    kinds[(whole & (counts[:, 0] == 2**N)).numpy()] = "constant"
    majority = language("majority", N).accepts(strings(N)).to(torch.int8)
    same = ((table == majority).all(1) | (table == 1 - majority).all(1)).numpy()
    kinds[same] = "majority"
    # A parity of any bits has one sensitivity throughout, and one Walsh coefficient that is not 0.
    flat = (whole & (counts[:, 1:].amax(1) == 2**N)).nonzero()[:, 0]
    coefficients = walsh(1.0 - 2.0 * table[flat].float()).abs()
    size, subset = coefficients.max(1)
    for model, full, bits in zip(
        flat.tolist(), (size == 2**N).tolist(), subset.tolist(), strict=True
    ):
        if full:
            kinds[model] = _parity(bits, N)
    return kinds


def walsh(signs: torch.Tensor) -> torch.Tensor:
    """The Walsh–Hadamard transform of tables of signs (M, 2^N), unnormalised: O(N 2^N).

    Entry r belongs to the subset of bits that spells r as a string does.
    """
    N = signs.shape[1].bit_length() - 1
    for bit in range(N):
        low, high = signs.unflatten(1, (-1, 2, 2**bit)).unbind(2)
        signs = torch.stack([low + high, low - high], 2).flatten(1)
    return signs


def _parity(subset: int, N: int) -> str:
    ones = subset.bit_count()
    if ones == N and N > 1:
        return "parity"
    if ones == 1:
        return "first" if subset == 2 ** (N - 1) else "dictator"
    return "sparse-parity"
