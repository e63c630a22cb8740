"""Word sensitivities on lazy matrices have the law of those on stored ones.

Each comparison makes a two-sample Kolmogorov–Smirnov test and a test of the mean at 1e-7 each;
the whole file raises a false alarm with probability below 1e-6.
"""

import pytest
import torch
from scipy import stats

import wordsens
from wordsens.activations import activation
from wordsens.gaussian import DenseGaussian, LazyGaussian
from wordsens.maps import MapOptions, map_class
from wordsens.maps.random_features import RandomFeaturesView
from wordsens.search import climb

SEEDS, N, D = 500, 4, 6
LEVEL = 1e-7


def sample():
    X = torch.randn(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return X / X.norm(dim=-1, keepdim=True) * D**0.5


def sups(view):
    start = torch.ones(SEEDS, 1, 1, 1, D, dtype=torch.float64)
    start[..., ::2] = -1
    found = climb(view, start, anneal=0, steps=15)
    return (found.value.sqrt() / view.norm).flatten().numpy()


def stored(name, depth):
    """Dense layers, the whole D × D first matrix included, for SEEDS draws."""
    cls, k = map_class(name), N * D
    beta = cls.scale(activation("relu"))
    layers = [
        DenseGaussian.draw(
            k,
            k,
            [wordsens.Stream(t, "dense", layer=layer) for t in range(SEEDS)],
            std=(beta / k) ** 0.5,
        )
        for layer in range(depth)
    ]
    map = cls(layers, activation("relu"), batched=True)
    return sups(map.view(sample().expand(SEEDS, -1, -1), torch.tensor([[0]])))


def drawn(name, depth, lazy=LazyGaussian):
    streams = [wordsens.Stream(t, "lazy") for t in range(SEEDS)]
    options = {"depth": depth} if name == "drf" else {}
    X = sample().expand(SEEDS, -1, -1)
    return sups(map_class(name).draw_view(X, torch.tensor([[0]]), streams, MapOptions(**options)))


def same_law(a, b):
    return stats.ks_2samp(a, b).pvalue > LEVEL and stats.ttest_ind(a, b).pvalue > LEVEL


@pytest.mark.parametrize(("name", "depth"), [("rf", 1), ("drf", 1), ("drf", 2), ("drf", 4)])
def test_found_values_have_the_dense_law(name, depth):
    assert same_law(drawn(name, depth), stored(name, depth))


def test_the_test_catches_a_missing_conditioning_term(monkeypatch):
    whole = LazyGaussian._product

    def forgetful(self, x, asked, other, fresh):
        if asked is self._right:
            other = type(other)(self.batch, self.rows, self.columns, self.dtype, self.device)
        return whole(self, x, asked, other, fresh)

    monkeypatch.setattr(LazyGaussian, "_product", forgetful)
    assert not same_law(drawn("rf", 1), stored("rf", 1))


def test_whole_lazy_matrix_and_token_block_have_one_law():
    """The map of the Python interface keeps V whole; a sweep draws only what a word meets."""
    streams = [wordsens.Stream(t, "whole") for t in range(SEEDS)]
    map = map_class("rf").draw((N, D), streams, dtype=torch.float64)
    view = map.view(sample().expand(SEEDS, -1, -1), torch.tensor([[0]]))
    assert isinstance(view, RandomFeaturesView)
    assert same_law(sups(view), drawn("rf", 1))


def test_positions_of_one_draw_share_their_matrix():
    """With all positions at once, φ(X) is one vector of the right law."""
    streams = [wordsens.Stream(t, "all") for t in range(SEEDS)]
    X = sample().expand(SEEDS, -1, -1)
    view = map_class("rf").draw_view(X, torch.arange(N)[:, None], streams)
    assert torch.allclose(view.base[:, :1], view.base, atol=1e-10)
    z = (view.base[:, 0, 0] > 0).double().mean().item()
    assert abs(z - 0.5) < 5.4 * 0.5 / (SEEDS * N * D) ** 0.5  # 5.4σ: 7e-8


def test_default_effort_keeps_the_bases_of_wide_maps_in_memory():
    """At n = 4096, d = 5120 (k = 21 million) two bases of float32 vectors stay below 8 GB."""
    effort = map_class("rf").effort_for(4096, 5120)
    assert 2 * 4 * 4096 * 5120 * effort.starts * effort.steps < 8e9
    assert effort.steps >= 15
