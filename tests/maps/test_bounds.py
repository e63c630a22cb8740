"""sup ≤ bound: the certificate holds at every Δ, not only at found ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wordsens


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 12),
    d=st.integers(2, 20),
    seed=st.integers(0, 10**6),
    scale=st.floats(0.05, 30),
    reach=st.floats(0.1, 2),
)
def test_no_delta_passes_the_attention_bound(n, d, seed, scale, reach):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    W = torch.randn(d, d, generator=g, dtype=torch.float64) / d**0.5 * scale
    map = wordsens.build_map("raf", weights={"W": W})
    found = wordsens.word_sensitivity(map, X, positions="all", reach=reach, starts=6)
    assert (found.by_position <= found.bound_by_position * (1 + 1e-9)).all()
    v = torch.randn(1, n, 200, 1, d, generator=g, dtype=torch.float64)
    v = v / v.norm(dim=-1, keepdim=True) * reach * d**0.5
    view = map.view(X[None], torch.arange(n)[:, None])
    value, _ = view.value_and_grad(view.tokens[:, :, None] + v)
    bound = found.bound_by_position * map.features(X).norm()
    assert (value[0].amax(-1).sqrt() <= bound * (1 + 1e-9)).all()


def test_the_bound_says_something():
    """Measured at n = 100, d = 384: the bound is below twice the found value."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(100, 384, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * 384**0.5
    found = wordsens.word_sensitivity(wordsens.build_map("raf", d=384, seed=0), X)
    assert found.sup < found.bound < 2 * found.sup


@pytest.mark.parametrize("seed", range(5))
def test_random_feature_bound(seed):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(6, 10, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * 10**0.5
    for activation in ("relu", "gelu", "tanh"):
        map = wordsens.build_map("rf", n=6, d=10, seed=seed, activation=activation)
        found = wordsens.word_sensitivity(map, X)
        assert found.sup <= found.bound
