"""The programs of the attention step; ``attention_triton`` says how they follow each other.

Shapes: B = trials × heads; C = sets × starts candidates, candidate c belonging to set c // starts;
queries, keys (B, n, r), values, output (B, n, e); v's images key, query (B, C, r), value (B, C, e).
A program owns a tile of its result and sums over the other axis alone, so that results do not
depend on scheduling.  Products are float32 (``input_precision="ieee"``), offsets 64 bits wide.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _along_rows(
    matrix, vector, row, candidate, n, count, width,
    ROWS: tl.constexpr, CANDIDATES: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """⟨matrix_row, vector_candidate⟩ (ROWS, CANDIDATES); vector is stored as (width, count)."""
    here = row[:, None].to(tl.int64) * width
    if CANDIDATES == 1:
        partial = tl.zeros((ROWS, DEPTH), tl.float32)
        for first in range(0, width, DEPTH):
            k = first + tl.arange(0, DEPTH)
            inside = (row[:, None] < n) & (k[None, :] < width)
            tile = tl.load(matrix + here + k[None, :], mask=inside, other=0.0)
            partial += tile * tl.load(vector + k, mask=k < width, other=0.0)[None, :]
        return tl.sum(partial, 1)[:, None]
    else:
        total = tl.zeros((ROWS, CANDIDATES), tl.float32)
        for first in range(0, width, DEPTH):
            k = first + tl.arange(0, DEPTH)
            inside = (row[:, None] < n) & (k[None, :] < width)
            tile = tl.load(matrix + here + k[None, :], mask=inside, other=0.0)
            wanted = (k[:, None] < width) & (candidate[None, :] < count)
            at = k[:, None].to(tl.int64) * count + candidate[None, :]
            other = tl.load(vector + at, mask=wanted, other=0.0)
            total = tl.dot(tile, other, total, input_precision="ieee")
        return total


@triton.jit
def _along_columns(
    matrix, weight, candidate, column, n, count, width,
    CANDIDATES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Σ_j weight_j matrix_j (CANDIDATES, COLUMNS); weight is (count, n)."""
    if CANDIDATES == 1:
        partial = tl.zeros((DEPTH, COLUMNS), tl.float32)
        for first in range(0, n, DEPTH):
            j = first + tl.arange(0, DEPTH)
            inside = (j[:, None] < n) & (column[None, :] < width)
            at = j[:, None].to(tl.int64) * width + column[None, :]
            tile = tl.load(matrix + at, mask=inside, other=0.0)
            partial += tile * tl.load(weight + j, mask=j < n, other=0.0)[:, None]
        return tl.sum(partial, 0)[None, :]
    else:
        total = tl.zeros((CANDIDATES, COLUMNS), tl.float32)
        for first in range(0, n, DEPTH):
            j = first + tl.arange(0, DEPTH)
            wanted = (candidate[:, None] < count) & (j[None, :] < n)
            at = candidate[:, None].to(tl.int64) * n + j[None, :]
            w = tl.load(weight + at, mask=wanted, other=0.0)
            inside = (j[:, None] < n) & (column[None, :] < width)
            at = j[:, None].to(tl.int64) * width + column[None, :]
            tile = tl.load(matrix + at, mask=inside, other=0.0)
            total = tl.dot(w, tile, total, input_precision="ieee")
        return total


