"""The shape of a recogniser, and shapes drawn as in the paper's Appendix F.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wordsens.errors import UserError, whole_number

# The lists of Appendix F.1.
PAPER_SHAPES: dict[str, list[int]] = {
    "depth": [2, 3, 4, 5, 6],
    "heads": [1, 2, 4, 8],
    "head_size": [16, 32, 64, 128],
    "feedforward": [2, 4, 8],
}


@dataclass(frozen=True)
class Shape:
    """Sizes of a transformer recogniser (§2.2); models of one shape are computed as one batch.

    ``depth`` L, ``width`` D, ``heads`` H and ``feedforward``, the hidden units of the MLP (10).
    ``split`` heads have K, Q, V of D/H × D, each writing to its own D/H coordinates, as
    transformers are run; else every head has the full D × D matrices of (8).  ``scaled`` divides
    the scores (8a) by the root of the head size.  ``epsilon`` is ε of the layer norm (12).
    Raises UserError for sizes that do not fit.
    """

    depth: int
    width: int
    heads: int = 1
    feedforward: int = 0
    split: bool = True
    scaled: bool = True
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("depth", "width", "heads"):
            whole_number(name, getattr(self, name))
        if self.feedforward == 0:
            object.__setattr__(self, "feedforward", self.width)
        whole_number("feedforward", self.feedforward)
        if self.width < 2:
            raise UserError("width = 1 leaves nothing after the layer norm; it must be at least 2")
        if self.split and self.width % self.heads:
            raise UserError(
                f"heads = {self.heads} must divide width = {self.width} where heads are split"
            )
        if not self.epsilon >= 0:
            raise UserError(f"epsilon = {self.epsilon} must be a number of at least 0")

    @property
    def head_size(self) -> int:
        """Rows of a head's K, Q and V."""
        return self.width // self.heads if self.split else self.width

    @property
    def scale(self) -> float:
        """What multiplies the scores (8a)."""
        return self.head_size**-0.5 if self.scaled else 1.0

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter of one model, by name."""
        L, D, F = self.depth, self.width, self.feedforward
        head = (L, self.heads, self.head_size, D)
        return {
            "query": head,
            "key": head,
            "value": head,
            "W1": (L, F, D),
            "b1": (L, F),
            "W2": (L, D, F),
            "b2": (L, D),
            "w": (D,),
            "omega": (),
        }


def draw_shape(
    lists: Mapping[str, Sequence[int]],
    generator: np.random.Generator,
    *,
    split: bool = True,
    scaled: bool = True,
    epsilon: float = 1e-5,
) -> Shape:
    """A shape drawn uniformly from lists, as in Appendix F.1.

    ``lists`` has ``depth``, ``heads``, ``head_size`` and ``feedforward``: D is heads × head size
    and the MLP has ``feedforward`` × D hidden units.
    """
    depth, heads, size, multiple = (int(generator.choice(lists[name])) for name in PAPER_SHAPES)
    width = heads * size
    return Shape(depth, width, heads, multiple * width, split, scaled, epsilon)
