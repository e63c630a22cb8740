"""All single-bit flips of strings at once.

Flipping bit i changes one token.  In the first layer every row n ≠ i then exchanges one key: with
p the new key's weight against the others, the row's average is o + p (v' − o), o the average over
the *other* keys.  That o is (c − s v)/(1 − s) where the old weight s is at most 1/2; the one key
of a row that may weigh more is taken out before averaging, never by subtraction.  Row i has a new
query and is computed afresh.  Layers between see all rows; the last one reads the eos row alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from wordsens.boolean.recogniser import Recogniser, softmax

CHUNK_BYTES = 1 << 26  # of activations held at once


def neighbours(bits: torch.Tensor) -> torch.Tensor:
    """The strings with bit 1 … N flipped: (…, N) to (…, N, N)."""
    N = bits.shape[-1]
    return bits[..., None, :] ^ torch.eye(N, dtype=bits.dtype, device=bits.device)


@torch.no_grad()
def flip_logits(of: Recogniser, bits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """T of (14) on strings and on all their flips: (M, B) and (M, B, N).

    ``bits`` are whole numbers 0 and 1, (B, N) for all models or (M, B, N) for each.
    """
    plain, flipped = [], []
    for part in chunks(of, bits):
        plain.append(of.logits(part))
        flipped.append(of.read(_eos_rows(of, part)))
    return torch.cat(plain, 1), torch.cat(flipped, 1).view(of.models, -1, bits.shape[-1])


def chunks(of: Recogniser, bits: torch.Tensor) -> Iterator[torch.Tensor]:
    """Pieces of the batch whose flips fit into memory together."""
    N = bits.shape[-1]
    row = 6 * of.shape.width + 2 * of.shape.feedforward + 3 * of.shape.heads * (N + 1)
    held = of.models * N * (N + 1) * row * of.weights["omega"].element_size()
    yield from bits.split(max(1, CHUNK_BYTES // held), -2)


def _eos_rows(of: Recogniser, bits: torch.Tensor) -> torch.Tensor:
    """y_{N+1} of the last layer for all flips: (M, B · N, D)."""
    depth = of.shape.depth
    if depth == 1:
        flat = neighbours(bits).flatten(-3, -2)
        return of.eos_layer(0, of.embed(of.as_input(flat)))
    y = first_layer(of, of.as_input(bits))
    for layer in range(1, depth - 1):
        y = of.layer(layer, y)
    return of.eos_layer(depth - 1, y)


def first_layer(of: Recogniser, x: torch.Tensor) -> torch.Tensor:
    """y¹ of all flips of padded bits (M or 1, B, n): (M, B · N, n, D), N = n − 1."""
    tables = of.tables(x.shape[-1] - 1)
    x = x.expand(of.models, -1, -1)
    M, B, n = x.shape
    N = n - 1
    turn = 1 - 2 * x[..., :N]  # (M, B, N), how much bit i changes
    mixed = _exchange(of, x, turn)  # (M, B, N, n, H, A)
    own = _own_rows(of, x, turn)  # (M, H, B, N, A)
    i = torch.arange(N, device=x.device)
    mixed[:, :, i, i] = own.movedim(1, 3)
    y = of.embed(x)[:, :, None].repeat(1, 1, N, 1, 1)
    y[:, :, i, i] += turn[..., None] * tables.step[:, None, None]
    flat = (M, B * N, n, of.shape.width)
    return of.finish(0, y.view(flat), of.merge(mixed).view(flat))


def _exchange(of: Recogniser, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Rows n ≠ i of the first layer's averages when key i is exchanged: (M, B, N, n, H, A)."""
    tables = of.tables(x.shape[-1] - 1)
    N = turn.shape[-1]
    S = tables.scores(x)  # (M, H, B, n, n)
    heaviest = S.argmax(-1, keepdim=True)
    without = S.scatter(-1, heaviest, -torch.inf)
    s = softmax(S)[..., :N]
    average = tables.average(softmax(S), x[:, None])  # (M, H, B, n, A)
    average_without = tables.average(softmax(without), x[:, None])

    top = heaviest == torch.arange(N, device=x.device)
    s = s.masked_fill(top, 0)
    others = S.logsumexp(-1, keepdim=True) + torch.log1p(-s)
    others = torch.where(top, without.logsumexp(-1, keepdim=True), others)
    change = torch.addcmul(tables.c[:, :, None], tables.d, x[:, None])  # of a score, per turn
    p = (S[..., :N] + turn[:, None, :, None] * change[..., None] - others).sigmoid()

    # The new average is α c + (p − α s) v + p turn dv, and c without the heaviest key if i is it.
    alpha = (1 - p) / (1 - s)
    old = torch.addcmul(
        tables.v[:, :, None, :N], tables.dv[:, :, None, None], x[:, None, :, :N, None]
    )

    def by_flip(values: torch.Tensor) -> torch.Tensor:  # (M, H, B, n, N) to (M, B, N, n, H, 1)
        return values.permute(0, 2, 4, 3, 1)[..., None].contiguous()

    mixed = by_flip(alpha) * average.permute(0, 2, 3, 1, 4)[:, :, None]
    mixed.addcmul_(by_flip(p - alpha * s), old.permute(0, 2, 3, 1, 4)[:, :, :, None])
    mixed.addcmul_(by_flip(p) * turn[..., None, None, None], tables.dv[:, None, None, None])
    m, h, b, n, i = top.nonzero(as_tuple=True)
    mixed[m, b, i, n, h] += alpha[m, h, b, n, i, None] * (average_without - average)[m, h, b, n]
    return mixed


def _own_rows(of: Recogniser, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Row i of the first layer's averages when bit i is flipped: (M, H, B, N, A)."""
    tables = of.tables(x.shape[-1] - 1)
    N = turn.shape[-1]
    keys = x[:, :, None].repeat(1, 1, N, 1)  # (M, B, N, n), the flipped strings
    i = torch.arange(N, device=x.device)
    keys[:, :, i, i] += turn
    bit = (x[..., :N] + turn)[:, None, :, :, None]  # the query's own
    across = keys[:, None]
    scores = tables.A[:, :, None, :N] + tables.c[:, :, None, :N, None] * across
    by_query = torch.addcmul(tables.r[:, :, None, None], tables.d[..., None], across)
    P = softmax(torch.addcmul(scores, bit, by_query))
    return tables.average(P[..., None, :], keys[:, None])[..., 0, :]
