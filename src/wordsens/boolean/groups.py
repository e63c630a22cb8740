"""Many random models with shapes drawn from lists, batched by shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.shape import PAPER_SHAPES, Shape, draw_shape
from wordsens.progress import portion
from wordsens.randomness import Stream

WEIGHT_BYTES = 1 << 28  # of the models drawn at once
# What names a model's randomness: where its weights come from, and not what is asked of it, so
# that the same models are profiled at every N and ε.
NAMES = (*PAPER_SHAPES, "init", "split", "scaled")


def model_streams(cell: Mapping[str, Any], models: Sequence[int]) -> list[Stream]:
    """The streams of a cell's models, by number."""
    names = {name: cell[name] for name in NAMES}
    return [Stream(cell["seed"], "boolean", **names, model=model) for model in models]


def batches(
    cell: Mapping[str, Any], models: Sequence[int], device: str, most: int | None = None
) -> Iterator[tuple[list[int], Recogniser, list[Stream]]]:
    """Recognisers of these models of a cell, batch by batch: places in ``models``, batch, streams.

    A cell has the lists of ``PAPER_SHAPES``, ``init``, ``split``, ``scaled``, ``epsilon``,
    ``margin``, ``precision`` and ``seed``.  ``most`` bounds the models of a batch.
    """
    streams = model_streams(cell, models)
    options = {name: cell[name] for name in ("split", "scaled", "epsilon")}
    groups: dict[Shape, list[int]] = {}
    for place, stream in enumerate(streams):
        shape = draw_shape(cell, stream.child("shape").generator(), **options)
        groups.setdefault(shape, []).append(place)
    dtype = getattr(torch, cell["precision"])
    for shape, places in groups.items():
        weight = 8 * sum(math.prod(size) for size in shape.sizes().values())
        size = max(1, min(WEIGHT_BYTES // weight, most or len(places)))
        for first in range(0, len(places), size):
            part = places[first : first + size]
            own = [streams[place] for place in part]
            with portion(len(part) / len(models)):
                yield (
                    part,
                    Recogniser.draw(
                        shape, cell["init"], own, margin=cell["margin"], dtype=dtype, device=device
                    ),
                    own,
                )
