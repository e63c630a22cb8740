"""A feature map: features(X), and perturb(X, positions) → its one-token view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wordsens.arguments import all_finite, check_powers, real_tensor, several, single
from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.maps.autograd import AutogradView
from wordsens.maps.declaration import DEFAULTS, Declaration, MapOptions
from wordsens.perturbation import OneTokenView, Perturbation
from wordsens.randomness import Stream

if TYPE_CHECKING:
    from wordsens.maps.attention.state import AttentionState

CHUNK_BYTES = 1 << 24  # samples mapped at once


class FeatureMap(Declaration, ABC):
    """φ: R^{n×d} → features, for one draw of the weights or a batch of T draws.

    A map with ``batch = T`` has T independent weights and takes samples (T, n, d), one per draw;
    a map with ``batch = None`` takes samples with any leading axes.

    A subclass supplies ``name``, ``features`` and ``draw``, and sets ``batch``, ``dtype`` and
    ``device``.  It may declare more of itself (``Declaration``), and supply a ``view`` that costs
    less than a pass of the whole map.
    """

    chosen: MapOptions = DEFAULTS  # the options that this map was made with
    batch: int | None
    dtype: torch.dtype
    device: torch.device

    @abstractmethod
    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X) for X (..., n, d): (..., *features), differentiable in X."""

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
        """Random maps for samples of shape (n, d), one per stream: a map with a batch."""

    @classmethod
    def with_weights(
        cls,
        weights: Mapping[str, Any],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> FeatureMap:
        """The map with given weights, which the constructor takes as ``weight_names`` lists them.

        Raises ``UserError`` where one is absent.
        """
        return cls(*cls.taken(weights, cls.weight_names, dtype, device))  # type: ignore[call-arg]

    @classmethod
    def taken(
        cls,
        weights: Mapping[str, Any],
        names: Sequence[str],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> list[torch.Tensor]:
        """The named weights as tensors; ``UserError`` where one is absent."""
        if any(name not in weights for name in names):
            raise UserError(
                f"map {cls.name} needs weights {', '.join(names)}; got {', '.join(weights)}"
            )
        return [
            real_tensor(f"weights {name}", weights[name]).to(dtype=dtype, device=device)
            for name in names
        ]

    def beside(self, W: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """Weights W (B, ...), one per draw, shaped to multiply samples X (T, ..., n, d).

        B is T for a map with a batch; without one it is 1, and that axis is dropped.
        """
        return W[0] if self.batch is None else W[(slice(None), *[None] * (X.ndim - 3))]

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> OneTokenView:
        """The one-token view at X (T, n, d) of the position sets (P, m).

        By default one that recomputes the map: right for any differentiable map, but every
        evaluation costs a full pass of φ over all n words (``AutogradView``).
        """
        return AutogradView(self.features, X, sets)

    def attention(self, X: torch.Tensor) -> AttentionState | None:
        """A sample X (n, d) seen through the attention layer that the map is; None for others.

        With it every substitution of a word is found by matrix products (``search.vocabulary``).
        """
        return None

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
    def draw_training(
        cls, X: torch.Tensor, stream: Stream, options: MapOptions = DEFAULTS, position: int = 0
    ) -> tuple[torch.Tensor, OneTokenView | None]:
        """Features (M, p) of samples X (M, n, d) under one fresh map, drawn from child "map".

        A map with ``joint_training`` also returns the view of the first sample at ``position``,
        of the same draw; the view of others is ``draw_view`` from the same stream.
        """
        shape = (X.shape[-2], X.shape[-1])
        drawn = cls.draw(shape, [stream.child("map")], options, dtype=X.dtype, device=X.device)
        drawn.batch = None
        return drawn.rows(X), None

    def rows(self, X: torch.Tensor) -> torch.Tensor:
        """φ of samples X (N, n, d) as rows (N, p), a few samples at a time."""
        at_once = max(1, CHUNK_BYTES // (8 * X[0].numel() * X.element_size()))
        Phi: torch.Tensor | None = None
        for first in range(0, len(X), at_once):
            part = self.features(X[first : first + at_once]).flatten(1)
            if Phi is None:
                Phi = part.new_empty(len(X), part.shape[1])
            Phi[first : first + at_once] = part
        assert Phi is not None
        return Phi

    def perturb(self, X: torch.Tensor, position: int | Sequence[int] = 0) -> Perturbation:
        """φ as a function of Δ at one position, or of m Δ's at m distinct positions."""
        X = self.cast(X, graph=False)
        lead = tuple(X.shape[:-2])
        alone = single(position)
        chosen = several(position) if alone is None else [alone]
        sets = position_sets([chosen], X.shape[-2]).to(X.device)
        view = self.view(X.reshape(-1, *X.shape[-2:]), sets)
        return Perturbation(view, lead, len(chosen) if alone is None else None)

    def cast(self, X: Any, graph: bool = True) -> torch.Tensor:
        """X in this map's precision and on its device; ``UserError`` where it does not fit.

        It keeps its autograd ``graph``, unless a search is to make gradients of its own.
        """
        given = real_tensor("X", X, finite=False, graph=graph)
        X = given.to(dtype=self.dtype, device=self.device)
        if X.ndim < 2 or (self.batch is not None and (X.ndim < 3 or X.shape[0] != self.batch)):
            wanted = "(..., n, d)" if self.batch is None else f"({self.batch}, ..., n, d)"
            raise UserError(f"X has shape {tuple(X.shape)}; map {self.name} takes {wanted}")
        if 0 in X.shape:
            raise UserError(f"X has shape {tuple(X.shape)}, so there is nothing in it")
        self.check_size(*X.shape[-2:])
        if not all_finite(X):
            raise UserError("X holds nan or inf; look for them in the embeddings")
        check_powers("X", X)
        return X

    def check_size(self, n: int, d: int) -> None:
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
