"""Transformer recognisers of bit strings (§2.2, §2.3), many models of one shape as one batch.

Two facts make the pass cheap.  The first layer sees vectors that are affine in the bits,
y_n = e(0) + p(n) + x_n (e(1) − e(0)), so that its scores and averages need no projection of any
string.  In the last layer only the eos row is read, so that keys and values of the other rows are
never made: with q its query, scores are ⟨Kᵀq, y_m⟩, and V acts after averaging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch.nn import functional

from wordsens.boolean.shape import Shape
from wordsens.boolean.weights import draw_weights
from wordsens.errors import UserError
from wordsens.randomness import Stream

CACHE_BYTES = 1 << 20  # hidden units of the MLP computed at once, to stay in the processor's cache


class Recogniser:
    """M transformer recognisers (14) of one shape, accepting with a margin ξ ≥ 0 (15).

    ``weights`` holds the tensors of ``Shape.sizes`` and ``symbols`` (3, D), each with a leading
    axis of M models.
    """

    def __init__(
        self, shape: Shape, weights: Mapping[str, torch.Tensor], margin: float = 0.0
    ) -> None:
        expected = shape.sizes() | {"symbols": (3, shape.width)}
        for name, size in expected.items():
            if name not in weights:
                raise UserError(f"weights: {name} is missing; a recogniser needs {[*expected]}")
            if weights[name].shape[1:] != size:
                raise UserError(
                    f"weights: {name} is {tuple(weights[name].shape)} and must be (models, "
                    f"{', '.join(map(str, size))})"
                )
        if not margin >= 0:
            raise UserError(f"margin = {margin} must be a number of at least 0")
        self.shape, self.margin = shape, float(margin)
        self.weights = dict(weights)
        self._tables: dict[int, FirstLayer] = {}

    @classmethod
    def draw(
        cls,
        shape: Shape,
        initialisation: str,
        streams: Sequence[Stream],
        *,
        margin: float = 0.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Recogniser:
        """One random model per stream (``draw_weights``)."""
        drawn = cls(shape, draw_weights(shape, initialisation, streams), margin)
        return drawn.to(dtype, device)

    @property
    def models(self) -> int:
        return len(self.weights["omega"])

    @property
    def learning(self) -> bool:
        """Whether gradients are wanted, so that nothing may be kept or overwritten."""
        return torch.is_grad_enabled() and any(w.requires_grad for w in self.weights.values())

    @property
    def dtype(self) -> torch.dtype:
        return self.weights["omega"].dtype

    @property
    def device(self) -> torch.device:
        return self.weights["omega"].device

    def to(self, dtype: torch.dtype, device: torch.device | str | None = None) -> Recogniser:
        moved = {k: v.to(dtype=dtype, device=device) for k, v in self.weights.items()}
        return Recogniser(self.shape, moved, self.margin)

    def take(self, models: torch.Tensor | Sequence[int]) -> Recogniser:
        """The models of these indices."""
        index = torch.as_tensor(models, device=self.device)
        return Recogniser(self.shape, {k: v[index] for k, v in self.weights.items()}, self.margin)

    def logits(self, bits: torch.Tensor) -> torch.Tensor:
        """T(x) of (14), (M, B), for bits (B, N) of all models or (M, B, N) of each."""
        x = self.as_input(bits)
        if self.shape.depth == 1:
            return self.read(self.eos_layer(0, self.embed(x)))
        y = self.first_layer(x)
        for layer in range(1, self.shape.depth - 1):
            y = self.layer(layer, y)
        return self.read(self.eos_layer(self.shape.depth - 1, y))

    def decide(self, logits: torch.Tensor) -> torch.Tensor:
        """Acceptance (15) as int8: 1, 0, or −1 inside the margin (and where T is no number)."""
        accepted = torch.full_like(logits, -1, dtype=torch.int8)
        accepted[logits <= -self.margin] = 0
        accepted[logits >= self.margin] = 1
        return accepted

    def as_input(self, bits: torch.Tensor) -> torch.Tensor:
        """Bits as numbers, with a 0 in the place of eos: (M or 1, B, N + 1)."""
        x = bits.to(dtype=self.dtype, device=self.device)
        return functional.pad(x if x.ndim == 3 else x[None], (0, 1))

    def tables(self, length: int) -> FirstLayer:
        """What the first layer needs of strings of this length; kept where nothing is trained."""
        if self.learning:
            return FirstLayer(self, length)
        if length not in self._tables:
            self._tables[length] = FirstLayer(self, length)
        return self._tables[length]

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        """y⁰ (7) of padded bits (M or 1, B, n): (M, B, n, D)."""
        tables = self.tables(x.shape[-1] - 1)
        return tables.base[:, None] + x[..., None] * tables.step[:, None, None]

    def first_layer(self, x: torch.Tensor) -> torch.Tensor:
        """y¹ of padded bits: (M, B, n, D)."""
        tables = self.tables(x.shape[-1] - 1)
        mixed = tables.average(softmax(tables.scores(x)), x[:, None])
        return self.finish(0, self.embed(x), self.merge(mixed.movedim(1, 3)))

    def layer(self, layer: int, y: torch.Tensor) -> torch.Tensor:
        """y of the next layer, all rows: (M, B, n, D) to (M, B, n, D)."""
        M, B, n, D = y.shape
        H, A = self.shape.heads, self.shape.head_size
        names = ("query", "key", "value")
        maps = torch.cat([self.weights[k][:, layer].reshape(M, H * A, D) for k in names], 1)
        flat = torch.bmm(y.reshape(M, B * n, D), maps.mT).view(M * B, n, 3, H, A)
        q, k, v = flat.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, scale=self.shape.scale)
        return self.finish(layer, y, self.merge(mixed.transpose(1, 2).view(M, B, n, H, A)))

    def eos_layer(self, layer: int, y: torch.Tensor) -> torch.Tensor:
        """The eos row of the next layer: (M, B, n, D) to (M, B, D)."""
        M, B, n, D = y.shape
        Q, K, V = (self.weights[name][:, layer] for name in ("query", "key", "value"))
        H = self.shape.heads
        last = y[:, :, -1]
        q = torch.bmm(last, Q.reshape(M, -1, D).mT).view(M, B, H, -1)
        u = torch.matmul(q.transpose(1, 2), K) * self.shape.scale  # (M, H, B, D), Kᵀq
        rows = y.reshape(M * B, n, D)
        scores = torch.bmm(u.transpose(1, 2).reshape(M * B, H, D), rows.mT)
        average = torch.bmm(softmax(scores), rows).view(M, B, H, D)
        mixed = torch.matmul(average.transpose(1, 2), V.mT)  # (M, H, B, A)
        return self.finish(layer, last, self.merge(mixed.movedim(1, 2)))

    def merge(self, heads: torch.Tensor) -> torch.Tensor:
        """Σ_h c^h of (9) from the heads' averages (…, H, A): (…, D)."""
        if self.shape.split:  # a head writes to its own coordinates
            return heads.reshape(*heads.shape[:-2], self.shape.width)
        return heads.sum(-2)

    def finish(self, layer: int, y: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """(9) to (13): y + ν(mixed), normalised, for tensors (M, …, D)."""
        M, D = y.shape[0], self.shape.width
        rows = y.reshape(M, -1, D), mixed.reshape(M, -1, D)
        if self.learning or y.is_cuda:
            return self._normalised(self.residual(layer, *rows)).view(y.shape)
        out = torch.empty_like(rows[0])
        size = max(1, CACHE_BYTES // (M * self.shape.feedforward * y.element_size()))
        parts = (tensor.split(size, 1) for tensor in (out, *rows))
        for into, *part in zip(*parts, strict=True):
            into.copy_(self._normalised(self.residual(layer, *part)))
        return out.view(y.shape)

    def _normalised(self, d: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(d, (self.shape.width,), eps=self.shape.epsilon)

    def residual(self, layer: int, y: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """d of (9): y + ν(mixed), with the MLP ν of (10), for rows (M, R, D)."""
        W1, W2 = self.weights["W1"][:, layer], self.weights["W2"][:, layer]
        b1, b2 = self.weights["b1"][:, layer, None], self.weights["b2"][:, layer, None]
        hidden = torch.baddbmm(b1, mixed, W1.mT).relu_()
        return torch.baddbmm(b2, hidden, W2.mT) + y

    def read(self, eos: torch.Tensor) -> torch.Tensor:
        """The read-out (14) of eos rows (M, B, D): (M, B)."""
        return (eos @ self.weights["w"][..., None])[..., 0] + self.weights["omega"][:, None]


class FirstLayer:
    """The first layer's attention for strings of N bits: n = N + 1 positions, affine in the bits.

    S_nm = A_nm + x_n r_m + x_m c_n + x_n x_m d, with A, r, c, d the products of queries and keys of
    e(0) + p(n) and of the step e(1) − e(0).
    """

    def __init__(self, of: Recogniser, length: int) -> None:
        symbols = of.weights["symbols"]
        self.step = symbols[:, 1] - symbols[:, 0]  # (M, D)
        at = torch.cat([symbols[:, :1].expand(-1, length, -1), symbols[:, 2:]], 1)
        self.base = at + positions(length + 1, of.shape.width).to(symbols)  # (M, n, D)
        Q, K, V = (of.weights[name][:, 0] for name in ("query", "key", "value"))
        q, k, self.v = (self.base[:, None] @ W.mT for W in (Q, K, V))  # (M, H, n, A)
        dq, dk, self.dv = ((W @ self.step[:, None, :, None])[..., 0] for W in (Q, K, V))
        scale = of.shape.scale
        self.A = scale * q @ k.mT
        self.r = scale * (k @ dq[..., None])[..., 0]  # (M, H, n)
        self.c = scale * (q @ dk[..., None])[..., 0]
        self.d = scale * (dq * dk).sum(-1)[..., None, None]  # (M, H, 1, 1)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Attention scores (8a) of padded bits (M or 1, B, n): (M, H, B, n, n)."""
        across = x[:, None, :, None, :]  # the key's bit
        by_key = torch.addcmul(self.A[:, :, None], self.c[:, :, None, :, None], across)
        by_query = torch.addcmul(self.r[:, :, None, None], self.d[..., None], across)
        return torch.addcmul(by_key, x[:, None, :, :, None], by_query)

    def average(self, P: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Σ_m P_nm V y_m, rows P (M, H, …, r, n) over keys of bits x (M or 1, 1, …, n).

        Returns (M, H, …, r, A).
        """
        M, H, n = *P.shape[:2], P.shape[-1]
        fixed = (P.reshape(M, H, -1, n) @ self.v).view(*P.shape[:-1], -1)
        step = self.dv.view(M, H, *[1] * (P.ndim - 3), -1)
        return torch.addcmul(fixed, P @ x[..., None], step)


def softmax(scores: torch.Tensor) -> torch.Tensor:
    """Over the last axis; Torch's own is five times slower where rows are short."""
    if scores.shape[-1] >= 16 or scores.requires_grad:
        return scores.softmax(-1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp_()
    return weights.div_(weights.sum(-1, keepdim=True))


def positions(count: int, width: int) -> torch.Tensor:
    """Sinusoidal positions p(1) … p(count) (Vaswani et al., 2017): (count, width), float64."""
    n = torch.arange(1, count + 1, dtype=torch.float64)[:, None]
    rate = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    waves = torch.stack([(n * rate).sin(), (n * rate).cos()], -1)
    return waves.reshape(count, -1)[:, :width]


def plain_logits(
    of: Recogniser,
    bits: torch.Tensor,
    seen: Callable[[int, torch.Tensor], None] | None = None,
) -> torch.Tensor:
    """T(x) by the definitions (7) to (14), every row of every layer: (M, B).

    ``seen`` is called with each layer's number and its d (9), (M, B, n, D).  What the fast passes
    are tested and measured against, and what the blow-up (17) is read from.
    """
    return of.read(plain_rows(of, bits, seen)[:, :, -1])


def plain_rows(
    of: Recogniser,
    bits: torch.Tensor,
    seen: Callable[[int, torch.Tensor], None] | None = None,
) -> torch.Tensor:
    """y of the last layer, all rows, by the definitions (7) to (13): (M, B, n, D)."""
    shape, weights = of.shape, of.weights
    bits = (bits if bits.ndim == 3 else bits[None]).to(of.device)
    bits = bits.expand(of.models, -1, -1)
    M, B, N = bits.shape
    symbols = functional.pad(bits.long(), (0, 1), value=2)
    model = torch.arange(M, device=of.device)[:, None, None]
    y = weights["symbols"][model, symbols] + positions(N + 1, shape.width).to(weights["symbols"])
    for layer in range(shape.depth):
        flat = y.reshape(M, 1, B * (N + 1), shape.width)
        q, k, v = (
            (flat @ weights[name][:, layer].mT).view(M, shape.heads, B, N + 1, -1)
            for name in ("query", "key", "value")
        )
        weight = (shape.scale * q @ k.mT).softmax(-1)
        mixed = of.merge((weight @ v).movedim(1, 3))
        d = of.residual(layer, y.flatten(1, 2), mixed.flatten(1, 2)).view(y.shape)
        if seen is not None:
            seen(layer, d)
        mean, variance = d.mean(-1, keepdim=True), d.var(-1, correction=0, keepdim=True)
        y = (d - mean) / (variance + shape.epsilon).sqrt()
    return y
