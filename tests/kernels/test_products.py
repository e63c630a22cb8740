"""Products with few factors, as one word or one head alone has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wordsens.kernels.products import few, summed

SIZES = st.integers(1, 4)


@settings(deadline=None)
@given(SIZES, SIZES, SIZES, SIZES)
def test_few_is_a_matrix_product(rows, inner, columns, batch):
    generator = torch.Generator().manual_seed(rows + 5 * inner + 25 * columns + 125 * batch)
    a = torch.randn(batch, 2, rows, inner, dtype=torch.float64, generator=generator)
    b = torch.randn(batch, 1, inner, columns, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(few(a, b), a @ b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_summed_is_a_sum(count, keepdim):
    x = torch.arange(2.0 * count * 5).reshape(2, count, 5)
    for dim in (1, -2):
        assert torch.equal(summed(x, dim, keepdim), x.sum(dim, keepdim=keepdim))
