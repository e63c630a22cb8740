"""Attention layers with random weights, and their one-token views at O(nd) a step.

    φ(X)_j = Σ_k s_jk value(x_k),    s_j = weights of the scores ⟨query(x_j), key(x_k)⟩,

with linear projections query, key and value per head.  RAF (3) has query = Wᵀ/√d, key and value
the identity; QKV (2) has all three.  When only the words I change, every other row j sees only
its scores with the changed keys move, a_ja(v) = ⟨query(x_j), key(v_a)⟩, and with p the weights
of the changed keys (see ``normalization``)

    out_j(v) = o_j + Σ_a p_ja (w_a − o_j),    w = value(v),

where o_j is the output over the other keys.  All of F, its gradient and linear functionals of
out are inner products, so that trials, positions and candidates share a few matrix products.

o_j is never the difference of large terms: with s the weight of the changed words in row j,
o_j − φ_j = Σ_i c_ji (φ_j − y_i), c_ji = s_ji/(1 − s), is used where s < 1/2 (one n×n matrix then
serves all positions), and the few other rows are recomputed over the other keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wordsens.errors import UserError
from wordsens.kernels import attention
from wordsens.maps.base import Effort, FeatureMap
from wordsens.maps.bounds import softmax_bound
from wordsens.maps.normalization import Normalization, Softmax
from wordsens.perturbation import OneTokenView, Pullback

WORKING_BYTES = 1 << 28  # what one evaluation of a search may take, roughly


@dataclass(frozen=True)
class Projection:
    """v ↦ M v for one matrix per head, (B, H, r, d); the identity where ``matrix`` is None."""

    matrix: torch.Tensor | None = None

    def __call__(self, v: torch.Tensor) -> torch.Tensor:
        """(B, 1, N, d) → (B, H, N, r)."""
        return v if self.matrix is None else v @ self.matrix.mT

    def pull(self, g: torch.Tensor) -> torch.Tensor:
        """(B, H, N, r) → (B, N, d): Mᵀ g summed over heads."""
        return (g if self.matrix is None else g @ self.matrix).sum(1)


class AttentionMap(FeatureMap):
    """A layer of attention heads; features are (n, heads · value dimension)."""

    effort = Effort(starts=24, anneal=50, steps=50, halve=8)
    normalization: Normalization
    query: Projection
    key: Projection
    value: Projection

    @classmethod
    def published_schedule(cls, n: int) -> tuple[float, int]:
        return 10.0, 50 * n

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X) (2), (3): (..., n, d) → (..., n, heads · value dimension); differentiable in X."""
        X = self.cast(X, graph=True)
        if self.batch is None or X.ndim == 3:
            out = self.state(X.reshape(-1, *X.shape[-2:])).output
        else:  # one draw of the weights per leading index, several samples each
            out = torch.stack(
                [self.state(sample).output for sample in X.flatten(1, -3).unbind(1)], dim=1
            )
        out = out.movedim(-3, -2).flatten(-2)  # heads side by side
        return out.reshape(*X.shape[:-1], out.shape[-1])

    def check_size(self, n: int, d: int) -> None:
        matrix = self.query.matrix
        if matrix is not None and matrix.shape[-1] != d:
            raise UserError(
                f"X has tokens of dimension {d}; this {self.name} map was built for d = "
                f"{matrix.shape[-1]}"
            )

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> AttentionView:
        return AttentionView(self.state(X), sets)

    def state(self, X: torch.Tensor) -> AttentionState:
        """Everything about samples X (T, n, d) that all positions share."""
        tokens = X[:, None]
        queries, keys, values = self.query(tokens), self.key(tokens), self.value(tokens)
        scores = queries @ keys.mT
        if not scores.isfinite().all():
            raise UserError(
                f"the attention scores of this {self.name} map overflow; scale X or W down"
            )
        weights, summary = self.normalization.attend(scores)
        return AttentionState(
            self, X, queries, keys, values, scores, weights, summary, weights @ values
        )


@dataclass(frozen=True)
class AttentionState:
    """Samples seen through a layer: shapes (T, H, n, ·), scores and weights (T, H, n, n)."""

    layer: AttentionMap
    X: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scores: torch.Tensor
    weights: torch.Tensor
    summary: torch.Tensor
    output: torch.Tensor


