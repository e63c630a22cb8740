"""M small transformer classifiers at once, as functions of word vectors.

A text X (n, d) becomes tokens E x_i + p_i of ``width`` dimensions, which go through blocks with
residual connections and layer norms after them; φ(X) are the tokens behind the last block, and the
verdict is a linear function of their mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from wordsens.activations import activation
from wordsens.maps.attention.normalization import Softmax
from wordsens.maps.attention.state import Projection
from wordsens.maps.blocks.block import Block, Design, layer_norm
from wordsens.randomness import Stream


class Classifiers:
    """M models with weights by name, each with a first axis M."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights = weights
        self.design = Design(Softmax(), 1.0, "after", activation("relu"))

    @classmethod
    def draw(cls, settings: Mapping[str, Any], streams: Sequence[Stream]) -> Classifiers:
        """Freshly drawn models, N(0, 1/fan-in), one per stream."""
        n, d, width = settings["n"], settings["d"], settings["width"]
        depth, heads, hidden = settings["depth"], settings["heads"], settings["mlp"] * width
        shapes: dict[str, tuple[int, ...]] = {
            "embed": (width, d),
            "places": (n, width),
            **dict.fromkeys(("WQ", "WK", "WV"), (depth, heads, width // heads, width)),
            "WO": (depth, width, width),
            "W1": (depth, hidden, width),
            "W2": (depth, width, hidden),
            "head": (width,),
        }
        weights = {
            name: torch.stack([s.child(name).normal(*shape) for s in streams]) / shape[-1] ** 0.5
            for name, shape in shapes.items()
        }
        return cls({**weights, "bias": torch.zeros(len(streams))})

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X): (M, …, n, d) → (M, …, n, width), differentiable in X and in the weights."""
        W = self.weights
        x = X.reshape(len(X), -1, *X.shape[-2:])
        x = layer_norm(x @ W["embed"][:, None].mT + W["places"][:, None])
        query = W["WQ"] / W["WQ"].shape[-2] ** 0.5
        for layer in range(query.shape[1]):
            block = Block(
                self.design,
                Projection(query[:, layer]),
                Projection(W["WK"][:, layer]),
                Projection(W["WV"][:, layer]),
                *(W[name][:, layer] for name in ("WO", "W1", "W2")),
            )
            x = block(x)
        return x.reshape(*X.shape[:-1], x.shape[-1])

    def verdict(self, features: torch.Tensor) -> torch.Tensor:
        """The logit of the label 1: (M, C, n, width) → (M, C)."""
        W = self.weights
        return (features.mean(-2) @ W["head"][:, :, None])[..., 0] + W["bias"][:, None]

    def only(self, model: int) -> Classifiers:
        """One of the models."""
        return Classifiers({name: W[model : model + 1] for name, W in self.weights.items()})

    def detached(self) -> Classifiers:
        """The models as they are now, their weights fixed."""
        return Classifiers({name: W.detach().clone() for name, W in self.weights.items()})
