"""Starts of searches that go on: fresh ones, or ones around the best point.

Starts that climbed to the end say how much of the landscape a search has seen.  Where several of
them met in the best maximum, a better one that none came near is unlikely; where one alone came
there, maxima as good may not have been met at all: the share of the starts that would lead to a new
one is about that of the maxima met once (Good and Turing's estimate; for searches from many starts
Boender and Rinnooy Kan, Math. Programming 37, 1987).  There fresh starts follow.

On maps with kinks maxima are vertices where ridges meet, and the best ones lie near each other.
There a search goes on in rounds from around its best point: basin hopping (Wales and Doye, J. Phys.
Chem. A 101, 1997), of which a worse basin is never entered.
"""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from wordsens.search.maximum import Maximum

MET = 1e-3  # share of F by which starts that met in one maximum differ at most
ROUNDS = 4  # from around the best point
AWAY = (0.1, 0.2, 0.4, 0.8)  # how far the starts of a round are from it, in turn, in radii


def met_once(maximum: Maximum) -> torch.Tensor:
    """Where (T, P) one start alone, of several, came near the best value."""
    if maximum.finals.shape[-1] == 1:
        return torch.zeros_like(maximum.value, dtype=torch.bool)
    first, second = maximum.finals.topk(2).values.unbind(-1)
    return first - second > MET * first


def around(best: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Directions (T, P, S, m, d) around best (T, P, m, d) on the sphere, from normal noise."""
    count = noise.shape[2]
    away = noise.new_tensor(AWAY).repeat(-(-count // len(AWAY)))[:count, None, None]
    return best[:, :, None].to(noise) + away * normalize(noise, dim=-1)


def with_best(maximum: Maximum) -> torch.Tensor:
    """Finals (T, P, S) with the best value as the largest: what others found counts, too."""
    finals = maximum.finals.sort(-1, descending=True).values
    finals[..., 0] = torch.maximum(finals[..., 0], maximum.value.to(finals))
    return finals
