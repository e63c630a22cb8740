"""``kernels.orthogonal`` in Triton: sums along the vectors are split over programs.

A program owns a slice of SLICE entries of all vectors.  It takes step · basis off its slice of x
and multiplies what is left with the basis' slice, which it has just read and finds in the caches:
so twice-done Gram–Schmidt reads the basis three times from memory, not four.  The slices' shares of
the products are added up in a fixed order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

SLICE = 256  # entries of a vector per program
SPAN = 32  # basis vectors in one step

_empty = torch.empty


@triton.jit
def slice_step(
    x, basis, step, share, count, vectors, length, apart,
    DEFLATE: tl.constexpr, QUERIES: tl.constexpr, SPAN: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    """x (B, count, length), basis (B, vectors, length) ``apart`` from one to the next of the batch.

    Out: share (B, slices, count, vectors).
    """
    piece, b = tl.program_id(0), tl.program_id(2).to(tl.int64)
    query = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    k = piece * SLICE + tl.arange(0, SLICE)
    basis += b * apart
    within = k < length
    mine = (query[:, None] < count) & within[None, :]
    at = (b * count + query[:, None]) * length + k[None, :]
    held = tl.load(x + at, mask=mine, other=0.0)
    if DEFLATE:
        for first in range(0, vectors, SPAN):
            t = first + tl.arange(0, SPAN)
            inside = (t[:, None] < vectors) & within[None, :]
            tile = tl.load(
                basis + t[:, None].to(tl.int64) * length + k[None, :], mask=inside, other=0.0
            )
            if QUERIES == 1:
                one = tl.load(step + b * vectors + t, mask=t < vectors, other=0.0)
                held -= tl.sum(one[:, None] * tile, 0)[None, :]
            else:
                wanted = (query[:, None] < count) & (t[None, :] < vectors)
                some = (b * count + query[:, None]) * vectors + t[None, :]
                many = tl.load(step + some, mask=wanted, other=0.0)
                held -= tl.dot(many, tile, input_precision="ieee")
        tl.store(x + at, held, mask=mine)
    base = (b * tl.num_programs(0) + piece) * count
    for first in range(0, vectors, SPAN):
        t = first + tl.arange(0, SPAN)
        inside = (t[:, None] < vectors) & within[None, :]
        tile = tl.load(
            basis + t[:, None].to(tl.int64) * length + k[None, :], mask=inside, other=0.0
        )
        if QUERIES == 1:
            tl.store(share + base * vectors + t, tl.sum(tile * held, 1), mask=t < vectors)
        else:
            found = tl.dot(tile, tl.trans(held), input_precision="ieee")
            to = (base + query[None, :]) * vectors + t[:, None]
            tl.store(share + to, found, mask=(t[:, None] < vectors) & (query[None, :] < count))


def sweep(x: torch.Tensor, basis: torch.Tensor, step: torch.Tensor | None = None) -> torch.Tensor:
    """``inner(x, basis)``, or with a ``step`` ``deflate(x, basis, step)``, which changes x."""
    batch, count, length = x.shape
    vectors = basis.shape[1]
    if vectors == 0:
        return x.new_zeros(batch, count, 0)
    if basis.stride(2) != 1 or basis.stride(1) != length:
        basis = basis.contiguous()
    held = x if x.is_contiguous() else x.contiguous()
    queries = 1 if count == 1 else 8 if count <= 8 else 16
    slices = -(-length // SLICE)
    share = _empty((batch, slices, count, vectors), dtype=x.dtype, device=x.device)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        slice_step[(slices, -(-count // queries), batch)](
            held, basis, share if step is None else step.contiguous(), share,
            count, vectors, length, basis.stride(0),
            DEFLATE=step is not None, QUERIES=queries, SPAN=SPAN, SLICE=SLICE,
            num_warps=4, num_stages=2,
        )  # fmt: skip
    if step is not None and held is not x:
        x.copy_(held)
    return share.sum(1)
