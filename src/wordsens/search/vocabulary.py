"""Discrete word sensitivity: the relative change when word i becomes any word of a vocabulary.

    ‖φ(X with x_i → e_v) − φ(X)‖ / ‖φ(X)‖        for every position i and word v

A vocabulary is finite, so nothing is searched: attention maps evaluate every substitution exactly.
Rows j ≠ i are a few matrix products for all positions and words together (``kernels.vocabulary``).
Row i asks with the new word's query: with G_v the output and q_vk the weights over all n keys, π_v
the weight of the new word beside them and ε = (1 − π_v) q_vi,

    out_i − φ_i = [(1 − π_v) G_v + π_v w_v − φ_i − ε (y_i − φ_i)] / (1 − ε).

Both are safe only while the word that leaves carries less than half of the weight.  The few other
pairs, (row, position) and (word, position), are computed over the other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from wordsens.errors import UserError
from wordsens.kernels import fused
from wordsens.kernels.vocabulary import changed_rows, changed_rows_expanded, expand
from wordsens.maps import FeatureMap
from wordsens.maps.attention import AttentionMap, AttentionState
from wordsens.progress import reached
from wordsens.randomness import Stream
from wordsens.search.sensitivity import Positions, chosen_sets

HEAVY = 1 / 8  # a pair (row, position) of more weight is computed over the other keys
FEW = 8  # so many positions are cheaper term by term than by an expansion
EXPANSION_BYTES = 1 << 29  # what the position side of a block may take, roughly
BLOCK_BYTES = 1 << 26  # and the word side, which should fit the caches
SHOWN = 10  # substitutions listed where nothing else is asked for

Squares = Callable[[torch.Tensor], torch.Tensor]  # words (V, d) ↦ ‖φ(X^i(e_v − x_i)) − φ(X)‖²


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
    source: _Attention | _WordByWord
    source = _Attention(map, X) if isinstance(map, AttentionMap) else _WordByWord(map, X)
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


class _Attention:
    """Substitutions in a sample seen through an attention layer."""

    def __init__(self, layer: AttentionMap, X: torch.Tensor) -> None:
        self.layer, self.X = layer, X
        self.state = layer.state(X[None])
        self.heads = self.state.scores.shape[1]
        self.norm = torch.linalg.vector_norm(self.state.output)

    def positions_at_once(self, count: int) -> int:
        per_node = 12 * 4 * 8 * len(self.X) * self.heads
        return max(FEW, min(count, EXPANSION_BYTES // (3 * per_node)))

    def words_at_once(self, positions: int) -> int:
        n, d = self.X.shape
        floats = self.heads * (16 * n + 8 * positions + 4 * self.state.values.shape[-1]) + 4 * d
        scale = 16 if self.X.is_cuda else 1
        return max(1, scale * BLOCK_BYTES // (floats * self.X.element_size()))

    def block(self, positions: torch.Tensor) -> Squares:
        layer = self.layer
        heads = [_Head(self.state, h, positions) for h in range(self.heads)]

        def squares(words: torch.Tensor) -> torch.Tensor:
            tokens = words[None, None]
            keys, queries, values = layer.key(tokens), layer.query(tokens), layer.value(tokens)
            total = words.new_zeros(len(positions), len(words))
            for h, head in enumerate(heads):
                total += head.squares(*(_head(x, h) for x in (keys, queries, values)))
            return total

        return squares


class _Head:
    """One head and a block of positions: what does not depend on the words, and then the words.

    ``pairs`` are the rows j and positions (as indices into the block) whose word carries more than
    HEAVY of the row; ``others`` (…,) their summaries over the other keys and ``surplus`` o − φ.
    """

    def __init__(self, state: AttentionState, head: int, positions: torch.Tensor) -> None:
        def mine(x: torch.Tensor) -> torch.Tensor:
            return _head(x, head)

        self.normalization = state.layer.normalization
        self.positions = positions
        self.queries, self.keys, self.values = map(mine, (state.queries, state.keys, state.values))
        self.summary, self.output = mine(state.summary), mine(state.output)
        scores, weights = mine(state.scores), mine(state.weights)

        self.own = self.values[positions]  # y_i, (P, e)
        self.square = (self.output**2).sum(-1, keepdim=True)  # (n, 1)
        self.s = weights[:, positions]
        along = self.output @ self.own.T
        self.lean = self.square - along
        self.away = (self.square - 2 * along + (self.own**2).sum(-1)).clamp_min(0)
        member = torch.zeros_like(self.s, dtype=torch.bool)
        member[positions, torch.arange(len(positions), device=positions.device)] = True
        heavy = (self.s > HEAVY) & ~member
        self.keep = (~(heavy | member)).to(self.s.dtype)
        # the kernel for a card adds up term by term, for any number of positions
        few = len(positions) <= FEW or fused(self.s)
        self.expansion = None if few else expand(self.s, self.lean, self.away, self.keep)

        self.row, self.at = heavy.nonzero(as_tuple=True)
        kept, self.others = self.normalization.attend(scores[self.row], member.T[self.at])
        taken = self.s[self.row, self.at][:, None]
        self.surplus = taken * (kept @ self.values) - taken * self.own[self.at]

    def squares(
        self, keys: torch.Tensor, queries: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Σ_j ‖out_j − φ_j‖², (P, V), for words with these projections (V, ·)."""
        scores = keys @ self.queries.T  # a_j(v), (V, n)
        p, _ = self.normalization.changed(scores[:, None], self.summary)
        p = p[:, 0].T.contiguous()
        dot, dot_own = self.output @ values.T, self.own @ values.T
        length = (values**2).sum(-1)
        far = (self.square - 2 * dot + length).clamp_min_(0)
        if self.expansion is None:
            pairs = (self.s, self.lean, self.away, self.keep)
            total = changed_rows(p, far, dot, dot_own, *pairs)
        else:
            total = changed_rows_expanded(p, far, dot, dot_own, self.expansion)
        if len(self.row):
            total.index_add_(0, self.at, self._heavy(scores, values, dot, length))
        return total + self._asking(keys, queries, values)

    def _heavy(
        self, scores: torch.Tensor, values: torch.Tensor, dot: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        """‖r + p (w − o)‖² of the heavy pairs, r = o − φ, (pairs, V)."""
        p, _ = self.normalization.changed(scores.T[self.row][:, None], self.others[:, None, None])
        p, r = p[:, 0], self.surplus
        o = self.output[self.row] + r
        along = r @ values.T
        ro, oo = ((x * o).sum(-1, keepdim=True) for x in (r, o))
        apart = length - 2 * (dot[self.row] + along) + oo
        return (r * r).sum(-1, keepdim=True) + 2 * p * (along - ro) + p * p * apart

    def _asking(
        self, keys: torch.Tensor, queries: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """‖out_i − φ_i‖² of the changed row itself, (P, V)."""
        scores, itself = queries @ self.keys.T, (queries * keys).sum(-1)
        q, summary = self.normalization.attend(scores)  # (V, n), (V,)
        p = self.normalization.changed(itself[None], summary[None])[0].T  # (V, 1)
        joined = (1 - p) * (q @ self.values) + p * values
        leaving = (1 - p) * q[:, self.positions]  # ε, (V, P)
        before = self.output[self.positions]
        away = self.own - before
        length = (before**2).sum(-1)
        gap = (joined**2).sum(-1, keepdim=True) - 2 * joined @ before.T + length
        inner = joined @ away.T - (before * away).sum(-1)
        square = gap + leaving * (leaving * (away**2).sum(-1) - 2 * inner)
        square = square / (1 - leaving) ** 2
        word, at = (leaving > 0.5).nonzero(as_tuple=True)
        if len(word):
            rest = torch.cat([scores[word], itself[word, None]], 1)
            absent = torch.zeros_like(rest, dtype=torch.bool)
            absent.scatter_(1, self.positions[at][:, None], True)
            kept, _ = self.normalization.attend(rest, absent)
            out = kept[:, :-1] @ self.values + kept[:, -1:] * values[word]
            square[word, at] = ((out - before[at]) ** 2).sum(-1)
        return square.T


def _head(x: torch.Tensor, head: int) -> torch.Tensor:
    """One head of (1, H, …); all heads share what has a single one."""
    return x[0, head if x.shape[1] > 1 else 0]


class _WordByWord:
    """Substitutions through the one-token view of any map, one position at a time."""

    def __init__(self, map: FeatureMap, X: torch.Tensor) -> None:
        self.map, self.X = map, X
        self.view = map.view(X[None], torch.zeros(1, 1, dtype=torch.long, device=X.device))
        self.norm = self.view.norm[0, 0]

    def positions_at_once(self, count: int) -> int:
        return 1

    def words_at_once(self, positions: int) -> int:
        size = self.view.features(self.view.tokens[:, :, None]).numel()
        return max(1, BLOCK_BYTES // (4 * size * self.X.element_size()))

    def block(self, positions: torch.Tensor) -> Squares:
        view = self.map.view(self.X[None], positions[:, None])
        before = view.features(view.tokens[:, :, None])

        def squares(words: torch.Tensor) -> torch.Tensor:
            gap = view.features(words[None, None, :, None]) - before
            return (gap * gap).flatten(3).sum(-1)[0]

        return squares


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
