"""The climb itself: conjugate directions, and the halving of starts."""

import math
from types import SimpleNamespace

import pytest
import torch

import wordsens
from wordsens.activations import Activation
from wordsens.gaussian import DenseGaussian
from wordsens.maps.random_features import RandomFeaturesView
from wordsens.search.maximum import tangent
from wordsens.search.power import climb

IDENTITY = Activation("identity", lambda a: a, torch.ones_like, 1.0)


def linear_view(d, seed=0):
    """φ(v) = V v with V d × d: F is ‖VΔ‖², largest at V's first singular vector."""
    generator = torch.Generator().manual_seed(seed)
    V = torch.randn(1, d, d, generator=generator, dtype=torch.float64) / d**0.5
    x = torch.randn(1, 1, 1, d, generator=generator, dtype=torch.float64)
    x *= d**0.5 / x.norm()
    view = RandomFeaturesView(x, torch.zeros(1, 1, d), DenseGaussian(V), [], IDENTITY)
    start = torch.randn(1, 1, 1, 1, d, generator=generator, dtype=torch.float64)
    return view, start, torch.linalg.matrix_norm(V, 2).item() ** 2 * d


def missing(d, seeds, steps=30):
    """What the climb leaves of ‖V‖² √d², on average."""
    shares = []
    for seed in seeds:
        view, start, largest = linear_view(d, seed)
        shares.append(1 - climb(view, start, anneal=0, steps=steps).value.item() / largest)
    return sum(shares) / len(shares)


def test_conjugate_directions_reach_the_edge_of_the_spectrum(monkeypatch):
    """No gap separates the largest singular value of a square Gaussian matrix from the others."""
    found = missing(300, range(6))
    assert 0 <= found < 0.002

    def plain(aim, before, slope, u, go_on):
        flat = tangent(slope, u)
        return flat, flat

    monkeypatch.setattr("wordsens.search.power._conjugate", plain)
    assert missing(300, range(6)) > 3 * found, "plain power steps creep"


@pytest.mark.parametrize("name", ["rf", "raf"])
def test_halving_keeps_the_start_it_names(name):
    """The winner, climbing alone, arrives where it did among the others, in as many steps."""
    n, d, trials, sets = 6, 16, 2, torch.tensor([[0]])
    X = torch.randn(trials, n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X *= d**0.5 / X.norm(dim=-1, keepdim=True)
    weights = {"rf": {"V1": torch.randn(32, n * d).double()}, "raf": {"W": torch.randn(d, d)}}
    phi = wordsens.build_map(name, weights=weights[name], n=n if name == "rf" else None)
    starts = torch.randn(
        trials, 1, 11, 1, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    for trial in range(trials):
        view = phi.view(X[trial : trial + 1], sets)
        several = starts[trial : trial + 1]
        found = climb(view, several, anneal=0, steps=40, halve=4)
        assert found.finals.shape == (1, 1, 2)  # 11, 6, 3, 2
        alone = several[:, :, found.start.item()][:, :, None]
        again = climb(view, alone, anneal=0, steps=40)
        torch.testing.assert_close(again.value, found.value, rtol=1e-10, atol=0)
        torch.testing.assert_close(again.delta, found.delta, rtol=1e-6, atol=1e-6)
        assert again.steps.item() == found.steps.item()
        assert found.finals.max() == found.value


def test_halving_keeps_the_better_half():
    """One start lies on the top already; wherever it stands in the batch, it wins."""
    view, _, largest = linear_view(40)
    top = torch.linalg.svd(view.block.matvec(torch.eye(40).double()[None])[0].mT).Vh[0]
    for place in (0, 3, 6):
        starts = torch.randn(1, 1, 7, 1, 40, dtype=torch.float64)
        starts[0, 0, place, 0] = top
        found = climb(view, starts, anneal=0, steps=3, halve=1)
        assert found.start.item() == place
        assert found.value.item() == pytest.approx(largest, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_ridge_is_followed_where_gradients_point_across_it(seed):
    """F = 10 + v_1 − 5 |v_2| on the sphere is largest at (1, 0, 0), on its kink."""

    def ridge(v, sharpness=1.0):
        grad = torch.zeros_like(v)
        grad[..., 0] = 1
        grad[..., 1] = -5 * v[..., 1].sign()
        return 10 + v[..., 0, 0] - 5 * v[..., 0, 1].abs(), grad

    centre = torch.zeros(1, 1, 1, 3, dtype=torch.float64)
    view = SimpleNamespace(tokens=centre, radius=1.0, value_and_grad=ridge)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(1, 1, 1, 1, 3, generator=generator, dtype=torch.float64)
    assert climb(view, start, anneal=0, steps=40).value.item() > 10.999


@pytest.mark.parametrize("name", ["raf", "qkv", "rf", "drf"])
@pytest.mark.parametrize("starts", [1, 2, 3, 4, 9])
def test_few_starts_of_a_halving_map_have_a_spread(name: str, starts: int) -> None:
    X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    map = wordsens.build_map(name, n=5, d=4, seed=1, **({"depth": 2} if name == "drf" else {}))
    spread = wordsens.word_sensitivity(map, X, starts=starts).spread
    alone = starts == 1 and not map.effort.anneal  # an annealed start climbs plainly, too
    assert math.isnan(spread) if alone else 0 <= spread < 1
