"""Attention layers with random weights, and their one-token views at O(nd) a step."""

from wordsens.maps.attention.layer import AttentionMap
from wordsens.maps.attention.normalization import Normalization, ReLU, Softmax
from wordsens.maps.attention.state import AttentionState, Projection
from wordsens.maps.attention.view import AttentionView

__all__ = [
    "AttentionMap",
    "AttentionState",
    "AttentionView",
    "Normalization",
    "Projection",
    "ReLU",
    "Softmax",
]
