"""The squared change of a map's output under every substitution of a word, position by position.

Attention maps evaluate every substitution exactly.  Rows j ≠ i are a few matrix products for all
positions and words together (``kernels.vocabulary``).  Row i asks with the new word's query: with
G_v the output and q_vk the weights over all n keys, π_v the weight of the new word beside them and
ε = (1 − π_v) q_vi,

    out_i − φ_i = [(1 − π_v) G_v + π_v w_v − φ_i − ε (y_i − φ_i)] / (1 − ε).

Both are safe only while the word that leaves carries less than half of the weight.  The few other
pairs, (row, position) and (word, position), are computed over the other keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from wordsens.kernels import fused
from wordsens.kernels.vocabulary import changed_rows, changed_rows_expanded, expand
from wordsens.maps import FeatureMap

if TYPE_CHECKING:
    from wordsens.maps.attention.state import AttentionState

HEAVY = 1 / 8  # a pair (row, position) of more weight is computed over the other keys
FEW = 8  # so many positions are cheaper term by term than by an expansion
EXPANSION_BYTES = 1 << 29  # what the position side of a block may take, roughly
BLOCK_BYTES = 1 << 26  # and the word side, which should fit the caches

Squares = Callable[[torch.Tensor], torch.Tensor]  # vectors (V, d) ↦ ‖φ(X^i(e_v − x_i)) − φ(X)‖²


class AttentionSubstitution:
    """Substitutions in one sample seen through an attention layer."""

    def __init__(self, state: AttentionState) -> None:
        self.state, self.X = state, state.X[0]
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
        state = self.state
        heads = [_Head(state, h, positions) for h in range(self.heads)]

        def squares(vectors: torch.Tensor) -> torch.Tensor:
            tokens = vectors[None, None]
            keys, queries, values = state.key(tokens), state.query(tokens), state.value(tokens)
            total = vectors.new_zeros(len(positions), len(vectors))
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

        self.normalization = state.normalization
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


class WordByWord:
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

        def squares(vectors: torch.Tensor) -> torch.Tensor:
            gap = view.features(vectors[None, None, :, None]) - before
            return (gap * gap).flatten(3).sum(-1)[0]

        return squares
