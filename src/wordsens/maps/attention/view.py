"""The one-token view of an attention layer, at O(nd) a step.

When only the words I change, every other row j sees only its scores with the changed keys move,
a_ja(v) = ⟨query(x_j), key(v_a)⟩, and with p the weights of the changed keys (``normalization``)

    out_j(v) = o_j + Σ_a p_ja (w_a − o_j),    w = value(v),

where o_j is the output over the other keys (``leave_out``).  All of F, its gradient and linear
functionals of out are inner products, so that trials, positions and candidates share a few matrix
products.  ``kernels.attention`` says what F and ∇F are made of, and names the constants.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from wordsens.deferred import torch
from wordsens.kernels import attention
from wordsens.kernels.products import few, summed
from wordsens.maps.attention.asking import Asking
from wordsens.maps.attention.bound import softmax_bound
from wordsens.maps.attention.cones import ReLUCones
from wordsens.maps.attention.directions import named_directions
from wordsens.maps.attention.functionals import FixedFunctionals
from wordsens.maps.attention.leave_out import in_dtype, leave_out
from wordsens.maps.attention.normalization import Softmax
from wordsens.maps.attention.silence import alone, but_one
from wordsens.maps.attention.state import AttentionState
from wordsens.maps.attention.walls import ReLUWalls
from wordsens.perturbation import Functionals, OneTokenView, Pullback, Walls

FEW = 5_000  # numbers in a sample below which float32 saves nothing
WORKING_BYTES = 1 << 28  # what one evaluation of a search may take, roughly


class AttentionView(OneTokenView):
    """φ(X^I(·)) of an attention layer.

    Inside, tensors are (T, H, P, S, m, ·): trials, heads, position sets, candidates, changed
    words.
    """

    def __init__(
        self, state: AttentionState, sets: torch.Tensor, asking: Asking | None = None
    ) -> None:
        self.state, self.sets = state, sets
        self.asking = asking or Asking.of(state, sets.shape[1])
        self.kinked = state.normalization.kinks
        self.tokens = state.X[:, sets]  # (T, P, m, d)
        total = torch.linalg.vector_norm(state.output, dim=(1, 2, 3))
        self.norm = total[:, None].expand(-1, len(sets))
        self.constants = leave_out(state, sets)

    source: AttentionView | None = None  # of a view in float64: the view that it was made of

    def precise(self) -> AttentionView:
        return self._turned(torch.float64)

    def coarse(self) -> AttentionView:
        n, d = self.state.X.shape[1:]
        return self if n * d < FEW else self._turned(torch.float32)

    def _turned(self, dtype: torch.dtype) -> AttentionView:
        if self.state.X.dtype == dtype:
            return self
        view = copy.copy(self)
        view.source = self
        view.state, view.constants = self.state.to(dtype), in_dtype(self.constants, dtype)
        view.tokens = self.tokens.to(dtype)
        view.asking = self.asking and self.asking.to(dtype)
        return view

    def squared_change(self, delta: torch.Tensor) -> torch.Tensor:
        trials, heads, n, e = self.state.values.shape
        at_once = max(1, WORKING_BYTES // (8 * 8 * trials * heads * n * e))
        if at_once >= len(self.sets):
            return super().squared_change(delta)
        parts = [slice(i, i + at_once) for i in range(0, len(self.sets), at_once)]
        return torch.cat([self.select(p).squared_change(delta[:, p]) for p in parts], 1)

    def neighbours(self, u: torch.Tensor) -> list[torch.Tensor]:
        if not self.kinked:
            return []
        # −u, so that random starts stay independent
        return [
            alone(self.state, self.sets, u, self.radius),
            but_one(self.state, self.sets, -u, self.radius),
        ]

    def walls(self) -> Walls | None:
        if not self.kinked or self.sets.shape != (1, 1):
            return None
        return ReLUWalls(self.state, self.constants, self.tokens, self.radius)

    def cones(self, v: torch.Tensor) -> ReLUCones | None:
        # in more dimensions few words are about to be heard at a maximum
        n, d = self.state.X.shape[1:]
        return ReLUCones.at(self.state, self.sets, v) if n * d < FEW else None

    def trials(self, index: list[int]) -> AttentionView:
        chosen = AttentionView(self.state.trials(index), self.sets)
        chosen.reach = self.reach
        return chosen

    def select(self, positions: slice) -> AttentionView:
        if self.source is not None:
            narrowed = self.source.select(positions)
            narrowed.reach = self.reach
            return narrowed._turned(self.tokens.dtype)
        chosen = AttentionView(self.state, self.sets[positions], self.asking)
        chosen.reach = self.reach
        return chosen

    def sets_at_once(self, candidates: int) -> int | None:
        trials, heads, n, e = self.state.values.shape
        d, m = self.state.X.shape[-1], self.sets.shape[1]
        floats = trials * candidates * m * (12 * heads * n + 8 * heads * e + 8 * d)
        return max(1, WORKING_BYTES // (floats * self.state.X.element_size()))

    def bound(self) -> torch.Tensor:
        state = self.state
        plain = state.key.matrix is None and state.value.matrix is None
        if not (plain and isinstance(state.normalization, Softmax) and self.sets.shape[1] == 1):
            return super().bound()
        return softmax_bound(state, self.constants, self.radius)

    def directions(self) -> dict[str, torch.Tensor]:
        named = named_directions(self.attracting())
        count, m = self.sets.shape
        return {name: x[:, None, :, None].expand(-1, count, -1, m, -1) for name, x in named.items()}

    def attracting(self) -> torch.Tensor:
        """The rows a_j(v) = ⟨A_j, v⟩ of all heads in token space, (T, H n, d)."""
        return self.state.token_rows()

    # one evaluation: the moving parts at v, and the way back

    def at(self, v: torch.Tensor, sharpness: float = 1.0) -> _Moved:
        state, constants = self.state, self.constants
        flat = v.flatten(1, 3)[:, None]  # (T, 1, N, d)
        inner = v.shape[1:4]
        key, value = state.key(flat), state.value(flat)
        if self.asking is None:
            query = state.query(flat)
            own = query @ state.keys.mT
        else:  # of ⟨query, key⟩ no more is asked than that of the word with itself
            query = flat @ self.asking.half
            own = flat @ self.asking.rows.mT
        scores = (key @ state.queries.mT).unflatten(2, inner)
        if sharpness == 1:
            p, pull_p = state.normalization.changed(scores, constants.others)
        else:
            p, pull = state.normalization.changed(sharpness * scores, sharpness * constants.others)

            def pull_p(dp: torch.Tensor) -> torch.Tensor:
                return sharpness * pull(dp)

        key, query, value, own = (x.unflatten(2, inner) for x in (key, query, value, own))
        index = self.sets[:, None, None, :].expand(*query.shape[:-2], *self.sets.shape[1:] * 2)
        q, pull_q = state.normalization.row(own.scatter(-1, index, few(query, key.mT)))
        return _Moved(key, query, value, p * constants.outside, pull_p, q, pull_q, index)

    def pull(
        self, at: _Moved, dp: torch.Tensor, dvalue: torch.Tensor, dout: torch.Tensor
    ) -> torch.Tensor:
        """Gradient in v from gradients in p, in value(v) and in the changed rows' outputs."""
        state = self.state
        shape = at.p.shape[2:5]

        def through(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
            return (x.flatten(2, 4) @ matrix).unflatten(2, shape)

        dkey = through(at.pull_p(dp * self.constants.outside), state.queries)
        dq = through(dout, state.values.mT)
        ds = at.pull_q(dq.scatter(-1, at.index, few(dout, at.value.mT)))
        ds_own = ds.gather(-1, at.index)
        others = ds.scatter(-1, at.index, 0)
        if self.asking is None:
            dquery = through(others, state.keys) + few(ds_own, at.key)
            asked = state.query.pull(dquery.flatten(2, 4))
            dkey = dkey + few(ds_own.mT, at.query)
        else:
            dkey = dkey + through(others, self.asking.rows)
            asked = summed(few(2 * ds_own.mT, at.query).flatten(2, 4), 1)
        dvalue = dvalue + few(at.q.gather(-1, at.index).mT, dout)
        pulled = state.key.pull(dkey.flatten(2, 4)) + asked + state.value.pull(dvalue.flatten(2, 4))
        return pulled.unflatten(1, shape)

    def changed_rows(self, at: _Moved) -> torch.Tensor:
        """out_i of the changed rows, (T, H, P, S, m, e)."""
        inner = at.q.shape[2:5]
        rest = at.q.scatter(-1, at.index, 0).flatten(2, 4) @ self.state.values
        return rest.unflatten(2, inner) + few(at.q.gather(-1, at.index), at.value)

    # what is asked of every view

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if attention.applies(self.constants, v):
            return attention.step(self.constants, v, sharpness)
        return self.plain_step(v, sharpness)

    def plain_step(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """F and ∇F in plain Torch, for any number of changed words, any dtype and device."""
        state, c, at = self.state, self.constants, self.at(v, sharpness)
        value, p = at.value, at.p
        inner = p.shape[2:5]
        t, h, s, j = c.heavy
        own = c.own_values[:, :, :, None]  # (T, H, P, 1, m, e)
        phi_w = (value.flatten(2, 4) @ state.output.mT).unflatten(2, inner)
        r_w = c.gain * phi_w - few(few(value, own.mT), c.share)
        if len(t):
            r_w[t, h, s, :, :, j] += (value[t, h, s] * c.surplus[:, None, None]).sum(-1)
        o_w = phi_w + r_w
        moved = summed(p, -2, keepdim=True)  # Σ_a p_a
        mixed = summed(p * o_w, -2, keepdim=True)
        lean = r_w - c.ro  # ⟨r, w_a − o⟩
        along = lean + few(few(value, value.mT), p) + moved * (c.oo - o_w) - mixed
        # rr and ro are meaningless on the changed rows themselves, which are counted below
        rows = (c.rr * c.outside) + summed(p * (lean + along), -2, keepdim=True)
        gap = self.changed_rows(at) - state.output[:, :, self.sets][:, :, :, None]
        # rounding can push a change far below ‖φ‖ under zero
        total = (rows.sum((1, -1, -2)) + (gap * gap).sum((1, -1, -2))).clamp_min(0)

        double = 2 * p
        both = double * moved
        kept = double - both
        on_phi = (kept * c.gain - both).flatten(2, 4) @ state.output
        dvalue = on_phi.unflatten(2, inner) - few(few(kept, c.share.mT), own)
        dvalue = dvalue + few(few(double, p.mT), value)
        if len(t):
            dvalue.index_put_(
                (t, h, s), kept[t, h, s, :, :, j, None] * c.surplus[:, None, None], True
            )
        return total, self.pull(at, 2 * along, dvalue, 2 * gap)

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        state, c, at = self.state, self.constants, self.at(v)
        heads = state.values.shape[1]
        u = u.unflatten(-1, (heads, -1)).movedim(-2, 1)  # (T, H, C, n, e)
        inner, functionals = at.p.shape[2:5], u.shape[2]
        stacked = u.flatten(2, 3)
        u_w = (at.value.flatten(2, 4) @ stacked.mT).unflatten(2, inner)
        u_w = u_w.unflatten(-1, (functionals, -1))  # ⟨u_cj, w_a⟩, (T, H, P, S, m, C, n)
        u_o = self.left_out(u)
        u_o = u_o[:, :, :, None, None]
        change = u_w - u_o
        own_u = u[:, :, :, self.sets].movedim(2, 4)[:, :, :, None]  # (T, H, P, 1, m, C, e)
        rows = (u_o * c.outside[..., None, :]).sum(-1)  # (T, H, P, 1, 1, C)
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

    def left_out(self, u: torch.Tensor) -> torch.Tensor:
        """⟨o_j, u_cj⟩ (T, H, P, C, n) of the outputs over the other keys, u (T, H, C, n, e)."""
        c, functionals = self.constants, u.shape[2]
        u_phi = (u * self.state.output[:, :, None]).sum(-1)  # (T, H, C, n)
        own = c.own_values.flatten(2, 3) @ u.flatten(2, 3).mT
        own = own.unflatten(2, c.own_values.shape[2:4]).unflatten(-1, (functionals, -1))
        share = c.share[:, :, :, 0, :, None]  # (T, H, P, m, 1, n)
        gain = c.gain[:, :, :, 0, 0, None]  # (T, H, P, 1, n)
        u_o = u_phi[:, :, None] * (1 + gain) - (share * own).sum(3)
        t, h, p, j = c.heavy
        if len(t):
            u_o[t, h, p, :, j] += (u[t, h, :, j] * c.surplus[:, None]).sum(-1)
        return u_o

    def functionals(self, u: torch.Tensor) -> Functionals:
        if self.sets.shape == (1, 1):
            of_head = u.unflatten(-1, (self.state.values.shape[1], -1)).movedim(-2, 1)
            return FixedFunctionals(self.state, self.constants, of_head, self.left_out(of_head))
        return super().functionals(u)

    def features(self, v: torch.Tensor) -> torch.Tensor:
        state, c, at = self.state, self.constants, self.at(v)
        surplus = torch.zeros_like(state.output)[:, :, None].repeat(1, 1, len(self.sets), 1, 1)
        surplus[c.heavy] = c.surplus
        share = c.share[:, :, :, 0]  # (T, H, P, m, n)
        out = state.output[:, :, None]
        others = out + share.sum(-2)[..., None] * out - share.mT @ c.own_values + surplus
        moved = at.p.sum(-2)[..., None]  # (T, H, P, S, n, 1)
        result = (1 - moved) * others[:, :, :, None] + at.p.mT @ at.value
        index = self.sets[:, None, :, None].expand(*result.shape[:4], -1, result.shape[-1])
        result = result.scatter(-2, index, self.changed_rows(at))
        return result.movedim(1, -2).flatten(-2)


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
