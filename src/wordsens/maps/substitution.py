"""The squared change of a map's output under every substitution of a word, position by position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from wordsens.deferred import torch
from wordsens.perturbation import OneTokenView

BLOCK_BYTES = 1 << 26  # what the word side of a block may take, which should fit the caches

Squares = Callable[["torch.Tensor"], "torch.Tensor"]
"""Words (V, d) ↦ ‖φ(X^i(e_v − x_i)) − φ(X)‖² for the positions of a block, (P, V)."""


class Substitution(ABC):
    """What replacing a word of one sample by others does to a map's output; ``norm`` is ‖φ(X)‖."""

    norm: torch.Tensor

    @abstractmethod
    def positions_at_once(self, count: int) -> int:
        """Of ``count`` positions, how many to take in one block."""

    @abstractmethod
    def words_at_once(self, positions: int) -> int:
        """How many words to ask for at once in a block of so many positions."""

    @abstractmethod
    def block(self, positions: torch.Tensor) -> Squares:
        """The squared changes at some positions (P,), as a function of the words."""


class WordByWord(Substitution):
    """Substitutions through the one-token view of any map, one position at a time.

    ``views`` is sets (1, 1) ↦ the view of the sample X (n, d) there.
    """

    def __init__(self, views: Callable[[torch.Tensor], OneTokenView], X: torch.Tensor) -> None:
        self.views, self.X = views, X
        self.first = views(torch.zeros(1, 1, dtype=torch.long, device=X.device))
        self.norm = self.first.norm[0, 0]

    def positions_at_once(self, count: int) -> int:
        return 1

    def words_at_once(self, positions: int) -> int:
        size = self.first.features(self.first.tokens[:, :, None]).numel()
        return max(1, BLOCK_BYTES // (4 * size * self.X.element_size()))

    def block(self, positions: torch.Tensor) -> Squares:
        view = self.views(positions[:, None])
        before = view.features(view.tokens[:, :, None])

        def squares(words: torch.Tensor) -> torch.Tensor:
            gap = view.features(words[None, None, :, None]) - before
            return (gap * gap).flatten(3).sum(-1)[0]

        return squares
