"""Attention with independent random queries, keys and values, equation (2) and Remark 5.2."""

from __future__ import annotations

from collections.abc import Sequence

from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.maps.attention.layer import AttentionMap, tempered
from wordsens.maps.attention.normalization import Softmax
from wordsens.maps.attention.state import Projection
from wordsens.maps.declaration import DEFAULTS, MapOptions
from wordsens.randomness import Stream


class QueryKeyValueFeatures(AttentionMap):
    """Heads softmax(X W_Qᵀ W_K Xᵀ / (τ √d')) X W_Vᵀ (2), side by side.

    ``WQ``, ``WK``, ``WV`` are (d', d), (H, d', d) for H heads, or (T, H, d', d) for T draws;
    drawn with entries N(0, 1/d), so that scores have unit variance up to √(d'/d).
    """

    name = "qkv"
    title = "Queries, keys and values (QKV)"
    short = "QKV"
    options = ("heads", "head_dim", "temperature")
    weight_names = ("WQ", "WK", "WV")
    normalization = Softmax()

    def __init__(self, WQ: torch.Tensor, WK: torch.Tensor, WV: torch.Tensor) -> None:
        alike = WQ.shape == WK.shape and WQ.shape[:-2] == WV.shape[:-2]
        if not (alike and 2 <= WQ.ndim <= 4 and WV.shape[-1:] == WQ.shape[-1:] and WQ.numel()):
            raise UserError(
                f"WQ, WK, WV have shapes {tuple(WQ.shape)}, {tuple(WK.shape)}, {tuple(WV.shape)};"
                " qkv takes (d', d), (heads, d', d) or (draws, heads, d', d) alike for all three"
            )
        self.batch = WQ.shape[0] if WQ.ndim == 4 else None
        self.dtype, self.device = WQ.dtype, WQ.device
        WQ, WK, WV = (W.reshape(self.batch or 1, -1, *W.shape[-2:]).to(WQ) for W in (WQ, WK, WV))
        self.query = Projection(WQ / WQ.shape[-2] ** 0.5)
        self.key, self.value = Projection(WK), Projection(WV)

    @classmethod
    def feature_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return n * options.heads * (options.head_dim or d)

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> QueryKeyValueFeatures:
        d = shape[1]
        size = (options.heads, options.head_dim or d, d)
        drawn = [
            torch.stack([s.child(name).normal(*size, dtype=dtype) for s in streams])
            for name in ("WQ", "WK", "WV")
        ]
        return tempered(cls(*(W.to(device) / d**0.5 for W in drawn)), options)
