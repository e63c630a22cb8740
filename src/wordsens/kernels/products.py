"""Matrix products in float32 on a CPU, by whichever library uses all of its vector units.

Torch hands products to MKL, which keeps to half the width of the vectors on processors that are not
Intel's; oneDNN, which Torch brings too, does not, and is twice as fast there.  A product here
depends on its own two factors alone, so that a batch is a loop over its members.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wordsens.deferred import torch

LARGE = 1 << 22  # multiplications of a product from which on oneDNN's preparations pay


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a bᵀ for a (..., S, k) and b (..., N, k)."""
    linear = _linear()
    if linear is None or a.dtype != torch.float32 or a.device.type != "cpu":
        return a @ b.mT
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return a @ b.mT
    if b.shape[:-2].numel() == 1 and a.ndim >= b.ndim:  # one matrix for all
        rows = a.reshape(-1, a.shape[-1])
        if len(rows) * b.shape[-2] * b.shape[-1] < LARGE:
            return a @ b.mT
        return linear(rows, b.flatten(0, -2), None, "none", [], "").unflatten(0, a.shape[:-1])
    if a.shape[:-2] != b.shape[:-2] or a.shape[-2] * b.shape[-2] * b.shape[-1] < LARGE:
        return a @ b.mT
    out = a.new_empty(*a.shape[:-1], b.shape[-2])
    for x, y, z in zip(a.flatten(0, -3), b.flatten(0, -3), out.flatten(0, -3), strict=True):
        z.copy_(linear(x, y, None, "none", [], ""))
    return out


def few(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a b for a (..., S, k) and b (..., k, N) where S, k or N count changed words.

    One word alone, as in most searches, needs no batch of matrix products as small as numbers.
    """
    if a.shape[-1] == 1:
        return a * b
    if b.shape[-1] == 1:
        return (a * b.mT).sum(-1, keepdim=True)
    return a @ b


def summed(x: torch.Tensor, dim: int, keepdim: bool = False) -> torch.Tensor:
    """x.sum(dim); of one word or head alone x itself, not a copy."""
    if x.shape[dim] > 1:
        return x.sum(dim, keepdim=keepdim)
    return x if keepdim else x.squeeze(dim)


@cache
def _linear() -> Any:
    """oneDNN's x wᵀ for plain tensors, or None where this Torch has none for such vectors."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)
