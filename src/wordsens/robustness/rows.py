"""The rows of a random matrix W (k, d) with independent N(0, 1/d) entries, a chunk at a time.

A chunk is named by its first row, so that a matrix of any width is drawn again, number for number,
whenever it is needed, and its first rows do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from wordsens.errors import UserError
from wordsens.randomness import Stream

CHUNK = 1 << 19  # entries of a chunk, at most
MOST_ROWS = 1 << 12
KEPT_BYTES = 1 << 26  # a matrix up to this size is drawn once and kept


class Rows:
    """W (k, d) in float64, as an iterable of chunks of rows."""

    def __init__(self, width: int, d: int, stream: Stream, device: str | torch.device = "cpu"):
        self.width, self.d, self.stream, self.device = width, d, stream, device
        self.size = max(1, min(MOST_ROWS, CHUNK // d))
        self._kept: list[torch.Tensor] | None = None

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self._kept is None and 8 * self.width * self.d <= KEPT_BYTES:
            self._kept = list(self._drawn())
        return iter(self._kept) if self._kept is not None else self._drawn()

    def _drawn(self) -> Iterator[torch.Tensor]:
        for first in range(0, self.width, self.size):
            drawn = self.stream.child("rows", first=first, d=self.d).normal(
                self.size, self.d, dtype=torch.float64
            )
            yield (drawn[: self.width - first] / self.d**0.5).to(self.device)


class GivenRows(Rows):
    """The same of a matrix that is given."""

    def __init__(self, matrix: torch.Tensor) -> None:
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise UserError(f"weights have shape {tuple(matrix.shape)}; allowed is (width, d)")
        self.width, self.d = matrix.shape
        self.size = max(1, min(MOST_ROWS, CHUNK // self.d))
        self._kept = list(matrix.split(self.size))
