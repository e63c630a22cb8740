"""K⁺ for a Gram matrix K = ΦΦᵀ in which samples may repeat each other.

A sample that repeats another one to rounding makes K singular, or nearly so: the difference of the
two is an eigenvector of eigenvalue ‖φ_i − φ_j‖²/2.  Whatever such a pair's labels ask of that
direction is asked of rounding errors, and is answered with weights a million times too large.
Twins are therefore one sample with their mean label, exactly as K⁺ has it for equal rows: with B
(N, G) the orthonormal basis of the groups, K⁺ = B (BᵀKB)⁺ Bᵀ.
"""

from __future__ import annotations

from wordsens.deferred import torch

# ‖φ_i − φ_j‖² of less than this share of ‖φ_i‖² + ‖φ_j‖² says that two samples are twins; K holds
# such a difference to eps/TWIN ≈ 2·10⁻⁵ of itself, and whatever is kept is known at least so well.
TWIN = 1e-11


class GramFactor:
    """K⁺ for a positive semidefinite K (N, N), float64.

    Samples whose difference is below ``TWIN`` or below the cutoff are merged first: ``group`` (N,)
    says which is which.  ``kind`` is "cholesky", or "eigen" where the smallest eigenvalue left is
    not above ``cutoff``: then eigenvalues up to the cutoff count as zero.  ``rank`` eigenvalues
    are kept, ``top`` is the largest and ``condition`` its ratio to the smallest of them.

    ``noise`` is the unit roundoff of the features K was made of: rounding of the features moves
    eigenvalues by about noise² times the trace of K, rounding of K itself by N eps times the
    largest one.
    """

    def __init__(self, K: torch.Tensor, noise: float) -> None:
        values = torch.linalg.eigvalsh(K).clamp_min(0)
        self.top = values[-1].item()
        eps = torch.finfo(torch.float64).eps
        self.cutoff = max(len(K) * eps * self.top, 100 * noise**2 * K.trace().item())
        self.group = twins(K, self.cutoff)
        self._basis = _basis(self.group, K)
        if self._basis is not None:
            K = self._basis.mT @ K @ self._basis
            values = torch.linalg.eigvalsh(K).clamp_min(0)
        self.kind = "cholesky" if values[0].item() > self.cutoff else "eigen"
        if self.kind == "cholesky":
            self._root, failed = torch.linalg.cholesky_ex(K)
            self.kind = "eigen" if failed.item() else "cholesky"
        kept = values[values > self.cutoff]
        if self.kind == "eigen":
            values, vectors = torch.linalg.eigh(K)
            keep = values > self.cutoff
            kept, self._vectors = values[keep], vectors[:, keep]
            self._values = kept
        self.rank = len(kept)
        self.condition = (kept[-1] / kept[0]).item() if self.rank else float("nan")

    def solve(self, b: torch.Tensor) -> torch.Tensor:
        """K⁺ b for b (N,)."""
        if self._basis is None:
            return self._solve(b)
        return self._basis @ self._solve(self._basis.mT @ b)

    def _solve(self, b: torch.Tensor) -> torch.Tensor:
        if self.kind == "cholesky":
            return torch.cholesky_solve(b[:, None], self._root)[:, 0]
        return self._vectors @ ((self._vectors.mT @ b) / self._values)


def twins(K: torch.Tensor, cutoff: float) -> torch.Tensor:
    """The first sample (N,) of each sample's group: twins, twins of twins, and so on.

    Twins are samples with ‖φ_i − φ_j‖²/2 ≤ ``cutoff``, or below ``TWIN`` in relation to both.
    """
    square = K.diagonal()
    total = square[:, None] + square
    same = total - 2 * K <= (TWIN * total).clamp_min(2 * cutoff)
    same.fill_diagonal_(True)
    group = torch.arange(len(K), device=K.device)
    while True:
        first = torch.where(same, group, len(K)).amin(1)
        if torch.equal(first, group):
            return group
        group = first


def contradictions(group: torch.Tensor, Y: torch.Tensor) -> list[tuple[int, int]]:
    """The pairs i < j of one group whose labels differ."""
    apart = ((group[:, None] == group) & (Y[:, None] != Y)).triu(1)
    return [(int(i), int(j)) for i, j in apart.nonzero().tolist()]


def _basis(group: torch.Tensor, like: torch.Tensor) -> torch.Tensor | None:
    """Orthonormal columns, constant on each group; None where every sample stands alone."""
    first, member, size = group.unique(return_inverse=True, return_counts=True)
    if len(first) == len(group):
        return None
    basis = like.new_zeros(len(group), len(first))
    return basis.scatter_(1, member[:, None], size[member, None].to(like.dtype) ** -0.5)
