"""``kernels.vocabulary.changed_rows`` in Triton: term by term, nothing of size n × P × V stored.

A card has multiplications to spare for the n P V terms, which the expansion into matrix products
trades for several times as many.  A program owns a tile of (positions, words) and walks down the
rows j, so that what it reads, a few vectors per row, comes from the caches.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

POSITIONS, WORDS = 32, 128  # a program's tile

_empty = torch.empty


@triton.jit
def rows_changed(
    p, far, dot, dot_own, s, lean, away, keep, out, n, count, vocabulary,
    POSITIONS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    place = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    known, there = word < vocabulary, place < count
    at = place[:, None].to(tl.int64) * vocabulary + word[None, :]
    inside = there[:, None] & known[None, :]
    own = tl.load(dot_own + at, mask=inside, other=0.0)
    total = tl.zeros((POSITIONS, WORDS), tl.float32)
    # one pointer per operand, moved on row by row: no offset outgrows 32 bits
    p += word
    far += word
    dot += word
    s += place
    lean += place
    away += place
    keep += place
    for _ in range(n):
        joining = tl.load(p, mask=known, other=0.0)
        wide = tl.load(far, mask=known, other=0.0)
        along = tl.load(dot, mask=known, other=0.0)
        counts = tl.load(keep, mask=there, other=0.0)
        leaving = (tl.load(s, mask=there, other=0.0) * counts)[:, None]
        leaned = tl.load(lean, mask=there, other=0.0)[:, None]
        gone = tl.load(away, mask=there, other=0.0)[:, None]
        rest = 1 - joining
        crossed, square = (2 * joining * rest)[None, :], (rest * rest)[None, :]
        change = (joining * joining * wide)[None, :] + leaving * (
            crossed * (along[None, :] - leaned - own) + (leaving * gone) * square
        )
        shrunk = 1 - rest[None, :] * leaving
        total += counts[:, None] * change / (shrunk * shrunk)
        p += vocabulary
        far += vocabulary
        dot += vocabulary
        s += count
        lean += count
        away += count
        keep += count
    tl.store(out + at, total, mask=inside)


def changed_rows(
    p: torch.Tensor,
    far: torch.Tensor,
    dot: torch.Tensor,
    dot_own: torch.Tensor,
    s: torch.Tensor,
    lean: torch.Tensor,
    away: torch.Tensor,
    keep: torch.Tensor,
) -> torch.Tensor:
    """As ``kernels.vocabulary.changed_rows``, float32."""
    (n, words), places = p.shape, s.shape[1]
    operands = [x.contiguous() for x in (p, far, dot, dot_own, s, lean, away, keep)]
    out = _empty((places, words), dtype=p.dtype, device=p.device)
    grid = (-(-words // WORDS), -(-places // POSITIONS))
    with torch.cuda.device_of(p):  # Triton launches on the current device
        rows_changed[grid](
            *operands, out, n, places, words, POSITIONS=POSITIONS, WORDS=WORDS, num_warps=4
        )
    return out
