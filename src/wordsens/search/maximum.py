"""What a search of a supremum returns, and the selection of starts that go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

TINY = 1e-12  # length below which nothing has a direction


@dataclass(frozen=True)
class Maximum:
    """The best point that any of S starts visited, for T trials and P position sets.

    value F (T, P); delta (T, P, m, d); start the index of the start that led there (T, P); steps
    that it took (T, P); finals F of the starts that were not given up before the end (T, P, ≤ S).
    """

    value: torch.Tensor
    delta: torch.Tensor
    start: torch.Tensor
    steps: torch.Tensor
    finals: torch.Tensor

    @classmethod
    def joined(cls, parts: Sequence[Maximum]) -> Maximum:
        """The maxima of several groups of position sets as one."""
        return cls(
            *(torch.cat(x, 1) for x in zip(*(vars(part).values() for part in parts), strict=True))
        )

    def improved(self, trials: list[int], sets: slice, other: Maximum) -> Maximum:
        """``or_better`` in some of the trials and sets, those of ``other``."""
        best = Maximum(*(x[trials, sets] for x in vars(self).values())).or_better(other)
        joined = {name: x.clone() for name, x in vars(self).items()}
        for name, x in vars(best).items():
            joined[name][trials, sets] = x.to(joined[name])
        return Maximum(**joined)

    def where(self, chosen: torch.Tensor, other: Maximum) -> Maximum:
        """This one where ``chosen`` (T, P), elsewhere ``other``; the finals stay this one's."""
        return Maximum(
            torch.where(chosen, self.value, other.value),
            torch.where(chosen[..., None, None], self.delta, other.delta),
            torch.where(chosen, self.start, other.start),
            torch.where(chosen, self.steps, other.steps),
            self.finals,
        )

    def or_better(self, other: Maximum) -> Maximum:
        """``other``'s point where its value is larger; the finals stay this one's."""
        return self.where(~(other.value > self.value), other)  # other's may be nan


def at(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Of x (T, P, S, …) the starts that index (T, P, K) names."""
    wide = index.reshape(*index.shape, *[1] * (x.ndim - 3))
    return x.gather(2, wide.expand(*index.shape, *x.shape[3:]))


def leaders(value: torch.Tensor, count: int) -> torch.Tensor:
    """Indices (T, P, count) of the largest of value (T, P, S), in the order of the starts."""
    return value.topk(min(count, value.shape[-1])).indices.sort().values


def leaders_by_kind(
    value: torch.Tensor, kinds: Sequence[int], counts: Sequence[int]
) -> torch.Tensor:
    """The same by kind: starts stand kind after kind, ``kinds`` of each, and ``counts`` go on."""
    parts = value.split(list(kinds), -1)
    offsets = [sum(kinds[:k]) for k in range(len(kinds))]
    chosen = zip(parts, offsets, counts, strict=True)
    return torch.cat([first + leaders(part, count) for part, first, count in chosen], -1)


def with_second(finals: torch.Tensor, before: Sequence[torch.Tensor]) -> torch.Tensor:
    """Finals (T, P, S); of one start alone with the second best when the last were given up.

    So there is a spread.  ``before`` has the values of all starts each time some were given up.
    """
    if finals.shape[-1] > 1 or not before:
        return finals
    return torch.cat([finals, before[-1].topk(2).values[..., 1:]], -1)


def tangent(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """What of x is tangent to the spheres at u, word by word."""
    return x - (x * u).sum(-1, keepdim=True) * u


def unit(grad: torch.Tensor, where_flat: torch.Tensor) -> torch.Tensor:
    """∇F/‖∇F‖ per word; where F is flat there is nothing to follow and the start stays."""
    length = torch.linalg.vector_norm(grad, dim=-1, keepdim=True)
    return torch.where(length > 0, grad / length, where_flat)


def sphere(x: torch.Tensor) -> torch.Tensor:
    """Each word's direction, of length one."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(TINY)
