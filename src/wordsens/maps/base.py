"""A feature map: features(X), and perturb(X, positions) → its one-token view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from wordsens.arguments import real_tensor, several, single
from wordsens.errors import UserError
from wordsens.perturbation import OneTokenView, Perturbation
from wordsens.randomness import Stream


@dataclass(frozen=True)
class Effort:
    """How hard a search tries: starts, annealing steps, guarded steps.

    After ``halve`` guarded steps, and after twice as many, half of the starts goes on; 0: all do.
    """

    starts: int
    anneal: int
    steps: int
    halve: int = 0


@dataclass(frozen=True)
class MapOptions:
    """What distinguishes maps of one name; each map reads the fields that it has.

    ``width`` k (rf, drf; None for n·d), ``depth`` L (drf), ``activation`` ϕ (rf, drf), ``heads``
    and ``head_dim`` d' (qkv; None for d).
    """

    width: int | None = None
    depth: int = 1
    activation: str = "relu"
    heads: int = 1
    head_dim: int | None = None


DEFAULTS = MapOptions()


class FeatureMap(ABC):
    """φ: R^{n×d} → features, for one draw of the weights or a batch of T draws.

    A map with ``batch = T`` has T independent weights and takes samples (T, n, d), one per draw;
    a map with ``batch = None`` takes samples with any leading axes.
    """

    name: ClassVar[str]
    effort: ClassVar[Effort]  # a search's default
    options: MapOptions = DEFAULTS
    batch: int | None
    dtype: torch.dtype
    device: torch.device

    @abstractmethod
    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X) for X (..., n, d)."""

    @abstractmethod
    def view(self, X: torch.Tensor, sets: torch.Tensor) -> OneTokenView:
        """The one-token view at X (T, n, d) of the position sets (P, m)."""

    @classmethod
    @abstractmethod
    def published_schedule(cls, n: int) -> tuple[float, int]:
        """The authors' step length and step count for projected gradient ascent at n tokens."""

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        """A search's default effort on samples of shape (n, d)."""
        return cls.effort

    @classmethod
    def draw_view(
        cls,
        X: torch.Tensor,
        sets: torch.Tensor,
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
    ) -> OneTokenView:
        """The view of freshly drawn maps, one per sample of X (T, n, d) and stream."""
        n, d = X.shape[-2:]
        return cls.draw((n, d), streams, options, dtype=X.dtype, device=X.device).view(X, sets)

    @classmethod
    @abstractmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> FeatureMap:
        """Random maps for samples of shape (n, d), one per stream."""

    def perturb(self, X: torch.Tensor, position: int | Sequence[int] = 0) -> Perturbation:
        """φ as a function of Δ at one position, or of m Δ's at m distinct positions."""
        X = self.cast(X)
        lead = tuple(X.shape[:-2])
        alone = single(position)
        chosen = several(position) if alone is None else [alone]
        sets = position_sets([chosen], X.shape[-2]).to(X.device)
        view = self.view(X.reshape(-1, *X.shape[-2:]), sets)
        return Perturbation(view, lead, len(chosen) if alone is None else None)

    def cast(self, X: Any, graph: bool = False) -> torch.Tensor:
        """X in this map's precision and on its device; ``UserError`` where it does not fit.

        It is detached, or keeps its autograd ``graph``.
        """
        given = real_tensor("X", X, finite=False, graph=graph)
        X = given.to(dtype=self.dtype, device=self.device)
        if X.ndim < 2 or (self.batch is not None and (X.ndim < 3 or X.shape[0] != self.batch)):
            wanted = "(..., n, d)" if self.batch is None else f"({self.batch}, ..., n, d)"
            raise UserError(f"X has shape {tuple(X.shape)}; map {self.name} takes {wanted}")
        if 0 in X.shape:
            raise UserError(f"X has shape {tuple(X.shape)}, so there is nothing in it")
        self.check_size(*X.shape[-2:])
        if not X.isfinite().all():
            raise UserError("X holds nan or inf; look for them in the embeddings")
        return X

    def check_size(self, n: int, d: int) -> None:  # noqa: B027  (a map may take any size)
        """``UserError`` where the map was not built for n tokens of dimension d."""


def position_sets(sets: Sequence[Sequence[int]], n: int) -> torch.Tensor:
    """Checked position sets as a tensor (P, m); negative positions are refused."""
    for positions in sets:
        if not positions:
            raise UserError("no position is named; give at least one")
        for position in positions:
            if not 0 <= position < n:
                raise UserError(f"position {position} is outside 0 … {n - 1} (n = {n} tokens)")
        if len(set(positions)) != len(positions):
            raise UserError(f"positions {list(positions)} name one word twice")
    return torch.tensor([list(positions) for positions in sets], dtype=torch.long)
