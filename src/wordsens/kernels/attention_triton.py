"""The attention step of ``kernels.attention`` in Triton, for one changed word and float32.

A few launches read every row matrix as often as the dependencies of the step ask:

    scalars        ⟨query, key⟩, ‖value‖², ⟨value, y_i⟩
    row_step       a = ⟨queries_j, key⟩, ⟨φ_j, value⟩, s = ⟨keys_k, query⟩; then p, F and the
                   coefficients of the gradient, row by row, without storing a product
    own_weights    q, the weights of the changed row
    column_step    Σ_j da_j queries_j, Σ_j b_j φ_j and out_i = Σ_k q_k y_k
    own_slope      ⟨y_k, dout⟩
    own_pull       ds from it
    own_query      Σ_k ds_k keys_k

Candidates per sample decide how products are made (``plan``): one is a matrix-vector product and
needs no shared memory, up to ``FUSED`` of them are small dots, and beyond that the work is bound
by multiplications, which cuBLAS does best: then the same kernels take its products as input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wordsens.kernels.attention_programs import (
    column_step,
    own_pull,
    own_query,
    own_slope,
    own_weights,
    row_step,
    scalars,
)
from wordsens.kernels.constants import AttentionConstants

FUSED = 32  # candidates per sample up to which products are made in the kernels
PROGRAMS = 264  # two for each multiprocessor of an H100: fewer leave it idle
SCAN = 1024  # entries of a row read at once where a program owns a whole row

_empty = torch.empty


@dataclass(frozen=True)
class Plan:
    """Tile sizes of one size class; ``candidates`` × (``rows`` or ``columns``) results each."""

    fused: bool
    candidates: int
    rows: int
    columns: int
    depth: int  # of a product's summed axis, in one step
    warps: int = 4
    stages: int = 4


def plan(batch: int, candidates: int, n: int, width: int) -> Plan:
    """The one configuration of a size: by candidates per sample, then so as to fill the card."""
    if candidates == 1:
        return Plan(True, 1, _tile(n, batch, 16), _tile(width, batch, 64), 128)
    if candidates > FUSED:
        return Plan(False, 16, 64, 64, 32)
    if candidates > 16:  # 64 rows of 32 candidates would spill registers
        return Plan(True, 32, _tile(n, batch, 32), _tile(width, batch, 64), 32)
    block = 8 if candidates <= 8 else 16
    return Plan(True, block, _tile(n, batch, 64), _tile(width, batch, 64), 32)


def _tile(length: int, batch: int, largest: int) -> int:
    """The largest tile that still gives every multiprocessor work, at least 16."""
    while largest > 16 and batch * -(-length // largest) < PROGRAMS:
        largest //= 2
    return largest


def value_and_grad(
    constants: AttentionConstants, v: torch.Tensor, sharpness: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """F and ∇F as ``kernels.attention`` defines them, for one changed word, float32."""
    with torch.cuda.device_of(v):  # Triton launches on the current device
        return _step(constants, v, sharpness)


def _step(
    c: AttentionConstants, v: torch.Tensor, sharpness: float
) -> tuple[torch.Tensor, torch.Tensor]:
    trials, heads, n, e = c.values.shape
    places, starts, d = v.shape[1], v.shape[2], v.shape[-1]
    r, B, C = c.keys.shape[-1], trials * heads, places * starts
    flat = v.reshape(trials, 1, C, d)
    alike = c.key is None and c.value is None  # key(v) = value(v) = v

    def images(matrix: torch.Tensor | None) -> torch.Tensor:
        x = flat if matrix is None else flat @ matrix.mT
        return x.reshape(B, C, -1).contiguous()

    key, query = images(c.key), images(c.query)
    value = key if alike else images(c.value)
    rows = [x.reshape(B, n, -1).contiguous() for x in (c.queries, c.output, c.keys)]
    queries, output, keys = rows
    values = keys if alike else c.values.reshape(B, n, e).contiguous()
    constants = [
        x.expand(trials, heads, places, 1, 1, n).reshape(B, places, n).contiguous()
        for x in (c.others, c.gain, c.rr, c.ro, c.oo)
    ]
    sets = c.sets[:, 0].contiguous()
    softmax = c.normalization == "softmax"
    shape = plan(B, C, n, max(r, e))
    fused = shape.fused

    def new(*size: int) -> torch.Tensor:
        return _empty(size, dtype=v.dtype, device=v.device)

    products = (
        (key, key, key)
        if fused
        else (key @ queries.mT, value @ output.mT, query @ keys.mT)  # read only where not fused
    )
    key_t = key.mT.contiguous() if fused else key
    value_t = key_t if alike or not fused else value.mT.contiguous()
    query_t = query.mT.contiguous() if fused else query

    t, h, p, j = c.heavy
    extra = kept = None
    if len(t):
        extra = new(trials, heads, places, starts, n).zero_()
        held = value.reshape(trials, heads, places, starts, e)
        extra[t, h, p, :, j] = (held[t, h, p] * c.surplus[:, None]).sum(-1)
        kept = new(B, C, n)

    scalar = new(B, C, 3)
    scalars[(C, B)](
        key, query, value, values, sets, scalar, starts, C, n, r, e, SCAN=SCAN, num_warps=4
    )
    blocks = -(-n // shape.rows)
    by_row = (blocks, -(-C // shape.candidates), B)
    da, b, s, partial = new(B, C, n), new(B, C, n), new(B, C, n), new(B, C, blocks, 3)
    tiles = {
        "CANDIDATES": shape.candidates,
        "DEPTH": shape.depth,
        "num_warps": shape.warps,
        "num_stages": shape.stages,
    }
    row_step[by_row](
        queries, output, keys, key_t, value_t, query_t, *products, *constants, sets, scalar,
        scalar if extra is None else extra, da, b, s, scalar if kept is None else kept, partial,
        float(sharpness), starts, C, n, r, e,
        SOFTMAX=softmax, HEAVY=len(t) > 0, FUSED=fused, ROWS=shape.rows, **tiles,
    )  # fmt: skip
    sums = partial.sum(2)
    q, own = new(B, C, n), new(B, C, 3)
    own_weights[(C, B)](s, q, own, sets, starts, C, n, SOFTMAX=softmax, SCAN=SCAN, num_warps=4)

    width = max(r, e)
    blocks = -(-width // shape.columns)
    by_column = (blocks, -(-C // shape.candidates), B)
    dkey, dvalue = new(B, C, r), new(B, C, e)
    dout, gap = new(B, e, C), new(B, C, blocks)
    products = (key, key, key) if fused else (da @ queries, b @ output, q @ values)
    column_step[by_column](
        queries, output, values, da, b, q, *products, value, own, sums, sets,
        dkey, dvalue, dout, gap, starts, C, n, r, e,
        FUSED=fused, COLUMNS=shape.columns, **tiles,
    )  # fmt: skip
    if kept is not None:
        pulled = kept.view(trials, heads, places, starts, n)[t, h, p, :, j, None]
        target = dvalue.view(trials, heads, places, starts, -1)
        target.index_put_((t, h, p), pulled * c.surplus[:, None], accumulate=True)

    if fused:
        dq = new(B, C, n)
        own_slope[by_row](values, dout, dq, C, n, e, ROWS=shape.rows, **tiles)
    else:
        dq = dout.mT @ values.mT
    ds, ds_own = new(B, C, n), new(B, C)
    own_pull[(C, B)](
        q, dq, s, value, dout, own, ds, ds_own, sets, starts, C, n, e,
        SOFTMAX=softmax, SCAN=SCAN, num_warps=4,
    )  # fmt: skip
    dquery = new(B, C, r)
    own_query[(-(-r // shape.columns), by_column[1], B)](
        keys, ds, ds_own, key, query, key if fused else ds @ keys, dkey, dquery, C, n, r,
        FUSED=fused, COLUMNS=shape.columns, **tiles,
    )  # fmt: skip

    def pull(matrix: torch.Tensor | None, g: torch.Tensor) -> torch.Tensor:
        g = g.view(trials, heads, C, -1)
        return (g if matrix is None else g @ matrix).sum(1)

    grad = pull(c.key, dkey) + pull(c.value, dvalue) + pull(c.query, dquery)
    total = sums[..., 0] + gap.sum(-1)
    total = total.view(trials, heads, places, starts).sum(1).clamp_min(0)
    return total, grad.reshape(v.shape)
