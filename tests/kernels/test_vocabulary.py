"""The sum over rows: term by term against the vectors themselves, and as an expansion."""

from __future__ import annotations

import pytest
import torch

from wordsens.kernels.vocabulary import changed_rows, changed_rows_expanded, expand, node_count

n, P, V, e = 31, 17, 43, 9


def problem(largest: float, seed: int = 0):
    """Random rows φ, words w and y, weights π and s ≤ largest; and the sum from its definition."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=g, dtype=torch.float64)

    phi, w, y = normal(n, e), normal(V, e), normal(P, e)
    p, s = uniform(n, V) ** 3, largest * uniform(n, P)
    p[0], p[1] = 0, 1  # words that no row sees, and that take the whole row
    s[2], s[3] = 0, largest
    keep = (uniform(n, P) < 0.8).double()
    vector = p[:, None, :, None] * (w - phi[:, None, None])
    vector = vector - ((1 - p)[:, None] * s[..., None])[..., None] * (y - phi[:, None])[:, :, None]
    vector = vector / (1 - (1 - p)[:, None] * s[..., None])[..., None]
    truth = (keep[..., None] * (vector**2).sum(-1)).sum(0)
    square, along = (phi**2).sum(-1, keepdim=True), phi @ y.T
    word = (p, torch.cdist(phi, w) ** 2, phi @ w.T, y @ w.T)
    pair = (s, square - along, torch.cdist(phi, y) ** 2, keep)
    return word, pair, truth


@pytest.mark.parametrize("largest", [0.5, 0.125, 0.01])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 3e-14), (torch.float32, 3e-6)])
def test_both_forms_are_the_sum_of_squares(largest, dtype, tolerance):
    word, pair, truth = problem(largest)
    word, pair = ([x.to(dtype) for x in group] for group in (word, pair))
    plain = changed_rows(*word, *pair)
    expanded = changed_rows_expanded(*word, expand(*pair))
    for found in (plain, expanded):
        assert found.dtype == dtype
        assert torch.allclose(found.double(), truth, rtol=tolerance, atol=tolerance)


def test_pairs_that_are_not_kept_may_hold_anything():
    word, (s, lean, away, keep), _ = problem(0.1)
    s = torch.where(keep == 0, 1.0, s)
    for found in (
        changed_rows(*word, s, lean, away, keep),
        changed_rows_expanded(*word, expand(s, lean, away, keep)),
    ):
        truth = changed_rows(*word, s * keep, lean, away, keep)
        assert torch.allclose(found, truth, rtol=1e-13, atol=1e-13)
    nothing = torch.zeros_like(keep)
    assert (changed_rows_expanded(*word, expand(s, lean, away, nothing)) == 0).all()


@pytest.mark.parametrize("largest", [0.5, 0.125, 0.02])
@pytest.mark.parametrize("precision", [1e-3, 1e-7, 1e-12])
def test_node_count_keeps_its_promise_without_waste(largest, precision):
    """Interpolation of s ↦ (1 + s)/(1 − κ s)² at so many nodes; three fewer would not do."""
    count = node_count(largest, precision)
    s = torch.linspace(0, largest, 2001, dtype=torch.float64)

    def error(nodes: int, kappa: float) -> float:
        k = torch.arange(nodes, dtype=torch.float64)
        at = largest * (1 + torch.cos(torch.pi * (2 * k + 1) / (2 * nodes))) / 2
        total = torch.zeros_like(s)
        for i in range(nodes):
            others = torch.cat([at[:i], at[i + 1 :]])
            basis = ((s[:, None] - others) / (at[i] - others)).prod(1)
            total += basis * (1 + at[i]) / (1 - kappa * at[i]) ** 2
        exact = (1 + s) / (1 - kappa * s) ** 2
        return ((total - exact).abs() / exact).max().item()

    assert max(error(count, kappa) for kappa in (1.0, 0.7, 0.1)) <= precision
    assert count <= 5 or error(count - 3, 1.0) > precision
