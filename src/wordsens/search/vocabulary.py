"""Discrete word sensitivity: the relative change when word i becomes any word of a vocabulary.

    ‖φ(X with x_i → e_v) − φ(X)‖ / ‖φ(X)‖        for every position i and word v

A vocabulary is finite, so nothing is searched: every substitution is evaluated (``substitution``),
and the largest are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from wordsens.arguments import check_powers, positive_number, real_tensor
from wordsens.errors import UserError, whole_number
from wordsens.maps import FeatureMap
from wordsens.progress import advance
from wordsens.randomness import Stream
from wordsens.search.sensitivity import Positions, chosen_sets
from wordsens.search.substitution import AttentionSubstitution, WordByWord
from wordsens.tidy import Tidy

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10  # substitutions listed where nothing else is asked for
# A vector so near x_i, in units of ‖x_i‖, is the word's own: encoders keep their words in float32.
OWN = 1e-5
NEAR = 1e-2  # below this, ‖e_v‖² − 2⟨e_v, x_i⟩ + ‖x_i‖² has few digits left
NEAR_PAIRS = 1 << 14  # pairs whose difference is taken at a time


@dataclass(frozen=True)
class Substitutions:
    """Substitutions by decreasing change: ``word`` is a row of the vocabulary, at ``position``.

    ``change`` is the relative change of the features, ``distance`` is ‖e_v − x_i‖ / √d, at most
    one inside the ball of (4).  All (k,).
    """

    change: torch.Tensor
    position: torch.Tensor
    word: torch.Tensor
    distance: torch.Tensor

    def __len__(self) -> int:
        return len(self.change)


@dataclass(frozen=True, repr=False)
class VocabularySensitivity(Tidy):
    """What all substitutions of one sample do; a word is no substitute for itself.

    top           the largest changes over all positions and words
    top_in_ball   the largest among ‖e_v − x_i‖ ≤ √d; empty where no word is that near
    positions     the positions i tried, (P,)
    best          the largest change at every position, one entry each
    best_in_ball  the same inside the ball; change NaN at the word −1 where no word is that near
    change        every relative change, (P, V), 0 for the text's own word; None where only the
                  top was asked for
    norm          ‖φ(X)‖; every change is NaN where it is 0
    about         map, d and n, as in a workflow's tables
    pieces        the words, where ``wordsens.vocabulary`` gave them
    """

    top: Substitutions
    top_in_ball: Substitutions
    positions: torch.Tensor
    best: Substitutions
    best_in_ball: Substitutions
    change: torch.Tensor | None
    norm: float
    about: Mapping[str, Any] = field(default_factory=dict)
    pieces: Sequence[str] | None = None

    def summary(self) -> str:
        inside = (
            "none inside the ball"
            if math.isnan(self.sup_in_ball)
            else (f"{self.sup_in_ball:.4g} inside the ball")
        )
        return f"sup {self.sup:.4g}, {inside}, {len(self.positions)} positions"

    def to_dataframe(self) -> pd.DataFrame:
        """The sample's measures, as a row of a workflow's table."""
        import pandas as pd

        measures = {"sup": self.sup, "sup_in_ball": self.sup_in_ball}
        for name, best in {"first": self.best, "first_in_ball": self.best_in_ball}.items():
            measures[name] = float(best.change[0])
        row = {"study": "", "vectors": "static", "trial": 0, **self.about, **measures}
        return pd.DataFrame([{**row, "continuous": float("nan"), "norm": self.norm}])

    def substitutions(self) -> pd.DataFrame:
        """The largest substitutions, one a row: position, word, change and distance."""
        import pandas as pd

        frames = []
        for name in ("top", "top_in_ball"):
            found = getattr(self, name)
            columns = {key: value.cpu().tolist() for key, value in vars(found).items()}
            if self.pieces is not None:
                columns["piece"] = [self.pieces[row] for row in columns["word"]]
            frames.append(pd.DataFrame({"list": name, **columns}))
        return pd.concat(frames, ignore_index=True)

    @property
    def sup(self) -> float:
        """The largest change over all positions and words, exactly; NaN without other words."""
        return float(self.top.change[0]) if len(self.top) else float("nan")

    @property
    def sup_in_ball(self) -> float:
        """The largest change with ‖e_v − x_i‖ ≤ √d, NaN where no word is that near."""
        return float(self.top_in_ball.change[0]) if len(self.top_in_ball) else float("nan")


def vocabulary_sensitivity(
    map: FeatureMap,
    X: Any,
    vocabulary: Any,
    positions: Positions = "all",
    *,
    top: int | None = None,
    reach: float = 1.0,
    seed: int = 0,
) -> VocabularySensitivity:
    """The relative change of φ(X) for every substitution x_i → e_v, exact, nothing searched.

    X (n, d). ``vocabulary`` holds the word vectors e_v (V, d), which are taken as they are, is
    what ``wordsens.vocabulary`` gives, or is a function i ↦ (V, d) for vectors that depend on the
    position. ``positions`` is as in ``word_sensitivity``. A word at x_i itself (to 10⁻⁵ of its
    length) changes nothing and is not listed. With ``top`` = k only the k largest changes are
    kept, without it all (P, V) as well. ``reach`` scales the ball that ``top_in_ball`` is
    restricted to.

    Attention maps cost O(P n V) in matrix products, and O(n d V) besides; memory beyond X, its
    n × n scores and the result is bounded.  Other maps are evaluated word by word.  Raises
    ``UserError`` for arguments that do not fit.

    >>> import torch, wordsens
    >>> generator = torch.Generator().manual_seed(0)
    >>> X, E = torch.randn(5, 16, generator=generator), torch.randn(40, 16, generator=generator)
    >>> found = wordsens.vocabulary_sensitivity(wordsens.build_map("raf", d=16), X, E)
    >>> tuple(found.change.shape), bool(found.change.max() == found.sup)
    ((5, 40), True)
    """
    if not isinstance(map, FeatureMap):
        raise UserError(f"map = {map!r} is no feature map; make one with build_map")
    pieces = getattr(vocabulary, "pieces", None)
    vocabulary = getattr(vocabulary, "vectors", vocabulary)
    X = map.cast(X, graph=False)
    if X.ndim != 2:
        raise UserError(f"X has shape {tuple(X.shape)}; vocabulary_sensitivity takes (n, d)")
    if top is not None:
        top = whole_number("top", top)
    reach = positive_number("reach", reach)
    sets = chosen_sets(positions, 1, len(X), Stream(seed, "positions")).to(X.device)
    state = map.attention(X)
    source = WordByWord(map, X) if state is None else AttentionSubstitution(state)
    chosen = sets[:, 0]
    size: int | None = None
    at_once = 1 if callable(vocabulary) else source.positions_at_once(len(chosen))
    fixed = None if callable(vocabulary) else _checked(vocabulary, X)
    keeper = _Keeper(X, chosen, source.norm, top, reach)
    for first in range(0, len(chosen), at_once):
        rows = slice(first, first + at_once)
        squares = source.block(chosen[rows])
        vectors = _checked(vocabulary(int(chosen[first])), X) if fixed is None else fixed
        if len(vectors) != (size := size or len(vectors)):
            raise UserError(
                f"vocabulary gives {len(vectors)} words at position {int(chosen[first])} and "
                f"{size} before; give as many everywhere"
            )
        for at, part in _parts(vectors, source.words_at_once(len(chosen[rows]))):
            moved = part.to(X)
            keeper.add(rows, at, squares(moved), moved, len(vectors))
            done = first + len(chosen[rows]) * (at + len(part)) / len(vectors)
            advance(done, len(chosen))
    about = {"map": map.name, "d": X.shape[1], "n": len(X)}
    return replace(keeper.result(), about=about, pieces=pieces)


def _checked(vectors: Any, X: torch.Tensor) -> torch.Tensor:
    """Word vectors that fit the sample, where they are."""
    found = real_tensor("vocabulary", vectors)
    if found.ndim != 2 or found.shape[1] != X.shape[1] or not len(found):
        raise UserError(
            f"vocabulary has shape {tuple(found.shape)}; for X {tuple(X.shape)} it must be "
            f"(V, {X.shape[1]}) with at least one word"
        )
    check_powers("vocabulary", found.to(X))
    return found


def squared_distances(own: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """‖e_v − x_i‖² (P, V) for x (P, d) and e (V, d): by products, and by differences where near."""
    length = (own**2).sum(-1, keepdim=True)
    away = (vectors**2).sum(-1) - 2 * own @ vectors.T + length
    rows, columns = (away <= NEAR**2 * length).nonzero(as_tuple=True)
    for i, v in zip(rows.split(NEAR_PAIRS), columns.split(NEAR_PAIRS), strict=True):
        away[i, v] = ((own[i] - vectors[v]) ** 2).sum(-1)
    return away


def _parts(vectors: torch.Tensor, size: int) -> Iterator[tuple[int, torch.Tensor]]:
    for at in range(0, len(vectors), size):
        yield at, vectors[at : at + size]


class _Keeper:
    """Gathers blocks of squares (P, V): the top over everything, and the best of every position.

    Whatever is kept is kept twice, over all words and over those inside the ball.
    """

    def __init__(
        self,
        X: torch.Tensor,
        positions: torch.Tensor,
        norm: torch.Tensor,
        top: int | None,
        reach: float,
    ) -> None:
        self.X, self.positions = X, positions
        self.norm = torch.where(
            norm > 0, norm, torch.nan
        )  # where φ(X) = 0 nothing is a share of it
        self.count, self.whole = top or SHOWN, top is None
        self.limit = reach**2 * X.shape[1]
        self.change: torch.Tensor | None = None
        self.tops: tuple[list[_Kept], list[_Kept]] = ([], [])
        rows = torch.arange(len(positions), device=X.device)
        none = X.new_full((len(positions),), -1)
        self.bests = [_Kept(none, rows, torch.full_like(rows, -1), none) for _ in range(2)]

    def add(
        self, rows: slice, first: int, squares: torch.Tensor, vectors: torch.Tensor, total: int
    ) -> None:
        """Squares (P, V): positions ``rows``, and words from ``first`` on of ``total``."""
        own = self.X[self.positions[rows]]
        away = squared_distances(own, vectors)
        same = away <= OWN**2 * (own**2).sum(-1, keepdim=True)
        squares = squares.clamp_min(0).masked_fill(same, 0)
        if self.whole:
            if self.change is None:
                self.change = squares.new_empty(len(self.positions), total)
            self.change[rows, first : first + len(vectors)] = squares.sqrt() / self.norm
        others = squares.masked_fill(same, -1)
        inside = torch.where(away <= self.limit, others, -1)
        for which, values in enumerate((others, inside)):
            size = min(self.count, values.numel())
            value, index = values.flatten().topk(size)
            row, word = index // len(vectors), index % len(vectors)
            found = _Kept(value, row + rows.start, word + first, away[row, word])
            self.tops[which].append(found)
            value, word = values.max(1)
            row = torch.arange(len(values), device=values.device)
            better = _Kept(value, row + rows.start, word + first, away[row, word])
            self.bests[which] = self.bests[which].improved(better)

    def result(self) -> VocabularySensitivity:
        tops = []
        for parts in self.tops:
            joined = _Kept(
                *(torch.cat(x) for x in zip(*(vars(p).values() for p in parts), strict=True))
            )
            order = joined.square.argsort(descending=True, stable=True)[: self.count]
            tops.append(joined.take(order[joined.square[order] >= 0]))
        top, near, best, best_near = (self._substitutions(x) for x in (*tops, *self.bests))
        return VocabularySensitivity(
            top, near, self.positions, best, best_near, self.change, float(self.norm.nan_to_num())
        )

    def _substitutions(self, found: _Kept) -> Substitutions:
        known = found.square >= 0
        return Substitutions(
            torch.where(known, found.square.clamp_min(0).sqrt() / self.norm, torch.nan),
            self.positions[found.row],
            torch.where(known, found.word, -1),
            torch.where(known, found.away.clamp_min(0).sqrt(), torch.nan) / self.X.shape[1] ** 0.5,
        )


@dataclass(frozen=True)
class _Kept:
    """Substitutions: squared change (−1 for none), row of the positions, word, ‖e_v − x_i‖²."""

    square: torch.Tensor
    row: torch.Tensor
    word: torch.Tensor
    away: torch.Tensor

    def take(self, index: torch.Tensor) -> _Kept:
        return _Kept(*(x[index] for x in vars(self).values()))

    def improved(self, other: _Kept) -> _Kept:
        """With the rows of ``other`` put in where they change more; rows of self are 0, 1, …"""
        mine = self.take(other.row)
        better = other.square > mine.square
        parts = zip(*(vars(x).values() for x in (self, mine, other)), strict=True)
        return _Kept(
            *(whole.index_put((other.row,), torch.where(better, b, a)) for whole, a, b in parts)
        )
