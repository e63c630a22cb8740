"""Random attention features, equation (3), and their ReLU variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.maps.attention.layer import SMALL, AttentionMap, tempered
from wordsens.maps.attention.normalization import Normalization, ReLU, Softmax
from wordsens.maps.attention.state import Projection
from wordsens.maps.declaration import DEFAULTS, Effort, MapOptions
from wordsens.randomness import Stream

FEW = 16  # dimensions


class RandomAttentionFeatures(AttentionMap):
    """φ(X) = softmax(X W Xᵀ / (τ √d)) X with W_ij ~ N(0, 1/d) iid (3), where τ = 1.

    W is (d, d) or (T, d, d).
    """

    name = "raf"
    title = "Random attention (RAF)"
    short = "RAF"
    options = ("temperature",)
    normalization: Normalization = Softmax()

    def __init__(self, W: torch.Tensor) -> None:
        if W.ndim not in (2, 3) or W.shape[-1] != W.shape[-2] or not W.numel():
            raise UserError(f"W has shape {tuple(W.shape)}; {self.name} takes (d, d) or (T, d, d)")
        self.batch = W.shape[0] if W.ndim == 3 else None
        self.dtype, self.device = W.dtype, W.device
        d = W.shape[-1]
        self.query = Projection(W.reshape(-1, 1, d, d).mT / d**0.5)
        self.key = self.value = Projection()

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> RandomAttentionFeatures:
        d = shape[1]
        drawn = [stream.child("W").normal(d, d, dtype=dtype) / d**0.5 for stream in streams]
        return tempered(cls(torch.stack(drawn).to(device)), options)


class ReLUAttentionFeatures(RandomAttentionFeatures):
    """RAF with relu(S) in place of exp(S), each row normalised to sum one (Figure 3).

    A row whose scores are all ≤ 0 outputs zero, as in the published scripts.  Rows that sum to one
    do not notice a temperature.
    """

    name = "relu_raf"
    title = "Random attention with ReLU (ReLU-RAF)"
    short = "ReLU-RAF"
    effort = Effort(starts=24, anneal=0, steps=460)  # exploring and refining (search.ridges)
    normalization: Normalization = ReLU()

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        if d > FEW and n * d > SMALL:
            return cls.effort
        # small problems have many maxima for their size, and rounds around the best cost little
        starts = (4 if d <= FEW else 2) * cls.effort.starts
        return replace(cls.effort, starts=starts, afresh=starts)
