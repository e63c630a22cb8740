"""Fresh starts where one start alone came to the best maximum.

Starts that climbed to the end say how much of the landscape a search has seen.  Where several of
them met in the best maximum, a better one that none came near is unlikely; where one alone came
there, maxima as good may not have been met at all: the share of the starts that would lead to a new
one is about that of the maxima met once (Good and Turing's estimate; for searches from many starts
Boender and Rinnooy Kan, Math. Programming 37, 1987).
"""

from __future__ import annotations

from dataclasses import replace

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


def with_another(
    maximum: Maximum, trials: list[int], position: int, other: Maximum, start: int
) -> Maximum:
    """The maximum with what another search, of these trials at one position, found higher there.

    Its points are said to come from the start of index ``start``.
    """
    here = Maximum(*(x[trials, position : position + 1] for x in vars(maximum).values()))
    other = replace(other, start=torch.full_like(other.start, start))
    best = here.or_better(other)
    # the best final is the value found, the others are kept: the spread says what one search missed
    finals = best.finals.sort(-1, descending=True).values
    finals[..., 0] = torch.maximum(finals[..., 0], best.value.to(finals))
    best = replace(best, finals=finals)
    joined = {name: x.clone() for name, x in vars(maximum).items()}
    for name, x in vars(best).items():
        joined[name][trials, position] = x[:, 0].to(joined[name])
    return Maximum(**joined)
