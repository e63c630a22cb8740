"""Where the output of ReLU attention jumps as one word changes, and which side of it a point is on.

A row of ReLU attention is a mean of the words to which its scores are positive, and zero where
there is none.  It jumps where its last positive score vanishes.  Two kinds of rows do so:

    row j that attends to no other word      at ⟨query(x_j), key(v)⟩ = 0
    the changed row                          where the largest of its scores is 0

A side of the first is a sign.  Of the second there are two: where all scores ≤ 0, and where some
score stays positive, which is asked of the one that is largest.  Minima of losses lie right at
these walls more often than not in small problems, where no gradient says that there is one.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.kernels.constants import AttentionConstants
from wordsens.kernels.products import product
from wordsens.maps.attention.silence import unit_rows
from wordsens.maps.attention.state import AttentionState
from wordsens.perturbation import Walls

MARGIN, ROUNDS = 0.01, 60  # of the radius, and projections, to reach a row that attends to none


class ReLUWalls(Walls):
    """Walls of a view with one position set of one word, x_i (T, 1, 1, d)."""

    def __init__(
        self, state: AttentionState, constants: AttentionConstants, x: torch.Tensor, radius: float
    ) -> None:
        self.centre, self.radius = x[:, :, 0], radius
        self.heads, self.n = state.keys.shape[1:3]
        word = int(constants.sets[0, 0])
        self.own = torch.arange(self.heads, device=x.device) * self.n + word
        lonely = (constants.others[:, :, 0, 0, 0] == 0) & (constants.outside[0, 0, 0] > 0)
        lonely = lonely.flatten(1)  # (T, H n)
        some = lonely.any(0)
        rows = torch.cat([state.token_columns(), state.token_rows()[:, some]], 1)
        self.rows = unit_rows(rows)  # (T, K, d)
        self.lonely = lonely[:, some].to(x.dtype)[:, None]
        self.form = state.own_form().flatten(1, 2).expand(len(x), -1, -1)

    def side(self, delta: torch.Tensor) -> torch.Tensor:
        distance, _ = self._distances(self.centre + delta[:, :, 0])
        split = self.heads * self.n
        own = distance[..., :split].unflatten(-1, (self.heads, self.n))
        top = torch.zeros_like(own).scatter_(-1, own.argmax(-1, keepdim=True), 1)
        own = torch.where((own > 0).any(-1, keepdim=True), top, -1)
        signs = torch.where(distance[..., split:] > 0, 1, -1) * self.lonely
        return torch.cat([own.flatten(2), signs], -1)

    def back(
        self, delta: torch.Tensor, side: torch.Tensor, margin: torch.Tensor, rounds: int
    ) -> torch.Tensor:
        d, asked = delta.shape[-1], side != 0
        for _ in range(rounds):
            v = self.centre + delta[:, :, 0]
            distance, slope = self._distances(v)
            lack = (margin[..., None] - side * distance).clamp_min(0) * asked
            worst, at = lack.max(-1, keepdim=True)
            way = self.rows.gather(1, at.expand(*at.shape[:2], d))
            for head, own in enumerate(self.own):
                way = torch.where(at == own, slope[:, :, head], way)
            moved = delta[:, :, 0] + worst * side.gather(-1, at) * way
            length = torch.linalg.vector_norm(moved, dim=-1, keepdim=True)
            delta = (moved * (self.radius / length.clamp_min(self.radius)))[:, :, None]
        return delta

    def quiet(self, delta: torch.Tensor) -> torch.Tensor:
        side = self.side(delta)
        side[..., : self.heads * self.n] = -1
        margin = delta.new_full(delta.shape[:2], MARGIN * self.radius)
        return self.back(delta, side, margin, ROUNDS)

    def _distances(self, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Signed distances of v (T, S, d) from where its scores vanish, (T, S, K).

        Those of its scores with itself in first order; also where they grow, (T, S, H, d).
        """
        distance = product(v, self.rows)
        slope = product(v, self.form).unflatten(-1, (self.heads, -1))
        size = torch.linalg.vector_norm(slope, dim=-1).clamp_min(torch.finfo(slope.dtype).tiny)
        distance[..., self.own] = 0.5 * (slope * v[:, :, None]).sum(-1) / size
        return distance, slope / size[..., None]
