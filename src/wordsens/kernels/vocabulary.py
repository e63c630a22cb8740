"""What replacing one word by any word of a vocabulary does to the other rows of an attention layer.

When word i leaves row j with weight s_ji and word v joins it, with π_jv its weight beside *all*
words of the row and κ = 1 − π,

    out_j − φ_j = [π (w_v − φ_j) − κ s (y_i − φ_j)] / (1 − κ s),

y_i and w_v being the values of the two words.  Its square, summed over the rows, is needed for
every position i and word v: rows × positions × words terms.

``changed_rows`` adds them up one by one.  ``changed_rows_expanded`` turns the sum into matrix
products: 1/(1 − κ s)² couples the pairs (j, i) and (j, v) only through the product κ s, and as a
function of s ∈ [0, s_max], s_max < 1, it is analytic up to s = 1/κ ≥ 1, so that its interpolant at
a few Chebyshev nodes σ_k equals it to rounding,

    f(s, κ) = Σ_k L_k(s) f(σ_k, κ)      (L_k the Lagrange polynomials of the nodes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wordsens.deferred import torch
from wordsens.kernels import fused


def changed_rows(
    p: torch.Tensor,
    far: torch.Tensor,
    dot: torch.Tensor,
    dot_own: torch.Tensor,
    s: torch.Tensor,
    lean: torch.Tensor,
    away: torch.Tensor,
    keep: torch.Tensor,
) -> torch.Tensor:
    """Σ_j keep_ji ‖out_j − φ_j‖² for every position i and word v, (P, V), term by term.

    p        (n, V)  π_jv, the weight of word v in row j when it joins all the row's words
    far      (n, V)  ‖w_v − φ_j‖²
    dot      (n, V)  ⟨φ_j, w_v⟩
    dot_own  (P, V)  ⟨y_i, w_v⟩
    s        (n, P)  s_ji, the weight of the word that leaves; at most 1/2 where it is kept
    lean     (n, P)  ‖φ_j‖² − ⟨φ_j, y_i⟩
    away     (n, P)  ‖y_i − φ_j‖²
    keep     (n, P)  1 for the pairs to be counted, else 0
    """
    if fused(p):
        from wordsens.kernels import vocabulary_triton

        return vocabulary_triton.changed_rows(p, far, dot, dot_own, s, lean, away, keep)
    rest = 1 - p
    joined, crossed, square = p * p * far, 2 * p * rest, rest * rest
    total = torch.empty_like(dot_own)
    kept = s * keep  # where s = 1 is not kept, it must not divide either
    columns = zip(kept.T, lean.T, away.T, keep.T, strict=True)
    for i, (s_i, lean_i, away_i, keep_i) in enumerate(columns):
        leaving, inner = s_i[:, None], dot - lean_i[:, None] - dot_own[i]
        change = joined + leaving * (crossed * inner + (leaving * away_i[:, None]) * square)
        total[i] = keep_i @ (change / (1 - rest * leaving) ** 2)
    return total


@dataclass(frozen=True)
class Expansion:
    """The position side of ``changed_rows``: one matrix product per Chebyshev node.

    nodes σ_k (K,); rows (K, P, 3n) weighs what a node says of the terms that any two words have
    alone, crossed (K, P, n) of those with ⟨y_i, w_v⟩.
    """

    nodes: tuple[float, ...]
    rows: torch.Tensor
    crossed: torch.Tensor


def expand(
    s: torch.Tensor, lean: torch.Tensor, away: torch.Tensor, keep: torch.Tensor
) -> Expansion:
    """Prepare ``changed_rows_expanded`` for pairs (n, P) as ``changed_rows`` takes them."""
    kept = s * keep
    largest = max(float(kept.max()), 1e-3)
    count = node_count(largest, torch.finfo(s.dtype).eps)
    angles = [math.pi * (2 * k + 1) / (2 * count) for k in range(count)]
    nodes = [largest * (1 + math.cos(angle)) / 2 for angle in angles]
    exact = kept.double().T  # (P, n)
    weights = []
    for node in nodes:
        basis = keep.double().T.clone()
        for other in nodes:
            if other != node:
                basis *= (exact - other) / (node - other)
        weights.append(basis)
    lagrange = torch.stack(weights)  # (K, P, n)
    moved = lagrange * exact
    rows = torch.cat([lagrange, moved * lean.double().T, moved * exact * away.double().T], -1)
    return Expansion(tuple(nodes), rows.to(s.dtype), moved.to(s.dtype))


def changed_rows_expanded(
    p: torch.Tensor,
    far: torch.Tensor,
    dot: torch.Tensor,
    dot_own: torch.Tensor,
    expansion: Expansion,
) -> torch.Tensor:
    """As ``changed_rows``, to rounding, by 4 K products of sizes P × n and n × V."""
    n = len(p)
    rest = 1 - p
    joined, crossed, square = p * p * far, 2 * p * rest, rest * rest
    leaned = crossed * dot
    terms = p.new_empty(3 * n, p.shape[1])
    total, cross = torch.zeros_like(dot_own), torch.zeros_like(dot_own)
    for node, rows, products in zip(
        expansion.nodes, expansion.rows, expansion.crossed, strict=True
    ):
        pole = (1 - node * rest).square_().reciprocal_()
        torch.add(joined, leaned, alpha=node, out=terms[:n]).mul_(pole)
        torch.mul(crossed, pole, out=terms[n : 2 * n]).neg_()
        torch.mul(square, pole, out=terms[2 * n :])
        total.addmm_(rows, terms)
        cross.addmm_(products, terms[n : 2 * n])
    return total.addcmul_(cross, dot_own)


def node_count(largest: float, precision: float) -> int:
    """Chebyshev nodes on [0, ``largest``] at which (1 + s) / (1 − κ s)² is met to ``precision``.

    With a = 1/κ ≥ 1 and x mapping the interval to [−1, 1], the interpolant of 1/(a − s) errs by
    T_K(x(s)) / T_K(x(a)) relative to it; the derivative in a gives that of 1/(a − s)², and both
    together at most 3 (K + 1) / T_K(x(1)), for ``largest`` ≤ 1/2.
    """
    pole = math.acosh(2 / largest - 1)
    count = 2
    while 3 * (count + 1) > precision * math.cosh(count * pole):
        count += 1
    return count
