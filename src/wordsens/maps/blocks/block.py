"""Blocks of a transformer on batches of samples.

With A heads of attention side by side, M(x) = W₂ ϕ(W₁ x) and a residual weight ρ, a block is

    layer norm none      y = ρ x + A(x)              z = ρ y + M(y)
    layer norm before    y = ρ x + A(N(x))           z = ρ y + M(N(y))
    layer norm after     y = N(ρ x + A(x))           z = N(ρ y + M(y))

(Vaswani et al., 2017, are "after"; Xiong et al., ICML 2020, compare the two), with
N(x) = (x − mean)/√(var + ε) token by token.  Without an MLP a block ends with y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wordsens.activations import Activation
from wordsens.deferred import torch
from wordsens.maps.attention.normalization import Normalization
from wordsens.maps.attention.state import AttentionState, Projection

EPSILON = 1e-5  # added to a token's variance by layer norm


@dataclass(frozen=True)
class Design:
    """What all blocks of a transformer share."""

    normalization: Normalization
    residual: float
    norm: str
    phi: Activation

    def before(self, x: torch.Tensor) -> torch.Tensor:
        """What attention and the MLP read."""
        return layer_norm(x) if self.norm == "before" else x

    def joined(self, x: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """What comes out: the change, with the residual connection and the norm after it."""
        if self.residual:
            change = torch.add(change, x, alpha=self.residual)
        return layer_norm(change) if self.norm == "after" else change


@dataclass(frozen=True)
class Block:
    """One block for B draws: projections (B, H, r, d), and (B, ·, ·) of outputs and the MLP.

    ``out`` takes the heads side by side to the tokens' space; None where they are there already.
    ``up`` and ``down`` are W₁ and W₂; None without an MLP.
    """

    design: Design
    query: Projection
    key: Projection
    value: Projection
    out: torch.Tensor | None = None
    up: torch.Tensor | None = None
    down: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        """x (B, C, n, d) → (B, C, n, ·), C samples for each draw."""
        return self.finished(x, self.attended(self.design.before(x), sharpness))

    def attended(self, x: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        """A(x), the heads side by side."""
        query, key, value = (_heads(p, x) for p in (self.query, self.key, self.value))
        if sharpness != 1:
            query = sharpness * query
        weights, _ = self.design.normalization.row(query @ key.mT)
        return (weights @ value).transpose(-3, -2).flatten(-2)

    def finished(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The rest of the block, given A: outputs, residual connections, norms and the MLP."""
        design = self.design
        if self.out is not None:
            attended = attended @ self.out[:, None].mT
        x = design.joined(x, attended)
        if self.up is None or self.down is None:
            return x
        inner = design.phi.value(_times(design.before(x), self.up))
        return design.joined(x, _times(inner, self.down))

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Block:
        """The block with all weights changed alike, as cast to another precision."""
        matrices = (self.query.matrix, self.key.matrix, self.value.matrix)
        weights = [
            None if W is None else change(W) for W in (*matrices, self.out, self.up, self.down)
        ]
        query, key, value = (Projection(W) for W in weights[:3])
        return Block(self.design, query, key, value, *weights[3:])

    def state(self, X: torch.Tensor) -> AttentionState:
        """Samples X (T, n, d) seen by the block's attention."""
        X = self.design.before(X)
        return AttentionState.of(X, self.query, self.key, self.value, self.design.normalization)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """N(x) of every token."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=EPSILON)


def _times(x: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    """W x for tokens x (B, C, n, d) and matrices W (B, e, d)."""
    return (x.flatten(1, 2) @ W.mT).unflatten(1, x.shape[1:3])


def _heads(projection: Projection, x: torch.Tensor) -> torch.Tensor:
    """(B, C, n, d) → (B, C, H, n, r)."""
    if projection.matrix is None:
        return x[:, :, None]
    heads = projection.matrix.shape[1]
    return _times(x, projection.matrix.flatten(1, 2)).unflatten(-1, (heads, -1)).transpose(2, 3)
