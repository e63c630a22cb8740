"""Gaussian matrices that are drawn only where they are looked at.

V (rows × columns, iid N(0, std²)) is only ever seen through products.  Keep orthonormal bases
Q of the right queries with images Y = V Q, and P of the left queries with images Z = Vᵀ P.
A new unit query q ⟂ Q has, exactly in law,

    V q = P Zᵀ q + (I − P Pᵀ) g,        g ~ N(0, std² I) fresh,

and symmetrically for Vᵀ p.  A general h is split as h = Q c + ‖r‖ q, so V h = Y c + ‖r‖ V q.
The principle is Bolthausen's conditioning, made an algorithm by Y. M. Lu, "Householder Dice: A
Matrix-Free Algorithm for Simulating Dynamics on Gaussian and Random Orthogonal Ensembles",
IEEE Trans. Inf. Theory 67(12), 2021 (arXiv:2101.07464); here it is batched and works on blocks
of queries.  A product costs O((rows + columns) t) after t queries, not O(rows · columns).  Where a
matrix may be stored and that is no longer less, what is left of V is drawn, by the same formula for
all directions at once, and V is stored:

    V = Y Qᵀ + [P Zᵀ + (I − P Pᵀ) G] (I − Q Qᵀ),        G with entries N(0, std²) fresh.

One object is one matrix for its whole life: the same stream asked other questions is another
matrix, so whatever is compared must share one object.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

from wordsens.deferred import torch
from wordsens.gaussian.base import GaussianMatrix
from wordsens.gaussian.dense import DenseGaussian
from wordsens.kernels.orthogonal import inner, project_out, replace_part
from wordsens.randomness import Stream

PANEL = 32  # queries orthogonalised against each other one by one; more go in panels
ROOM = 1 << 18  # numbers that a new basis has room for
FIRST, MOST = 40, 64  # vectors that it has room for: as many as one start's search asks, and more
NARROW = 4  # rows per column of a matrix that may be stored
STORED = 1 << 12  # and its entries, at least
RENT = 80  # squared queries that cost what storing one column per row does, as measured
NORM_FAILURE = 1e-9  # probability with which norm_bound may be exceeded


class LazyGaussian(GaussianMatrix):
    """One lazily drawn matrix per stream, float64 by default; see the module for law and source.

    ``storable`` says whether it may be stored where that is cheaper; by default those of few
    columns are, as they take little more memory than their bases.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        streams: Sequence[Stream],
        *,
        std: float = 1.0,
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        storable: bool | None = None,
    ) -> None:
        self.batch, self.rows, self.columns = len(streams), rows, columns
        dtype = torch.float64 if dtype is None else dtype
        self.std, self.dtype, self.device = std, dtype, torch.device(device)
        self._streams = streams
        self._right = _Side(self.batch, columns, rows, dtype, self.device)  # Q, Y = V Q
        self._left = _Side(self.batch, rows, columns, dtype, self.device)  # P, Z = Vᵀ P
        self.asked = 0  # queries from both sides
        few = rows >= NARROW * columns and rows * columns >= STORED
        self._storable = few if storable is None else storable
        self._stored: DenseGaussian | None = None

    def matvec(self, h: torch.Tensor) -> torch.Tensor:
        stored = self._counted(h)
        if stored is not None:
            return stored.matvec(h)
        return self._product(h, self._right, self._left, self._fresh_right)

    def rmatvec(self, g: torch.Tensor) -> torch.Tensor:
        stored = self._counted(g)
        if stored is not None:
            return stored.rmatvec(g)
        return self._product(g, self._left, self._right, self._fresh_left)

    def take(self, index: list[int]) -> LazyGaussian:
        chosen = copy.copy(self)
        chosen.batch, chosen._streams = len(index), [self._streams[i] for i in index]
        chosen._right, chosen._left = self._right.take(index), self._left.take(index)
        chosen._stored = None if self._stored is None else self._stored.take(index)
        return chosen

    def norm_bound(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        """std (√rows + √columns + t), exceeded with probability at most exp(−t²/2) = 1e-9.

        Davidson and Szarek's bound on the largest singular value of a Gaussian matrix.
        """
        slack = math.sqrt(-2 * math.log(NORM_FAILURE))
        width = self.columns if columns is None else len(columns)
        bound = self.std * (math.sqrt(self.rows) + math.sqrt(width) + slack)
        return torch.full((self.batch,), bound, dtype=self.dtype, device=self.device)

    @property
    def bytes_held(self) -> int:
        """Memory of the bases and images, or of the stored matrix, in bytes."""
        stored = 0 if self._stored is None else self._stored.weight.nbytes
        return self._right.bytes_held + self._left.bytes_held + stored

    def _counted(self, x: torch.Tensor) -> DenseGaussian | None:
        """V where it is stored, or is from these queries x on.

        A query after t others reads about 4 (rows + columns) t numbers.  Where all of them have
        cost as much as storing rows · columns does, or determine it, V is stored.  The count is of
        queries, whether or not they bring something new, so that what is drawn does not depend on
        companions in the batch.
        """
        self.asked += x.shape[1]
        shorter = 1 / (1 / self.rows + 1 / self.columns)
        enough = min(self.columns, math.sqrt(RENT * shorter))
        if self._stored is None and self._storable and self.asked > enough:
            self._store()
        return self._stored

    def _store(self) -> None:
        """Draw what is left of V, given every answer so far."""
        right, left = self._right, self._left
        unit = torch.eye(self.columns, dtype=self.dtype, device=self.device)
        V = self._fresh_right(unit.expand(self.batch, -1, -1))  # Gᵀ, (batch, columns, rows)
        V = V.baddbmm(left.images.mT - V @ left.basis.mT, left.basis)
        V = V.baddbmm_(right.basis.mT, right.images - right.basis @ V)
        self._stored = DenseGaussian(V.mT)
        self._right, self._left = right.emptied(), left.emptied()

    def _fresh_right(self, q: torch.Tensor) -> torch.Tensor:
        """Fresh N(0, std²) vectors (batch, b, rows), one per new right direction."""
        return self._fresh(q.shape[1], self.rows)

    def _fresh_left(self, p: torch.Tensor) -> torch.Tensor:
        return self._fresh(p.shape[1], self.columns)

    def _fresh(self, count: int, length: int) -> torch.Tensor:
        # drawn matrix by matrix, so that no number depends on its companions in the batch
        drawn = torch.empty(self.batch, count, length, dtype=self.dtype)
        for out, stream in zip(drawn, self._streams, strict=True):
            out.copy_(stream.normal(count, length, dtype=torch.float32)).mul_(self.std)
        return drawn.to(self.device)

    def _product(
        self,
        x: torch.Tensor,
        asked: _Side,
        other: _Side,
        fresh: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        if x.shape[1] > PANEL:
            panels = x.split(PANEL, dim=1)
            return torch.cat([self._product(panel, asked, other, fresh) for panel in panels], 1)
        known = asked.count
        coefficients, new, mixing = asked.split(x)
        images = fresh(new)
        novel = mixing.diagonal(dim1=-2, dim2=-1) > 0  # a query that is new to a matrix
        images *= novel[..., None]
        if other.count:
            # P Zᵀ q + (I − P Pᵀ) g, with both terms in one pass over P
            replace_part(images, other.basis, inner(new, other.images))
        result = mixing @ images
        asked.append(new, images, novel.any(0))
        if known:
            result.baddbmm_(coefficients, asked.images[:, :known])
        return result


class _Side:
    """An orthonormal basis of the queries from one side, and what the matrix answered.

    A direction that brings nothing new to one matrix of the batch is kept as a zero row there,
    which leaves every formula true.
    """

    def __init__(
        self, batch: int, length: int, image: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._basis = torch.empty(batch, 0, length, dtype=dtype, device=device)
        self._images = torch.empty(batch, 0, image, dtype=dtype, device=device)
        self.count = 0
        self.tolerance = 100 * torch.finfo(dtype).eps

    @property
    def basis(self) -> torch.Tensor:  # (batch, count, length)
        return self._basis[:, : self.count]

    @property
    def images(self) -> torch.Tensor:  # (batch, count, image)
        return self._images[:, : self.count]

    @property
    def bytes_held(self) -> int:
        return self.basis.nbytes + self.images.nbytes  # room that is not used is not resident

    def take(self, index: list[int]) -> _Side:
        side = copy.copy(self)
        side._basis, side._images = self._basis[index], self._images[index]
        return side

    def emptied(self) -> _Side:
        """A side that was asked nothing."""
        batch, _, length = self._basis.shape
        image = self._images.shape[2]
        return _Side(batch, length, image, self._basis.dtype, self._basis.device)

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x = coefficients · basis + mixing · new, by classical Gram–Schmidt done twice.

        x (batch, b, length); new (batch, b, length) orthonormal rows, zero where x brought
        nothing above rounding; mixing (batch, b, b) lower triangular.
        """
        scale = torch.linalg.vector_norm(x, dim=-1)  # (batch, b)
        residual = x.clone(memory_format=torch.contiguous_format)
        if self.count:
            coefficients = project_out(residual, self.basis)
        else:
            coefficients = x.new_zeros(*x.shape[:2], 0)
        mixing = x.new_zeros(*x.shape[:2], x.shape[1])
        for j in range(x.shape[1]):
            row = residual[:, j : j + 1]
            before = residual[:, :j]  # already orthonormal
            norm = torch.linalg.vector_norm(row[:, 0], dim=-1)
            for _ in range(4 if j else 0):
                step = row @ before.mT
                row.baddbmm_(step, before, alpha=-1)
                mixing[:, j, :j] += step[:, 0]
                left = torch.linalg.vector_norm(row[:, 0], dim=-1)
                kept = (left >= 0.5 * norm) | (left <= self.tolerance * scale[:, j])
                norm = left
                if kept.all():
                    break
                # where a neighbour took most of the row, rounding along the basis now stands out
                step = row @ self.basis.mT
                row.baddbmm_(step, self.basis, alpha=-1)
                coefficients[:, j] += step[:, 0]
                norm = torch.linalg.vector_norm(row[:, 0], dim=-1)
            norm = torch.where(norm > self.tolerance * scale[:, j], norm, 0)
            row *= torch.where(norm > 0, 1 / norm, 0)[:, None, None]
            mixing[:, j, j] = norm
        return coefficients, residual, mixing

    def append(self, new: torch.Tensor, images: torch.Tensor, novel: torch.Tensor) -> None:
        """Keep the rows of which ``novel`` (b,) says that they are new to some matrix."""
        if not novel.all():
            new, images = new[:, novel], images[:, novel]
        needed = self.count + new.shape[1]
        held = self._basis.shape[1]
        if needed > held:
            # growing copies everything
            longest = max(self._basis.shape[2], self._images.shape[2])
            least = max(FIRST, min(MOST, ROOM // longest))
            capacity = max(needed, least, held * 3 // 2)
            self._basis = self._grown(self._basis, capacity)
            self._images = self._grown(self._images, capacity)
        self._basis[:, self.count : needed] = new
        self._images[:, self.count : needed] = images
        self.count = needed

    def _grown(self, held: torch.Tensor, capacity: int) -> torch.Tensor:
        grown = held.new_empty(held.shape[0], capacity, held.shape[2])
        grown[:, : self.count] = held[:, : self.count]
        return grown