@triton.jit(do_not_specialize=["starts"])
def scalars(
    key, query, value, values, sets, out, starts, count, n, r, e, SCAN: tl.constexpr,
):  # fmt: skip
    """⟨query, key⟩, ‖value‖² and ⟨value, y_i⟩ of every candidate, (B, C, 3)."""
    c, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    here = b * count + c
    i = tl.load(sets + c // starts)
    qk = tl.zeros((SCAN,), tl.float32)
    for first in range(0, r, SCAN):
        k = first + tl.arange(0, SCAN)
        x = tl.load(query + here * r + k, mask=k < r, other=0.0)
        qk += x * tl.load(key + here * r + k, mask=k < r, other=0.0)
    ww = tl.zeros((SCAN,), tl.float32)
    wy = tl.zeros((SCAN,), tl.float32)
    for first in range(0, e, SCAN):
        k = first + tl.arange(0, SCAN)
        w = tl.load(value + here * e + k, mask=k < e, other=0.0)
        ww += w * w
        wy += w * tl.load(values + (b * n + i) * e + k, mask=k < e, other=0.0)
    tl.store(out + here * 3, tl.sum(qk, 0))
    tl.store(out + here * 3 + 1, tl.sum(ww, 0))
    tl.store(out + here * 3 + 2, tl.sum(wy, 0))


@triton.jit(do_not_specialize=["starts"])
def row_step(
    queries, output, keys, key, value, query,  # the last three (B, width, C)
    a_in, phi_in, s_in,  # finished products (B, C, n), where not FUSED
    others, share, rr, ro, oo, sets, scalar, extra,
    da_out, b_out, s_out, kept_out, partial,
    sharpness, starts, count, n, r, e,
    SOFTMAX: tl.constexpr, HEAVY: tl.constexpr, FUSED: tl.constexpr,
    ROWS: tl.constexpr, CANDIDATES: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Rows j ≠ i: F and the coefficients of its gradient (see ``kernels.attention``).

    others, share, rr, ro, oo (B, P, n).  Out: da, b, s (B, C, n); partial (B, C, blocks, 3) with
    sums over a block's rows of F, of 2p(1−p)c and of p²; for heavy pairs, 2p(1−p) in ``kept``.
    """
    block, b = tl.program_id(0), tl.program_id(2).to(tl.int64)
    row = block * ROWS + tl.arange(0, ROWS)
    candidate = tl.program_id(1) * CANDIDATES + tl.arange(0, CANDIDATES)
    inside = (row[:, None] < n) & (candidate[None, :] < count)
    flat = (b * count + candidate[None, :]) * n + row[:, None]
    if FUSED:
        a = _along_rows(queries + b * n * r, key + b * r * count, row, candidate, n, count, r,
                        ROWS, CANDIDATES, DEPTH)  # fmt: skip
        phi_w = _along_rows(output + b * n * e, value + b * e * count, row, candidate, n, count, e,
                            ROWS, CANDIDATES, DEPTH)  # fmt: skip
        s = _along_rows(keys + b * n * r, query + b * r * count, row, candidate, n, count, r,
                        ROWS, CANDIDATES, DEPTH)  # fmt: skip
    else:
        a = tl.load(a_in + flat, mask=inside, other=0.0)
        phi_w = tl.load(phi_in + flat, mask=inside, other=0.0)
        s = tl.load(s_in + flat, mask=inside, other=0.0)

    position = candidate // starts
    places = tl.cdiv(count, starts)
    known = candidate < count
    i = tl.load(sets + position, mask=known, other=0)
    at = (b * places + position[None, :]) * n + row[:, None]
    rest = tl.load(others + at, mask=inside, other=0.0) * sharpness
    c = tl.load(share + at, mask=inside, other=0.0)
    r_r = tl.load(rr + at, mask=inside, other=0.0)
    r_o = tl.load(ro + at, mask=inside, other=0.0)
    o_o = tl.load(oo + at, mask=inside, other=0.0)
    own = (b * count + candidate) * 3
    q_key = tl.load(scalar + own, mask=known, other=0.0)[None, :]
    w_w = tl.load(scalar + own + 1, mask=known, other=0.0)[None, :]
    w_y = tl.load(scalar + own + 2, mask=known, other=0.0)[None, :]

    changed = row[:, None] == i[None, :]
    counts = inside & (row[:, None] != i[None, :])
    score = a * sharpness
    if SOFTMAX:
        gap = score - rest
        small = tl.exp(-tl.abs(gap))  # neither p nor 1 − p comes from a difference
        p = tl.where(gap >= 0, 1.0, small) / (1 + small)
        slope = small / ((1 + small) * (1 + small))
    else:
        positive = tl.maximum(score, 0.0)
        total = rest + positive
        total = tl.where(total == 0, 1.0, total)
        p = positive / total
        slope = tl.where(score > 0, (1 - p) / total, 0.0)
    p = tl.where(counts, p, 0.0)

    r_w = c * (phi_w - w_y)
    if HEAVY:
        r_w += tl.load(extra + flat, mask=inside, other=0.0)
    lean = r_w - r_o
    along = lean + p * (w_w - 2 * (phi_w + r_w) + o_o)
    kept = 2 * p * (1 - p)
    rows = tl.where(counts, r_r + p * (lean + along), 0.0)

    tl.store(da_out + flat, tl.where(counts, 2 * sharpness * along * slope, 0.0), mask=inside)
    tl.store(b_out + flat, tl.where(counts, kept * c - 2 * p * p, 0.0), mask=inside)
    tl.store(s_out + flat, tl.where(changed, q_key, s), mask=inside)
    if HEAVY:
        tl.store(kept_out + flat, kept, mask=inside)
    sums = ((b * count + candidate) * tl.num_programs(0) + block) * 3
    tl.store(partial + sums, tl.sum(rows, 0), mask=known)
    tl.store(partial + sums + 1, tl.sum(tl.where(counts, kept * c, 0.0), 0), mask=known)
    tl.store(partial + sums + 2, tl.sum(p * p, 0), mask=known)


@triton.jit(do_not_specialize=["starts"])
def own_weights(
    s, q, own, sets, starts, count, n, SOFTMAX: tl.constexpr, SCAN: tl.constexpr
):  # fmt: skip
    """The changed row's weights from its scores (B, C, n).

    Out: q, zero at the changed key; own (B, C, 3) = q_i, s_i and the normaliser (log Z, or Z).
    """
    c, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    here = b * count + c
    i = tl.load(sets + c // starts)
    s_i = tl.load(s + here * n + i)
    if SOFTMAX:
        top = tl.full((SCAN,), float("-inf"), tl.float32)
        for first in range(0, n, SCAN):
            k = first + tl.arange(0, SCAN)
            top = tl.maximum(top, tl.load(s + here * n + k, mask=k < n, other=float("-inf")))
        highest = tl.max(top, 0)
        mass = tl.zeros((SCAN,), tl.float32)
        for first in range(0, n, SCAN):
            k = first + tl.arange(0, SCAN)
            mass += tl.exp(tl.load(s + here * n + k, mask=k < n, other=float("-inf")) - highest)
        total = highest + tl.log(tl.sum(mass, 0))
        q_i = tl.exp(s_i - total)
    else:
        mass = tl.zeros((SCAN,), tl.float32)
        for first in range(0, n, SCAN):
            k = first + tl.arange(0, SCAN)
            mass += tl.maximum(tl.load(s + here * n + k, mask=k < n, other=0.0), 0.0)
        total = tl.sum(mass, 0)
        total = tl.where(total == 0, 1.0, total)
        q_i = tl.maximum(s_i, 0.0) / total
    for first in range(0, n, SCAN):
        k = first + tl.arange(0, SCAN)
        x = tl.load(s + here * n + k, mask=k < n, other=0.0)
        weight = tl.exp(x - total) if SOFTMAX else tl.maximum(x, 0.0) / total
        tl.store(q + here * n + k, tl.where(k == i, 0.0, weight), mask=k < n)
    tl.store(own + here * 3, q_i)
    tl.store(own + here * 3 + 1, s_i)
    tl.store(own + here * 3 + 2, total)


@triton.jit(do_not_specialize=["starts"])
def column_step(
    queries, output, values, da, b_in, q,
    k_in, v_in, o_in,  # finished products (B, C, width), where not FUSED
    value, own, sums, sets,
    dkey, dvalue, dout, gap,
    starts, count, n, r, e,
    FUSED: tl.constexpr,
    CANDIDATES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Gradients in key(v) and value(v) so far, and the changed row's output.

    sums (B, C, 3) is ``row_step``'s partial, added up.  Out: dkey (B, C, r), dvalue (B, C, e);
    dout = 2(out_i − φ_i) as (B, e, C); gap (B, C, blocks), the blocks' shares of ‖out_i − φ_i‖².
    """
    block, b = tl.program_id(0), tl.program_id(2).to(tl.int64)
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    candidate = tl.program_id(1) * CANDIDATES + tl.arange(0, CANDIDATES)
    known = candidate < count
    row = (b * count + candidate[:, None]).to(tl.int64)
    in_r = known[:, None] & (column[None, :] < r)
    in_e = known[:, None] & (column[None, :] < e)
    if FUSED:
        from_a = _along_columns(queries + b * n * r, da + b * count * n, candidate, column, n,
                                count, r, CANDIDATES, COLUMNS, DEPTH)  # fmt: skip
        from_phi = _along_columns(output + b * n * e, b_in + b * count * n, candidate, column, n,
                                  count, e, CANDIDATES, COLUMNS, DEPTH)  # fmt: skip
        out = _along_columns(values + b * n * e, q + b * count * n, candidate, column, n,
                             count, e, CANDIDATES, COLUMNS, DEPTH)  # fmt: skip
    else:
        from_a = tl.load(k_in + row * r + column[None, :], mask=in_r, other=0.0)
        from_phi = tl.load(v_in + row * e + column[None, :], mask=in_e, other=0.0)
        out = tl.load(o_in + row * e + column[None, :], mask=in_e, other=0.0)

    i = tl.load(sets + candidate // starts, mask=known, other=0)
    at = (b * n + i[:, None]) * e + column[None, :]
    w = tl.load(value + row * e + column[None, :], mask=in_e, other=0.0)
    y_i = tl.load(values + at, mask=in_e, other=0.0)
    phi_i = tl.load(output + at, mask=in_e, other=0.0)
    q_i = tl.load(own + row * 3, mask=known[:, None], other=0.0)
    kept = tl.load(sums + row * 3 + 1, mask=known[:, None], other=0.0)
    square = tl.load(sums + row * 3 + 2, mask=known[:, None], other=0.0)

    e_i = out + q_i * w - phi_i
    from_value = from_phi - kept * y_i + 2 * square * w + 2 * q_i * e_i
    tl.store(dkey + row * r + column[None, :], from_a, mask=in_r)
    tl.store(dvalue + row * e + column[None, :], from_value, mask=in_e)
    flipped = (b * e + column[None, :]) * count + candidate[:, None]
    tl.store(dout + flipped, 2 * e_i, mask=in_e)
    part = (b * count + candidate) * tl.num_programs(0) + block
    tl.store(gap + part, tl.sum(tl.where(in_e, e_i * e_i, 0.0), 1), mask=known)


@triton.jit
def own_slope(
    values, dout, dq, count, n, e,
    ROWS: tl.constexpr, CANDIDATES: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """dq_k = ⟨y_k, dout⟩, (B, C, n), from dout (B, e, C)."""
    b = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    candidate = tl.program_id(1) * CANDIDATES + tl.arange(0, CANDIDATES)
    found = _along_rows(values + b * n * e, dout + b * e * count, row, candidate, n, count, e,
                        ROWS, CANDIDATES, DEPTH)  # fmt: skip
    flat = (b * count + candidate[None, :]) * n + row[:, None]
    tl.store(dq + flat, found, mask=(row[:, None] < n) & (candidate[None, :] < count))


@triton.jit(do_not_specialize=["starts"])
def own_pull(
    q, dq, s, value, dout, own, ds, ds_own, sets, starts, count, n, e,
    SOFTMAX: tl.constexpr, SCAN: tl.constexpr,
):  # fmt: skip
    """ds from dq through the changed row's weights; ds zero at the changed key, ds_own (B, C)."""
    c, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    here = b * count + c
    i = tl.load(sets + c // starts)
    q_i = tl.load(own + here * 3)
    s_i = tl.load(own + here * 3 + 1)
    total = tl.load(own + here * 3 + 2)
    along = tl.zeros((SCAN,), tl.float32)
    for first in range(0, e, SCAN):
        k = first + tl.arange(0, SCAN)
        w = tl.load(value + here * e + k, mask=k < e, other=0.0)
        along += w * tl.load(dout + (b * e + k) * count + c, mask=k < e, other=0.0)
    dq_i = tl.sum(along, 0)
    mixed = tl.zeros((SCAN,), tl.float32)
    for first in range(0, n, SCAN):
        k = first + tl.arange(0, SCAN)
        x = tl.load(q + here * n + k, mask=k < n, other=0.0)  # zero at the changed key
        mixed += x * tl.load(dq + here * n + k, mask=k < n, other=0.0)
    mean = tl.sum(mixed, 0) + q_i * dq_i
    for first in range(0, n, SCAN):
        k = first + tl.arange(0, SCAN)
        slope = tl.load(dq + here * n + k, mask=k < n, other=0.0) - mean
        if SOFTMAX:
            slope *= tl.load(q + here * n + k, mask=k < n, other=0.0)
        else:
            active = tl.load(s + here * n + k, mask=k < n, other=0.0) > 0
            slope = tl.where(active, slope / total, 0.0)
        tl.store(ds + here * n + k, tl.where(k == i, 0.0, slope), mask=k < n)
    if SOFTMAX:
        tl.store(ds_own + here, q_i * (dq_i - mean))
    else:
        tl.store(ds_own + here, tl.where(s_i > 0, (dq_i - mean) / total, 0.0))


@triton.jit
def own_query(
    keys, ds, ds_own, key, query, k_in, dkey, dquery, count, n, r,
    FUSED: tl.constexpr,
    CANDIDATES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """dquery = Σ_k ds_k keys_k + ds_i key, (B, C, r), and dkey += ds_i query."""
    b = tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    candidate = tl.program_id(1) * CANDIDATES + tl.arange(0, CANDIDATES)
    row = (b * count + candidate[:, None]).to(tl.int64)
    at = row * r + column[None, :]
    inside = (candidate[:, None] < count) & (column[None, :] < r)
    if FUSED:
        found = _along_columns(keys + b * n * r, ds + b * count * n, candidate, column, n,
                               count, r, CANDIDATES, COLUMNS, DEPTH)  # fmt: skip
    else:
        found = tl.load(k_in + at, mask=inside, other=0.0)
    ds_i = tl.load(ds_own + row, mask=candidate[:, None] < count, other=0.0)
    found += ds_i * tl.load(key + at, mask=inside, other=0.0)
    tl.store(dquery + at, found, mask=inside)
    sofar = tl.load(dkey + at, mask=inside, other=0.0)
    sofar += ds_i * tl.load(query + at, mask=inside, other=0.0)
    tl.store(dkey + at, sofar, mask=inside)
