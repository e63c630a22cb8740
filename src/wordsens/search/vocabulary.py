"""Discrete word sensitivity: the relative change when word i becomes any word of a vocabulary.

    ‖φ(X with x_i → e_v) − φ(X)‖ / ‖φ(X)‖        for every position i and word v

A vocabulary is finite, so nothing is searched: every substitution is evaluated (``substitution``),
and the largest are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from wordsens.errors import UserError
from wordsens.maps import FeatureMap
from wordsens.progress import reached
from wordsens.randomness import Stream
from wordsens.search.sensitivity import Positions, chosen_sets
from wordsens.search.substitution import AttentionSubstitution, WordByWord

SHOWN = 10  # substitutions listed where nothing else is asked for


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


@dataclass(frozen=True)
class VocabularySensitivity:
    """What all substitutions of one sample do.

    top           the largest changes over all positions and words
    top_in_ball   the largest among ‖e_v − x_i‖ ≤ √d; empty where no word is that near
    positions     the positions i tried, (P,)
    best          the largest change at every position, one entry each
    best_in_ball  the same inside the ball; change NaN at the word −1 where no word is that near
    change        every relative change, (P, V); None where only the top was asked for
    norm          ‖φ(X)‖
    """

    top: Substitutions
    top_in_ball: Substitutions
    positions: torch.Tensor
    best: Substitutions
    best_in_ball: Substitutions
    change: torch.Tensor | None
    norm: float

    @property
    def sup(self) -> float:
        """The largest change over all positions and words, exactly."""
        return float(self.top.change[0])

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

    X (n, d).  ``vocabulary`` holds the word vectors e_v (V, d), which are taken as they are, or is
    a function i ↦ (V, d) for vectors that depend on the position.  ``positions`` is as in
    ``word_sensitivity``.  With ``top`` = k only the k largest changes are kept, without it all
    (P, V) as well.  ``reach`` scales the ball that ``top_in_ball`` is restricted to.

    Attention maps cost O(P n V) in matrix products, and O(n d V) besides; memory beyond X, its
    n × n scores and the result is bounded.  Other maps are evaluated word by word.  Raises
    ``UserError`` for arguments that do not fit.
    """
    X = map.cast(X)
    if X.ndim != 2:
        raise UserError(f"X has shape {tuple(X.shape)}; vocabulary_sensitivity takes (n, d)")
    if top is not None and top < 1:
        raise UserError(f"top = {top} must be at least 1")
    sets = chosen_sets(positions, 1, len(X), Stream(seed, "positions")).to(X.device)
    state = map.attention(X)
    source = WordByWord(map, X) if state is None else AttentionSubstitution(state)
    chosen = sets[:, 0]
    at_once = 1 if callable(vocabulary) else source.positions_at_once(len(chosen))
    words = None if callable(vocabulary) else _checked(vocabulary, X)
    keeper = _Keeper(X, chosen, source.norm, top, reach)
    for first in range(0, len(chosen), at_once):
        rows = slice(first, first + at_once)
        squares = source.block(chosen[rows])
        vectors = _checked(vocabulary(int(chosen[first])), X) if words is None else words
        for at, part in _parts(vectors, source.words_at_once(len(chosen[rows]))):
            moved = part.to(X)
            keeper.add(rows, at, squares(moved), moved, len(vectors))
            done = first + len(chosen[rows]) * (at + len(part)) / len(vectors)
            reached(done, len(chosen))
    return keeper.result()


def _checked(vectors: Any, X: torch.Tensor) -> torch.Tensor:
    """Word vectors that fit the sample, where they are."""
    words = torch.as_tensor(vectors)
    if words.ndim != 2 or words.shape[1] != X.shape[1] or not len(words):
        raise UserError(
            f"vocabulary has shape {tuple(words.shape)}; for X {tuple(X.shape)} it must be "
            f"(V, {X.shape[1]}) with at least one word"
        )
    return words


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
        self.X, self.positions, self.norm = X, positions, norm
        self.count, self.whole = top or SHOWN, top is None
        self.limit = reach**2 * X.shape[1]
        self.change: torch.Tensor | None = None
        self.tops: tuple[list[_Found], list[_Found]] = ([], [])
        rows = torch.arange(len(positions), device=X.device)
        none = X.new_full((len(positions),), -1)
        self.bests = [_Found(none, rows, torch.full_like(rows, -1), none) for _ in range(2)]

    def add(
        self, rows: slice, at: int, squares: torch.Tensor, words: torch.Tensor, total: int
    ) -> None:
        """Squares (P, V) of the positions ``rows`` and the words from ``at`` on, of ``total``."""
        own = self.X[self.positions[rows]]
        away = (words**2).sum(-1) - 2 * own @ words.T + (own**2).sum(-1, keepdim=True)
        squares = squares.clamp_min(0)
        if self.whole:
            if self.change is None:
                self.change = squares.new_empty(len(self.positions), total)
            self.change[rows, at : at + len(words)] = squares.sqrt() / self.norm
        inside = torch.where(away <= self.limit, squares, -1)
        for which, values in enumerate((squares, inside)):
            size = min(self.count, values.numel())
            value, index = values.flatten().topk(size)
            row, word = index // len(words), index % len(words)
            found = _Found(value, row + rows.start, word + at, away[row, word])
            self.tops[which].append(found)
            value, word = values.max(1)
            row = torch.arange(len(values), device=values.device)
            better = _Found(value, row + rows.start, word + at, away[row, word])
            self.bests[which] = self.bests[which].improved(better)

    def result(self) -> VocabularySensitivity:
        tops = []
        for parts in self.tops:
            joined = _Found(
                *(torch.cat(x) for x in zip(*(vars(p).values() for p in parts), strict=True))
            )
            order = joined.square.argsort(descending=True, stable=True)[: self.count]
            tops.append(joined.at(order[joined.square[order] >= 0]))
        top, near, best, best_near = (self._substitutions(x) for x in (*tops, *self.bests))
        return VocabularySensitivity(
            top, near, self.positions, best, best_near, self.change, float(self.norm)
        )

    def _substitutions(self, found: _Found) -> Substitutions:
        known = found.square >= 0
        return Substitutions(
            torch.where(known, found.square.clamp_min(0).sqrt() / self.norm, torch.nan),
            self.positions[found.row],
            torch.where(known, found.word, -1),
            torch.where(known, found.away.clamp_min(0).sqrt(), torch.nan) / self.X.shape[1] ** 0.5,
        )


@dataclass(frozen=True)
class _Found:
    """Substitutions: squared change (−1 for none), row of the positions, word, ‖e_v − x_i‖²."""

    square: torch.Tensor
    row: torch.Tensor
    word: torch.Tensor
    away: torch.Tensor

    def at(self, index: torch.Tensor) -> _Found:
        return _Found(*(x[index] for x in vars(self).values()))

    def improved(self, other: _Found) -> _Found:
        """With the rows of ``other`` put in where they change more; rows of self are 0, 1, …"""
        mine = self.at(other.row)
        better = other.square > mine.square
        parts = zip(*(vars(x).values() for x in (self, mine, other)), strict=True)
        return _Found(
            *(whole.index_put((other.row,), torch.where(better, b, a)) for whole, a, b in parts)
        )
