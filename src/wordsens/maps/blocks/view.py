"""The one-token view through transformer blocks.

In the first block only the changed words' scores move, so that its attention is a view of a layer
(``AttentionView``); everything behind it depends on all tokens and is recomputed.  The way back is
autograd's with the weights held fixed, which costs what the way there costs.  Candidates go
through in chunks of about ``WORKING_BYTES``; where a single one takes more, only the tokens between
blocks are kept, and each block is recomputed on the way back.
"""

from __future__ import annotations

from collections.abc import Iterator

from wordsens.deferred import torch
from wordsens.maps.attention.view import FEW, AttentionView
from wordsens.maps.blocks.block import Block
from wordsens.perturbation import OneTokenView, Pullback

WORKING_BYTES = 1 << 28  # what one chunk of candidates may take, roughly


class BlocksView(OneTokenView):
    """φ(X^I(·)) through ``blocks``, for samples X (T, n, d) and position sets (P, m)."""

    def __init__(self, blocks: list[Block], X: torch.Tensor, sets: torch.Tensor) -> None:
        self.blocks, self.X, self.sets = blocks, X, sets
        self.tokens = X[:, sets]  # (T, P, m, d)
        # several layers pile up small hills, as kinks do
        self.kinked = len(blocks) > 1 or blocks[0].design.normalization.kinks
        self.first = AttentionView(blocks[0].state(X), sets)
        x = X[:, None]
        for block in blocks:
            x = block(x)
        self.base = x[:, 0]  # (T, n, ·)
        norm = torch.linalg.vector_norm(self.base, dim=(1, 2))
        self.norm = norm[:, None].expand(-1, len(sets))

    def select(self, positions: slice) -> BlocksView:
        return self._like(self.blocks, self.X, self.sets[positions])

    def trials(self, index: list[int]) -> BlocksView:
        blocks = [block.each(lambda W: W if len(W) == 1 else W[index]) for block in self.blocks]
        return self._like(blocks, self.X[index], self.sets)

    def precise(self) -> BlocksView:
        return self._in(torch.float64)

    def coarse(self) -> BlocksView:
        return self if self.X[0].numel() < FEW else self._in(torch.float32)

    def _in(self, dtype: torch.dtype) -> BlocksView:
        if self.X.dtype == dtype:
            return self
        blocks = [block.each(lambda W: W.to(dtype)) for block in self.blocks]
        return self._like(blocks, self.X.to(dtype), self.sets)

    def _like(self, blocks: list[Block], X: torch.Tensor, sets: torch.Tensor) -> BlocksView:
        made = BlocksView(blocks, X, sets)
        made.reach = self.reach
        return made

    def sets_at_once(self, candidates: int) -> int | None:
        return max(1, WORKING_BYTES // (candidates * self._bytes() * len(self.X)))

    def bound(self) -> torch.Tensor:
        """Behind a layer norm no token is longer than √d, so that F ≤ (√(nd) + ‖φ(X)‖)²."""
        if self.blocks[-1].design.norm != "after":
            return super().bound()
        return self.base[0].numel() ** 0.5 + self.norm

    def directions(self) -> dict[str, torch.Tensor]:
        """Those of the first block's attention."""
        return self.first.directions()

    def features(self, v: torch.Tensor) -> torch.Tensor:
        return torch.cat([self._through(part) for _, part in self._chunks(v)], 2)

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        value, grad = v.new_empty(v.shape[:3]), torch.empty_like(v)
        for chosen, part in self._chunks(v):
            with torch.enable_grad():
                moving = part.detach().requires_grad_()
                gap = self._through(moving, sharpness) - self.base[:, None, None]
                found = (gap * gap).flatten(3).sum(-1)
                (grad[:, :, chosen],) = torch.autograd.grad(found.sum(), moving)
            value[:, :, chosen] = found.detach()
        return value, grad

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        u = u.flatten(2)[:, None].mT  # (T, 1, p, C)
        chunks = list(self._chunks(v))
        recorded: list[tuple[torch.Tensor, torch.Tensor]] = []

        def record(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.enable_grad():
                moving = part.detach().requires_grad_()
                return moving, self._through(moving).flatten(3) @ u

        if len(chunks) == 1:  # its way back is kept; of several, each is gone again for it
            recorded = [record(v)]
            value = recorded[0][1].detach()
        else:
            with torch.no_grad():
                value = torch.cat([self._through(part).flatten(3) @ u for _, part in chunks], 2)

        def pullback(weight: torch.Tensor) -> torch.Tensor:
            pulled: list[torch.Tensor] = []
            for i, (chosen, part) in enumerate(chunks):
                moving, along = recorded[i] if recorded else record(part)
                pulled += torch.autograd.grad(
                    along, moving, weight[:, :, chosen], retain_graph=bool(recorded)
                )
            return torch.cat(pulled, 2)

        return value, pullback

    def _through(self, v: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        """φ(X^I(v − x_I)), (T, P, S, n, ·), differentiable in v."""
        trials, count, candidates, m, d = v.shape
        first, *rest = self.blocks
        attended = self.first.features(first.design.before(v)).flatten(1, 2)
        whole = self.X[:, None, None].expand(-1, count, candidates, -1, -1)
        index = self.sets[:, None, :, None].expand(trials, count, candidates, m, d)
        x = first.finished(whole.scatter(-2, index, v).flatten(1, 2), attended)
        sparing = x.requires_grad and self._bytes() > WORKING_BYTES
        for block in rest:
            x = _recomputed(block, x, sharpness) if sparing else block(x, sharpness)
        return x.unflatten(1, (count, candidates))

    def _bytes(self) -> int:
        """What one candidate of one trial and set keeps for its way back."""
        n, d = self.X.shape[-2:]
        return sum(kept(block, n, d) for block in self.blocks) * self.X.element_size()

    def _chunks(self, v: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        size = max(1, WORKING_BYTES // (self._bytes() * v.shape[0] * v.shape[1]))
        for first in range(0, v.shape[2], size):
            chosen = slice(first, first + size)
            yield chosen, v[:, :, chosen]


def _recomputed(block: Block, x: torch.Tensor, sharpness: float) -> torch.Tensor:
    """The block, of which nothing but x is kept."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(block, x, sharpness, use_reentrant=False)


def kept(block: Block, n: int, d: int) -> int:
    """Numbers that a block keeps of a sample of shape (n, d) for its way back, roughly."""
    heads = 1 if block.query.matrix is None else block.query.matrix.shape[1]
    hidden = 0 if block.up is None else block.up.shape[1]
    return n * (10 * d + 2 * hidden + 3 * heads * n)
