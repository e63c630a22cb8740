"""A lazy matrix of which some columns, once named, are drawn apart from the others.

Columns of a Gaussian matrix are independent.  A view asks for one product with all columns, and
then for those of its word alone: with a matrix of its own for them, every further query has the
word's length and not that of the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wordsens.deferred import torch
from wordsens.gaussian.base import Columns, GaussianMatrix
from wordsens.gaussian.lazy import LazyGaussian
from wordsens.randomness import Stream


class PartedGaussian(GaussianMatrix):
    """One lazily drawn matrix per stream; see ``LazyGaussian`` for the arguments."""

    def __init__(
        self, rows: int, columns: int, streams: Sequence[Stream], **options: object
    ) -> None:
        self._draw: Callable[[int, Sequence[Stream]], LazyGaussian] = lambda width, named: (
            LazyGaussian(rows, width, named, **options)  # type: ignore[arg-type]
        )
        self._streams = streams
        whole = self._draw(columns, streams)
        self.batch, self.rows, self.columns = whole.batch, rows, columns
        self.dtype, self.device = whole.dtype, whole.device
        self._parts: list[tuple[torch.Tensor, LazyGaussian]] = [(torch.arange(columns), whole)]

    def part(self, index: torch.Tensor) -> GaussianMatrix:
        """Some columns: a matrix of their own where nothing was asked of the whole before."""
        index = index.cpu()
        for columns, matrix in self._parts:
            if torch.equal(columns, index):
                return matrix
        if len(self._parts) > 1 or self._parts[0][1].asked:
            return Columns(self, index.to(self.device))
        others = torch.ones(self.columns, dtype=torch.bool).index_fill(0, index, False)
        pieces = {"word": index, "others": others.nonzero()[:, 0]}
        self._parts = [
            (columns, self._draw(len(columns), [s.child(name) for s in self._streams]))
            for name, columns in pieces.items()
        ]
        return self._parts[0][1]

    def matvec(self, h: torch.Tensor) -> torch.Tensor:
        if len(self._parts) == 1:
            return self._parts[0][1].matvec(h)
        return sum(V.matvec(h[..., columns.to(h.device)]) for columns, V in self._parts)  # type: ignore[return-value]

    def rmatvec(self, g: torch.Tensor) -> torch.Tensor:
        whole = g.new_empty(*g.shape[:-1], self.columns)
        for columns, V in self._parts:
            whole[..., columns.to(g.device)] = V.rmatvec(g)
        return whole

    def take(self, index: list[int]) -> PartedGaussian:
        chosen = PartedGaussian.__new__(PartedGaussian)
        vars(chosen).update(vars(self))
        chosen.batch, chosen._streams = len(index), [self._streams[i] for i in index]
        chosen._parts = [(columns, V.take(index)) for columns, V in self._parts]
        return chosen

    def norm_bound(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        whole = self._parts[0][1]
        if len(self._parts) == 1:
            return whole.norm_bound(columns)
        every = torch.arange(self.columns) if columns is None else columns
        return whole.norm_bound(every)  # it depends on their number alone
