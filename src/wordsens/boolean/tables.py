"""Truth tables of Boolean functions, and exact sensitivities from them.

Row r of a table of N bits belongs to the string whose bits x_1 … x_N spell r, x_1 first, so that
the string with bit n flipped stands at r XOR 2^(N−n).  Values are 0, 1, or −1 where a recogniser's
margin leaves a string unclassified.
"""

from __future__ import annotations

import torch

from wordsens.boolean import MOST_BITS
from wordsens.boolean.recogniser import Recogniser
from wordsens.errors import UserError, whole_number
from wordsens.progress import reached

CHUNK_BYTES = 1 << 24  # of activations held at once


def exact_length(N: int) -> int:
    """N where a whole table fits; else a UserError."""
    if whole_number("N", N) > MOST_BITS:
        raise UserError(
            f"N = {N} is too long for an exact profile (at most {MOST_BITS}); sample strings"
        )
    return int(N)


def strings(N: int, first: int = 0, last: int | None = None) -> torch.Tensor:
    """The strings of rows ``first`` to ``last`` of a table: (rows, N), int8."""
    rows = torch.arange(first, 2**N if last is None else last)[:, None]
    return ((rows >> torch.arange(N - 1, -1, -1)) & 1).to(torch.int8)


@torch.no_grad()
def truth_table(of: Recogniser, N: int) -> torch.Tensor:
    """Acceptance (15) of all strings of N bits by every model: (M, 2^N), int8.

    Chunks of strings keep memory bounded, whatever N.
    """
    shape, n = of.shape, exact_length(N) + 1
    row = n * (8 * shape.width + 2 * shape.heads * n) * of.weights["omega"].element_size()
    size = max(1, min(2**N, CHUNK_BYTES // (row * of.models)))
    table = torch.empty(of.models, 2**N, dtype=torch.int8)
    for first in range(0, 2**N, size):
        last = min(first + size, 2**N)
        table[:, first:last] = of.decide(of.logits(strings(N, first, last)))
        reached(last, 2**N)
    return table


def sensitivities(table: torch.Tensor) -> torch.Tensor:
    """s(x) of (2) for every string of tables (…, 2^N), int8; −1 where x is unclassified.

    A flip counts where it leads to the other class; one into the margin does not.
    """
    N = _bits(table)
    found = torch.zeros(table.shape, dtype=torch.int8, device=table.device)
    for bit in range(N):
        halves = table.unflatten(-1, (-1, 2, 2**bit))
        low, high = halves.unbind(-2)
        changed = ((low ^ high) == 1).to(torch.int8)
        found.unflatten(-1, (-1, 2, 2**bit)).add_(changed.unsqueeze(-2))
    return found.masked_fill_(table < 0, -1)


def profile_counts(found: torch.Tensor, N: int) -> torch.Tensor:
    """K_0 … K_N and the unclassified, from sensitivities (M, strings): (M, N + 2), int64."""
    M = len(found)
    slots = found.long() + 1 + (N + 2) * torch.arange(M, device=found.device)[:, None]
    counts = torch.bincount(slots.flatten(), minlength=M * (N + 2)).view(M, N + 2)
    return counts.roll(-1, 1)


def table_profile(table: torch.Tensor) -> torch.Tensor:
    """K_0 … K_N and the unclassified of tables (M, 2^N): (M, N + 2), int64."""
    return profile_counts(sensitivities(table), _bits(table))


def _bits(table: torch.Tensor) -> int:
    N = table.shape[-1].bit_length() - 1
    if table.shape[-1] != 2**N or N < 1:
        raise UserError(
            f"a truth table has 2^N values, one per string of N bits; got {table.shape[-1]}"
        )
    return N