class AttentionView(OneTokenView):
    """φ(X^I(·)) of an attention layer; see the module for the algebra.

    Inside, tensors are (T, H, P, S, m, ·): trials, heads, position sets, candidates, changed
    words.  ``outside`` (P, 1, 1, n) marks the rows that do not change; ``surplus`` holds o − φ
    for the pairs (trial, head, set, row) whose changed words carry half the weight or more.
    """

    def __init__(self, state: AttentionState, sets: torch.Tensor) -> None:
        self.state, self.sets = state, sets
        count = len(sets)
        n = state.X.shape[1]
        self.tokens = state.X[:, sets]  # (T, P, m, d)
        total = torch.linalg.vector_norm(state.output, dim=(1, 2, 3))
        self.norm = total[:, None].expand(-1, count)
        member = torch.zeros(count, n, dtype=torch.bool, device=sets.device)
        member.scatter_(1, sets, True)
        self.member = member
        self.outside = (~member)[:, None, None, :].to(state.X.dtype)
        self.own_values = state.values[:, :, sets]  # y_I, (T, H, P, m, e)

        taken = state.weights[..., sets].permute(0, 1, 3, 4, 2)  # s_ji as (T, H, P, m, n)
        weight = taken.sum(-2)
        heavy = (weight >= 0.5) & ~member
        light = torch.where(heavy | member, 0, weight)
        others = state.layer.normalization.without(state.summary[:, :, None], light)
        share = torch.where((heavy | member)[..., None, :], 0, taken / (1 - light)[..., None, :])
        self.heavy = heavy.nonzero(as_tuple=True)
        self.surplus, others = self._exactly(others, taken)
        self.others = others[..., None, None, :]  # (T, H, P, 1, 1, n)
        self.share = share[..., None, :, :]  # c_ji, (T, H, P, 1, m, n)
        self.gain = share.sum(-2)[..., None, None, :]  # Σ_i c_ji
        self._constants()

    def _exactly(
        self, others: torch.Tensor, taken: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """o − φ over the other keys for the heavy pairs, and the summaries with theirs put in."""
        state, (t, h, p, j) = self.state, self.heavy
        surplus = state.values.new_zeros(len(t), state.values.shape[-1])
        if len(t) == 0:
            return surplus, others
        weights, summary = state.layer.normalization.attend(
            state.scores[t, h, j], self.member[p]
        )  # (pairs, n)
        changed = taken[t, h, p, :, j]  # s_ji, (pairs, m)
        for trial, head in torch.stack((t, h), 1).unique(dim=0).tolist():
            mine = (t == trial) & (h == head)
            kept = weights[mine] @ state.values[trial, head]
            own = self.own_values[trial, head, p[mine]]  # (pairs, m, e)
            here = changed[mine]
            surplus[mine] = here.sum(-1, keepdim=True) * kept - (here[:, None] @ own)[:, 0]
        return surplus, others.index_put((t, h, p, j), summary)

    def _constants(self) -> None:
        """⟨r, r⟩, ⟨r, o⟩ and ⟨o, o⟩ of every row, r = o − φ and o the output over the others."""
        out, own = self.state.output, self.own_values
        square = (out * out).sum(-1)[:, :, None, None, None]  # (T, H, 1, 1, 1, n)
        phi_own = (own.flatten(2, 3) @ out.mT).unflatten(2, own.shape[2:4])[:, :, :, None]
        gram = (own @ own.mT)[:, :, :, None]
        share, gain = self.share, self.gain
        crossed = (share * phi_own).sum(-2, keepdim=True)  # Σ_i c_ji ⟨φ_j, y_i⟩
        phi_r = gain * square - crossed
        rr = gain * phi_r - (gain * crossed - (share * (gram @ share)).sum(-2, keepdim=True))
        t, h, p, j = self.heavy
        if len(t):
            at = (t, h, p, torch.zeros_like(t), torch.zeros_like(t), j)
            phi_r = phi_r.index_put(at, (self.surplus * out[t, h, j]).sum(-1))
            rr = rr.index_put(at, (self.surplus**2).sum(-1))
        self.rr, self.ro, self.oo = rr, phi_r + rr, square + 2 * phi_r + rr

    def select(self, positions: slice) -> AttentionView:
        chosen = AttentionView(self.state, self.sets[positions])
        chosen.reach = self.reach
        return chosen

    def sets_at_once(self, candidates: int) -> int | None:
        trials, heads, n, e = self.state.values.shape
        d, m = self.state.X.shape[-1], self.sets.shape[1]
        floats = trials * candidates * m * (12 * heads * n + 8 * heads * e + 8 * d)
        return max(1, WORKING_BYTES // (floats * self.state.X.element_size()))

    def bound(self) -> torch.Tensor:
        layer = self.state.layer
        plain = layer.key.matrix is None and layer.value.matrix is None
        if not (plain and isinstance(layer.normalization, Softmax) and self.sets.shape[1] == 1):
            return super().bound()
        return softmax_bound(self)

    # one evaluation: the moving parts at v, and the way back

    def at(self, v: torch.Tensor, sharpness: float = 1.0) -> _Moved:
        layer, state = self.state.layer, self.state
        flat = v.flatten(1, 3)[:, None]  # (T, 1, N, d)
        inner = v.shape[1:4]
        key, query, value = layer.key(flat), layer.query(flat), layer.value(flat)
        scores = (key @ state.queries.mT).unflatten(2, inner)
        if sharpness == 1:
            p, pull_p = layer.normalization.changed(scores, self.others)
        else:
            p, pull = layer.normalization.changed(sharpness * scores, sharpness * self.others)

            def pull_p(dp: torch.Tensor) -> torch.Tensor:
                return sharpness * pull(dp)

        key, query, value = (x.unflatten(2, inner) for x in (key, query, value))
        index = self.sets[:, None, None, :].expand(*query.shape[:-2], *self.sets.shape[1:] * 2)
        own = (query.flatten(2, 4) @ state.keys.mT).unflatten(2, inner)
        q, pull_q = layer.normalization.row(own.scatter(-1, index, query @ key.mT))
        return _Moved(key, query, value, p * self.outside, pull_p, q, pull_q, index)

    def pull(
        self, at: _Moved, dp: torch.Tensor, dvalue: torch.Tensor, dout: torch.Tensor
    ) -> torch.Tensor:
        """Gradient in v from gradients in p, in value(v) and in the changed rows' outputs."""
        layer, state = self.state.layer, self.state
        shape = at.p.shape[2:5]

        def through(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            return (x.flatten(2, 4) @ matrix).unflatten(2, shape)

        dkey = through(at.pull_p(dp * self.outside), state.queries)
        dq = through(dout, state.values.mT)
        ds = at.pull_q(dq.scatter(-1, at.index, dout @ at.value.mT))
        ds_own = ds.gather(-1, at.index)
        dquery = through(ds.scatter(-1, at.index, 0), state.keys) + ds_own @ at.key
        dkey = dkey + ds_own.mT @ at.query
        dvalue = dvalue + at.q.gather(-1, at.index).mT @ dout
        pulled = (
            layer.key.pull(dkey.flatten(2, 4))
            + layer.query.pull(dquery.flatten(2, 4))
            + layer.value.pull(dvalue.flatten(2, 4))
        )
        return pulled.unflatten(1, shape)

    def changed_rows(self, at: _Moved) -> torch.Tensor:
        """out_i of the changed rows, (T, H, P, S, m, e)."""
        inner = at.q.shape[2:5]
        rest = at.q.scatter(-1, at.index, 0).flatten(2, 4) @ self.state.values
        return rest.unflatten(2, inner) + at.q.gather(-1, at.index) @ at.value

    def surplus_times(self, value: torch.Tensor, into: torch.Tensor) -> None:
        """into[…, j] += ⟨o − φ, value⟩ for the heavy pairs."""
        t, h, p, j = self.heavy
        if len(t):
            into[t, h, p, :, :, j] += (value[t, h, p] * self.surplus[:, None, None]).sum(-1)

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return attention.step(self, v, sharpness)

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        state, at = self.state, self.at(v)
        heads = state.values.shape[1]
        u = u.unflatten(-1, (heads, -1)).movedim(-2, 1)  # (T, H, C, n, e)
        inner, functionals = at.p.shape[2:5], u.shape[2]
        stacked = u.flatten(2, 3)
        u_w = (at.value.flatten(2, 4) @ stacked.mT).unflatten(2, inner)
        u_w = u_w.unflatten(-1, (functionals, -1))  # ⟨u_cj, w_a⟩, (T, H, P, S, m, C, n)
        u_phi = (u * state.output[:, :, None]).sum(-1)  # (T, H, C, n)
        own = self.own_values.flatten(2, 3) @ stacked.mT
        own = own.unflatten(2, self.own_values.shape[2:4]).unflatten(-1, (functionals, -1))
        share = self.share[:, :, :, 0, :, None]  # (T, H, P, m, 1, n)
        gain = self.gain[:, :, :, 0, 0, None]  # (T, H, P, 1, n)
        u_o = u_phi[:, :, None] * (1 + gain) - (share * own).sum(3)  # (T, H, P, C, n)
        t, h, p, j = self.heavy
        if len(t):
            u_o[t, h, p, :, j] += (u[t, h, :, j] * self.surplus[:, None]).sum(-1)
        u_o = u_o[:, :, :, None, None]
        change = u_w - u_o
        own_u = u[:, :, :, self.sets].movedim(2, 4)[:, :, :, None]  # (T, H, P, 1, m, C, e)
        rows = (u_o * self.outside[..., None, :]).sum(-1)  # (T, H, P, 1, 1, C)
        moved = (at.p[..., None, :] * change).sum((-1, -3))
        out = (self.changed_rows(at)[..., None, :] * own_u).sum((-1, -3))
        value = rows[..., 0, :].sum(1) + (moved + out).sum(1)

        def pullback(weight: torch.Tensor) -> torch.Tensor:
            w = weight[:, None, :, :, None, :, None]  # (T, 1, P, S, 1, C, 1)
            spread = (w * at.p[..., None, :]).flatten(-2).flatten(2, 4) @ stacked
            return self.pull(
                at, (w * change).sum(-2), spread.unflatten(2, inner), (w * own_u).sum(-2)
            )

        return value, pullback

    def features(self, v: torch.Tensor) -> torch.Tensor:
        state, at = self.state, self.at(v)
        surplus = torch.zeros_like(state.output)[:, :, None].repeat(1, 1, len(self.sets), 1, 1)
        t, h, p, j = self.heavy
        surplus[t, h, p, j] = self.surplus
        share = self.share[:, :, :, 0]  # (T, H, P, m, n)
        out = state.output[:, :, None]
        others = out + share.sum(-2)[..., None] * out - share.mT @ self.own_values + surplus
        moved = at.p.sum(-2)[..., None]  # (T, H, P, S, n, 1)
        result = (1 - moved) * others[:, :, :, None] + at.p.mT @ at.value
        index = self.sets[:, None, :, None].expand(*result.shape[:4], -1, result.shape[-1])
        result = result.scatter(-2, index, self.changed_rows(at))
        return result.movedim(1, -2).flatten(-2)

    def attracting(self) -> torch.Tensor:
        """The rows a_j(v) = ⟨A_j, v⟩ of all heads in token space, (T, H n, d)."""
        return token_rows(self.state)

    def directions(self) -> dict[str, torch.Tensor]:
        rows = self.attracting()
        mean, balanced = rows.mean(1, keepdim=True), _balanced(rows)
        named = {"balanced": balanced, "attracting": mean}
        named |= {"unbalanced": -balanced, "repelling": -mean}
        for i, vector in enumerate(_leading(rows, 3).unbind(1), start=1):
            named[f"singular+{i}"], named[f"singular-{i}"] = vector[:, None], -vector[:, None]
        count, m = self.sets.shape
        return {name: x[:, None, :, None].expand(-1, count, -1, m, -1) for name, x in named.items()}


@dataclass(frozen=True)
class _Moved:
    """What one evaluation at v computes on the way: see ``AttentionView.at``."""

    key: torch.Tensor
    query: torch.Tensor
    value: torch.Tensor
    p: torch.Tensor
    pull_p: Pullback
    q: torch.Tensor
    pull_q: Pullback
    index: torch.Tensor


def token_rows(state: AttentionState) -> torch.Tensor:
    """Mᵀ query(x_j) for the key projection M of every head, (T, H n, d)."""
    matrix = state.layer.key.matrix
    return (state.queries if matrix is None else state.queries @ matrix).flatten(1, 2)


def _balanced(rows: torch.Tensor) -> torch.Tensor:
    """The direction (T, 1, d) that moves all scores a_j alike, by ridge regression on ones."""
    r, d = rows.shape[1:]
    gram = rows @ rows.mT if r <= d else rows.mT @ rows
    ridge = 0.01 * torch.linalg.matrix_norm(gram, ord=torch.inf)[:, None, None]
    ridge = torch.where(ridge > 0, ridge, 1)  # no score moves: the direction is 0
    gram = gram + ridge * torch.eye(min(r, d), dtype=rows.dtype, device=rows.device)
    ones = rows.new_ones(rows.shape[0], r, 1)
    if r <= d:
        return (rows.mT @ torch.linalg.solve(gram, ones)).mT
    return torch.linalg.solve(gram, rows.mT @ ones).mT


def _leading(rows: torch.Tensor, count: int) -> torch.Tensor:
    """About the leading right singular vectors of rows (T, r, d), for starts: (T, ≤ count, d).

    A few rounds of subspace iteration, from the first rows so that nothing is drawn.
    """
    block = rows[:, : 2 * count].mT
    for _ in range(6):
        block = torch.linalg.qr(rows.mT @ (rows @ block)).Q
    small = torch.linalg.svd(rows @ block, full_matrices=False).Vh
    return (block @ small.mT).mT[:, :count]
