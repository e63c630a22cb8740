"""Named random streams.

Every draw belongs to a stream whose name says the run's seed, what the draw is for and
which cell and trial it serves.  A number therefore never depends on job order, batch
size, thread count, device or the other cells of a configuration.

Normals are drawn on the CPU in float32 and then cast, so that the same name gives the
same matrix whatever precision the computation uses.  A draw is filled in chunks of fixed
length, each with a generator of its own, which lets several threads fill one draw
without changing a single number.
"""

from __future__ import annotations

import hashlib
import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.errors import whole_number

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 18  # normals filled by one generator


class Stream:
    """A random stream with a name.

    ``Stream(seed, "weights", map="raf", d=384, trial=3)`` is the same stream wherever and
    whenever it is built.  Successive draws from one stream are independent; ``child``
    names an independent stream below this one.
    """

    def __init__(self, seed: int, purpose: str, **names: Any) -> None:
        self.name = json.dumps(
            [whole_number("seed", seed, None), purpose, names], sort_keys=True, default=_plain
        )
        self._entropy = int.from_bytes(hashlib.sha256(self.name.encode()).digest(), "big")
        self._draws = 0

    def __repr__(self) -> str:
        return f"Stream({self.name})"

    def child(self, purpose: str, **names: Any) -> Stream:
        """An independent stream; the same words give the same stream."""
        below = Stream.__new__(Stream)
        below.name = json.dumps([self.name, purpose, names], sort_keys=True, default=_plain)
        below._entropy = int.from_bytes(hashlib.sha256(below.name.encode()).digest(), "big")
        below._draws = 0
        return below

    def generator(self) -> np.random.Generator:
        """A NumPy generator for the next draw of this stream."""
        return self._generator(self._next_draw(), 0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Independent standard normals of the given shape (float32 values, cast to dtype)."""
        import torch

        values = np.empty(math.prod(shape), dtype=np.float32)
        draw = self._next_draw()

        def fill(chunk: int) -> None:
            part = values[chunk * CHUNK : (chunk + 1) * CHUNK]
            self._generator(draw, chunk).standard_normal(dtype=np.float32, out=part)

        chunks = range(-(-values.size // CHUNK))
        threads = min(len(chunks), torch.get_num_threads())
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, chunks))
        else:
            for chunk in chunks:
                fill(chunk)
        return torch.from_numpy(values.reshape(shape)).to(dtype or torch.get_default_dtype())

    def _next_draw(self) -> int:
        self._draws += 1
        return self._draws - 1

    def _generator(self, draw: int, chunk: int) -> np.random.Generator:
        sequence = np.random.SeedSequence(self._entropy, spawn_key=(draw, chunk))
        return np.random.Generator(np.random.SFC64(sequence))


def _plain(value: Any) -> Any:
    """NumPy scalars inside a name read as the numbers they are."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a stream's name takes strings and numbers, not {type(value).__name__}")
