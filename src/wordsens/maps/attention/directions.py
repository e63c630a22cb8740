"""Directions worth starting a search from, from the rows a_j(v) = ⟨A_j, v⟩ of all heads."""

from __future__ import annotations

from wordsens.deferred import torch


def named_directions(rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Directions (T, 1, d) by name, for rows A (T, r, d)."""
    mean, even = rows.mean(1, keepdim=True), balanced(rows)
    named = {"balanced": even, "attracting": mean, "unbalanced": -even, "repelling": -mean}
    for i, vector in enumerate(leading(rows, 3).unbind(1), start=1):
        named[f"singular+{i}"], named[f"singular-{i}"] = vector[:, None], -vector[:, None]
    return named


def balanced(rows: torch.Tensor) -> torch.Tensor:
    """The direction (T, 1, d) that moves all scores a_j alike, by ridge regression on ones."""
    r, d = rows.shape[1:]
    gram = rows @ rows.mT if r <= d else rows.mT @ rows
    ridge = 0.01 * torch.linalg.matrix_norm(gram, ord=torch.inf)[:, None, None]
    ridge = torch.where(ridge > 0, ridge, 1)  # no score moves: the direction is 0
    gram = gram + ridge * torch.eye(min(r, d), dtype=rows.dtype, device=rows.device)
    ones = rows.new_ones(rows.shape[0], r, 1)
    if r <= d:
        return (rows.mT @ torch.linalg.solve(gram, ones)).mT
    return torch.linalg.solve(gram, rows.mT @ ones).mT


def leading(rows: torch.Tensor, count: int) -> torch.Tensor:
    """About the leading right singular vectors of rows (T, r, d), for starts: (T, ≤ count, d).

    A few rounds of subspace iteration, from the first rows so that nothing is drawn.
    """
    block = rows[:, : 2 * count].mT
    for _ in range(6):
        block = torch.linalg.qr(rows.mT @ (rows @ block)).Q
    small = torch.linalg.svd(rows @ block, full_matrices=False).Vh
    return (block @ small.mT).mT[:, :count]
