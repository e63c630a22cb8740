"""Fresh starts where one start alone came to the best maximum.

Starts that climbed to the end say how much of the landscape a search has seen.  Where several of
them met in the best maximum, a better one that none came near is unlikely; where one alone came
there, maxima as good may not have been met at all: the share of the starts that would lead to a new
one is about that of the maxima met once (Good and Turing's estimate; for searches from many starts
Boender and Rinnooy Kan, Math. Programming 37, 1987).
"""

from __future__ import annotations

import torch

from wordsens.search.maximum import Maximum

MET = 1e-3  # share of F by which starts that met in one maximum differ at most
ON_RIDGES = 1e-2  # the same on maps with kinks, where none arrives quite


def met_once(maximum: Maximum, kinked: bool) -> torch.Tensor:
    """Where (T, P) one start alone, of several, came near the best value."""
    if maximum.finals.shape[-1] == 1:
        return torch.zeros_like(maximum.value, dtype=torch.bool)
    first, second = maximum.finals.topk(2).values.unbind(-1)
    return first - second > (ON_RIDGES if kinked else MET) * first


def with_best(maximum: Maximum) -> torch.Tensor:
    """Finals (T, P, S) with the best value as the largest: what others found counts, too."""
    finals = maximum.finals.sort(-1, descending=True).values
    finals[..., 0] = torch.maximum(finals[..., 0], maximum.value.to(finals))
    return finals
