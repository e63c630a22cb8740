"""One-token views: a feature map seen as a function of the changed words alone.

A view holds, for T samples with a map each and P sets of m changed positions per sample, what is
needed to evaluate φ(X^I(Δ)) at v = x_I + Δ without recomputing the map.  Axes are always

    v : (T, P, S, m, d)     trials × position sets × S candidates × changed words × dimension.

``Perturbation`` gives the same view the shapes of its question: one position, one sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from wordsens.arguments import real_tensor
from wordsens.deferred import torch
from wordsens.errors import UserError

Pullback = Callable[["torch.Tensor"], "torch.Tensor"]
Functionals = Callable[["torch.Tensor"], "tuple[torch.Tensor, Pullback]"]


class Walls(ABC):
    """Where φ(X^i(·)) jumps, of a view with one position set of one word.

    A side says on which side of every wall a point is; Δ (T, S, 1, d), sides (T, S, walls).
    """

    @abstractmethod
    def side(self, delta: torch.Tensor) -> torch.Tensor:
        """Which side every Δ is on."""

    @abstractmethod
    def back(
        self, delta: torch.Tensor, side: torch.Tensor, margin: torch.Tensor, rounds: int
    ) -> torch.Tensor:
        """Δ put back to its side, as far as ``margin`` (T, S) from the walls, and into the ball.

        Each of ``rounds`` projects onto the side of the wall that is missed most.
        """

    @abstractmethod
    def quiet(self, delta: torch.Tensor) -> torch.Tensor:
        """Points near Δ on sides that few random points are on."""


class Cones(ABC):
    """Regions to which the climbs of some starts (T, P, S) keep."""

    @abstractmethod
    def take(self, index: torch.Tensor) -> Cones:
        """Those of some of the starts, index (T, P, S')."""

    @abstractmethod
    def back(self, v: torch.Tensor) -> tuple[torch.Tensor, Cones]:
        """Points near v (T, P, S, m, d) in them, or nearly; and they as the next step asks them."""


class OneTokenView(ABC):
    """φ(X^I(·)) for T samples and P position sets; F(v) = ‖φ(X^I(v − x_I)) − φ(X)‖²."""

    tokens: torch.Tensor  # x_I, (T, P, m, d)
    norm: torch.Tensor  # ‖φ(X)‖, (T, P)

    reach: float = 1.0  # radius of the balls in units of √d; 1 is the paper's
    kinked: bool = False  # F has kinks or many hills, at which guarded steps shrink to nothing
    hilly: bool = False  # F has so many that long steps over them find more than short ones
    grows_along_rays: bool = False  # F(x + tΔ) never falls in t, so that maxima lie on the sphere

    @property
    def radius(self) -> float:
        """The largest ‖Δ‖ of each changed word: √d in equation (4), times ``reach``."""
        return self.reach * self.tokens.shape[-1] ** 0.5

    @abstractmethod
    def features(self, v: torch.Tensor) -> torch.Tensor:
        """φ(X^I(v − x_I)), (T, P, S, *features)."""

    @abstractmethod
    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """F (T, P, S) and ∇F (T, P, S, m, d).

        A ``sharpness`` below one asks a search's smoother question: the scores of the changed
        keys and of the others are multiplied by it.  Views without a softmax ignore it.
        """

    def value(self, v: torch.Tensor) -> torch.Tensor:
        """F (T, P, S) alone, where it is had for less than with its gradient."""
        return self.value_and_grad(v)[0]

    @abstractmethod
    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        """⟨φ(X^I(v − x_I)), u_c⟩ for fixed u (T, C, *features): values (T, P, S, C) and a pullback.

        The pullback takes weights (T, P, S, C) and returns Σ_c weight_c ∇_v ⟨φ, u_c⟩,
        (T, P, S, m, d).
        """

    def functionals(self, u: torch.Tensor) -> Functionals:
        """``linear`` at many v for the same u, which a view may prepare for."""
        return lambda v: self.linear(v, u)

    def precise(self) -> OneTokenView:
        """This view in float64, from the same numbers, as far as the map allows."""
        return self

    def coarse(self) -> OneTokenView:
        """This view in float32, where a search may explore faster, as far as the map has one."""
        return self

    def squared_change(self, delta: torch.Tensor) -> torch.Tensor:
        """‖φ(X^I(Δ)) − φ(X)‖² (T, P) for Δ (T, P, m, d), by direct difference in float64.

        F from ``value_and_grad`` may be a sum of terms much larger than itself.
        """
        view = self.precise()
        x = view.tokens[:, :, None]
        gap = view.features(x + delta[:, :, None].to(x)) - view.features(x)
        return (gap.double() ** 2).flatten(3).sum(-1)[:, :, 0]

    def neighbours(self, u: torch.Tensor) -> list[torch.Tensor]:
        """Other directions worth starting from beside u (T, P, S, m, d), each of u's shape."""
        return []

    def walls(self) -> Walls | None:
        """Where φ(X^i(·)) jumps, for searches that slide along it; None where it does not."""
        return None

    def cones(self, v: torch.Tensor) -> Cones | None:
        """Cones around v (T, P, S, m, d) of ``neighbours``, kept to while they explore."""
        return None

    def trials(self, index: list[int]) -> OneTokenView:
        """The same view of some of its trials, which go on where this one stands.

        Audits ask for it; raises ``UserError`` for a view that does not have it.
        """
        raise UserError(
            f"{type(self).__name__} has no method trials, which an audit needs; set audit: 0, or "
            "give the view one"
        )

    def directions(self) -> dict[str, torch.Tensor]:
        """Directions Δ worth starting from, by name: (T, P, count, m, d), any length."""
        return {}

    def bound(self) -> torch.Tensor:
        """An upper bound (T, P) on sup_Δ ‖φ(X^I(Δ)) − φ(X)‖; NaN where none is known."""
        return torch.full_like(self.norm, torch.nan)

    def select(self, positions: slice) -> OneTokenView:
        """The same view of some of its position sets."""
        raise NotImplementedError

    def sets_at_once(self, candidates: int) -> int | None:
        """Position sets to search together so that memory stays bounded; None for all."""
        return None


class Perturbation:
    """φ(X^i(Δ)) as a function of Δ, from ``FeatureMap.perturb(X, position)``.

    ``delta`` has shape (*batch, *candidates, d), where ``batch`` are the leading axes of X; for a
    tuple of m positions it is (*batch, *candidates, m, d).
    """

    def __init__(self, view: OneTokenView, batch: tuple[int, ...], words: int | None) -> None:
        self.view, self._batch, self._words = view, batch, words

    def features(self, delta: torch.Tensor) -> torch.Tensor:
        """φ(X^i(Δ)), (*batch, *candidates, *features)."""
        delta = real_tensor("delta", delta)
        v, lead = self._tokens(delta)
        found = self.view.features(v)
        return found.reshape(*lead, *found.shape[3:])

    def value_and_grad(self, delta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """‖φ(X^i(Δ)) − φ(X)‖² and its gradient in Δ."""
        delta = real_tensor("delta", delta)
        v, lead = self._tokens(delta)
        value, grad = self.view.value_and_grad(v)
        return value.reshape(lead), grad.reshape(delta.shape)

    def linear(self, delta: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """⟨φ(X^i(Δ)), u⟩ for u of the shape of φ(X), and its gradient in Δ."""
        delta = real_tensor("delta", delta)
        v, lead = self._tokens(delta)
        trials, u = self.view.tokens.shape[0], real_tensor("u", u).to(v)
        value, pullback = self.view.linear(v, u.reshape(trials, 1, *u.shape[len(self._batch) :]))
        return value.reshape(lead), pullback(torch.ones_like(value)).reshape(delta.shape)

    def _tokens(self, delta: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...]]:
        x = self.view.tokens  # (T, 1, m, d)
        tail = 1 if self._words is None else 2
        lead = tuple(delta.shape[: delta.ndim - tail])
        expected = (*self._batch, *x.shape[4 - tail :])
        if lead[: len(self._batch)] != self._batch or delta.shape[-tail:] != x.shape[4 - tail :]:
            raise UserError(
                f"delta has shape {tuple(delta.shape)}; expected {expected}, with any candidate "
                f"axes after the first {len(self._batch)}"
            )
        moved = delta.to(x).reshape(x.shape[0], 1, -1, *x.shape[2:])
        return moved + x[:, :, None], lead
