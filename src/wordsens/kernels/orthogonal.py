"""Products of few long vectors with a basis of few long vectors, as block Gram–Schmidt needs them.

Both have the length of a layer: with b queries against t basis vectors of length k, b and t are
tens or hundreds and k tens of thousands.  One such product has b·t results, far too few to occupy a
card unless the sums of length k are split, which batched matrix products of cuBLAS do not do.
"""

from __future__ import annotations

from wordsens.deferred import torch
from wordsens.kernels import fused

LONG = 4096  # length from which splitting the sums pays
CACHED = 1 << 18  # bytes of a basis from which a processor takes one after the other, in its cache


def inner(x: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """x basisᵀ for x (B, b, k) and basis (B, t, k): (B, b, t)."""
    if fused(x) and x.shape[-1] >= LONG:
        from wordsens.kernels import orthogonal_triton

        return orthogonal_triton.sweep(x, basis)
    return x @ basis.mT


def deflate(x: torch.Tensor, basis: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """x −= step · basis in place, and x basisᵀ of what is left; step (B, b, t)."""
    if fused(x) and x.shape[-1] >= LONG:
        from wordsens.kernels import orthogonal_triton

        return orthogonal_triton.sweep(x, basis, step)
    x.baddbmm_(step, basis, alpha=-1)
    return x @ basis.mT


def project_out(x: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Classical Gram–Schmidt done twice: x (B, b, k) loses its part in the orthonormal ``basis``.

    In place; returns the coefficients (B, b, t) of that part.  "Twice is enough" (Kahan and
    Parlett): what remains is orthogonal to rounding unless it is itself rounding.
    """
    parts = []
    for one in _turns(basis):
        first = inner(x[one], basis[one])
        second = deflate(x[one], basis[one], first)
        x[one].baddbmm_(second, basis[one], alpha=-1)
        parts.append(first + second)
    return torch.cat(parts)


def replace_part(x: torch.Tensor, basis: torch.Tensor, wanted: torch.Tensor) -> None:
    """x (B, b, k) in place gets the coefficients ``wanted`` (B, b, t) along ``basis``."""
    for one in _turns(basis):
        x[one].baddbmm_(wanted[one] - inner(x[one], basis[one]), basis[one])


def _turns(basis: torch.Tensor) -> list[slice]:
    """Matrices of the batch that are taken together."""
    batch = len(basis)
    if basis.is_cuda or basis.nbytes < batch * CACHED:
        return [slice(None)]
    return [slice(i, i + 1) for i in range(batch)]
