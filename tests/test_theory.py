import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.maps import MapOptions, map_class
from wordsens.search import climb
from wordsens.theory import _through, large_width_limit


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_moments_by_monte_carlo(activation):
    aa, bb, ab = 1.0, 1.4, 0.8
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 2_000_000, generator=g, dtype=torch.float64)
    phi = wordsens.activations.activation(activation).value
    a, b = phi(x), phi(ab * x + (bb - ab * ab) ** 0.5 * y)
    for found, sampled in zip(_through(aa, bb, ab, activation), (a * a, b * b, a * b), strict=True):
        error = 5.5 * sampled.std().item() / len(x) ** 0.5  # false alarm 4e-8
        assert abs(found - sampled.mean().item()) < error


def test_quadrature_agrees_with_the_arc_cosine_kernel():
    from wordsens import theory

    nodes, weights = theory.np.polynomial.hermite_e.hermegauss(200)
    weights /= weights.sum()
    aa, bb, ab = 1.0, 1.2, 0.9
    b = ab * nodes[:, None] + (bb - ab * ab) ** 0.5 * nodes
    a = nodes
    mixed = (weights * a.clip(0)) @ (b.clip(0) @ weights)
    assert _through(aa, bb, ab, "relu")[2] == pytest.approx(mixed, rel=1e-3)


def test_close_to_one_over_root_n():
    for n in (100, 1000, 10000):
        assert large_width_limit(n) == pytest.approx(n**-0.5, rel=0.2 / n**0.5)
    assert large_width_limit(100, words=4) == pytest.approx(large_width_limit(25), rel=1e-9)
    assert large_width_limit(50, depth=1) == pytest.approx(large_width_limit(50), rel=1e-9)


@pytest.mark.parametrize(("name", "depth"), [("rf", None), ("drf", 3)])
def test_wide_maps_approach_the_limit(name, depth):
    """k = 40,000 neurons on d = 4: the found value exceeds the limit by a factor below 1 + √(d/k)
    per layer that adapts, plus sampling noise of order 1/√k."""
    n, d, k = 6, 4, 40_000
    X = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    options = {"depth": depth} if depth else {}
    view = map_class(name).draw_view(
        X, torch.tensor([[0]]), [wordsens.Stream(0, "wide")], MapOptions(width=k, **options)
    )
    starts = torch.randn(1, 1, 4, 1, d, generator=torch.Generator().manual_seed(1)).double()
    found = climb(view, starts, anneal=0, steps=40)
    limit = large_width_limit(n, depth=depth)
    assert found.value.sqrt().item() / view.norm.item() == pytest.approx(limit, rel=0.03)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("depth", [None, 1, 2, 4])
def test_all_words_may_change(activation, depth):
    """With every word changed b = 0 is possible: ‖φ(X)‖ at least is lost, for ReLU."""
    whole = large_width_limit(10, words=10, depth=depth, activation=activation)
    assert whole == pytest.approx(
        large_width_limit(1, depth=depth, activation=activation), rel=1e-9
    )
    assert 0.999 < whole < 3
    part = large_width_limit(10, words=9, depth=depth, activation=activation)
    assert part < whole + 1e-9


@pytest.mark.parametrize(("n", "words"), [(5, 6), (5, 0), (0, 1), (5, 1.5)])
def test_words_that_are_not_there(n, words):
    with pytest.raises(UserError) as caught:
        large_width_limit(n, words=words, depth=2)
    assert "\n" not in str(caught.value)
