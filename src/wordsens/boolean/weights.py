"""Weights of recognisers, drawn model by model from named streams."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from wordsens.boolean.shape import Shape
from wordsens.errors import UserError
from wordsens.randomness import Stream

INITIALISATIONS = ("uniform", "gaussian", "xavier-uniform", "xavier-normal")
SYMBOLS = ("0", "1", "eos")


def draw_weights(
    shape: Shape, initialisation: str, streams: Sequence[Stream]
) -> dict[str, torch.Tensor]:
    """Parameters of ``len(streams)`` models of one shape, float32, with a leading model axis.

    ``uniform`` draws all of [−1, 1], ``gaussian`` all of N(0, 1); the Xavier schemes (Glorot and
    Bengio, 2010; gain 1) draw matrices with variance 2/(fan in + fan out), all heads of a layer
    taken as one matrix, and set biases to 0.  The symbol vectors e (7) are N(0, 1) and no
    parameters: they are drawn once and never trained.  A model's numbers depend on its stream
    alone.  Raises UserError for an unknown scheme.
    """
    if initialisation not in INITIALISATIONS:
        raise UserError(
            f"initialisation {initialisation!r} is not known; choose one of "
            f"{', '.join(INITIALISATIONS)}"
        )
    sizes = shape.sizes()
    count = sum(math.prod(size) for size in sizes.values())
    flat = np.stack([_base(initialisation, stream, count) for stream in streams])
    weights, first = {}, 0
    for name, size in sizes.items():
        last = first + math.prod(size)
        part = torch.from_numpy(flat[:, first:last]).reshape(len(streams), *size)
        weights[name] = part * _spread(initialisation, name, shape)
        first = last
    symbols = [stream.child("symbols").normal(3, shape.width) for stream in streams]
    return weights | {"symbols": torch.stack(symbols).float()}


def _base(initialisation: str, stream: Stream, count: int) -> np.ndarray:
    draw = stream.child("weights")
    if initialisation.endswith("uniform"):
        return 2 * draw.generator().random(count, dtype=np.float32) - 1
    return draw.normal(count, dtype=torch.float32).numpy()


def _spread(initialisation: str, name: str, shape: Shape) -> float:
    """What the base draws of a parameter are multiplied with."""
    if not initialisation.startswith("xavier"):
        return 1.0
    D, F = shape.width, shape.feedforward
    fans = {"query": 2 * D, "key": 2 * D, "value": 2 * D, "W1": D + F, "W2": D + F, "w": D + 1}
    if name not in fans:
        return 0.0
    return math.sqrt((6 if initialisation == "xavier-uniform" else 2) / fans[name])
