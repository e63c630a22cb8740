"""What is reported is attained, never below a point that was visited, and right in its digits."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import wordsens
from wordsens.activations import activation
from wordsens.gaussian import DenseGaussian
from wordsens.maps import map_class, position_sets
from wordsens.maps.attention.view import AttentionView
from wordsens.maps.random_view import RandomFeaturesView
from wordsens.randomness import Stream
from wordsens.search import audit, audited_trials
from wordsens.search.auditing import longer
from wordsens.search.momentum import Course, Front, ascend
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search, starting_points

MAPS = {"rf": {}, "drf": {"depth": 3}, "raf": {}, "relu_raf": {}, "qkv": {"heads": 2}}


def sample(n, d, seed=0, mean=0.0):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=g, dtype=torch.float64)
    X = X + mean * torch.randn(d, generator=g, dtype=torch.float64)
    return X / X.norm(dim=-1, keepdim=True) * d**0.5


def change(map, X, found):
    """The relative change of the whole map at the Δ found, from features in float64."""
    changed = X.clone()
    changed[found.position] += found.delta.to(X)
    base = map.features(X)
    return ((map.features(changed) - base).norm() / base.norm()).item()


@pytest.mark.parametrize(("n", "d"), [(5, 3), (10, 4), (10, 32)])
def test_never_below_its_own_starts(n, d):
    """With one step, relu_raf and raf report at least the best of their starts."""
    for name in ("raf", "relu_raf", "qkv"):
        for seed in range(8):
            map = wordsens.build_map(name, n=n, d=d, seed=seed)
            X = sample(n, d, seed, mean=seed % 2)
            view = map.view(X[None], position_sets([[0]], n))
            if not view.norm.item():  # φ(X) = 0, of which nothing is a share
                continue
            stream = Stream(0, "search", trial=0)
            effort = map.effort_for(n, d)
            noise = stream.child("starts", words=[0]).normal(effort.starts, 1, d)[None, None]
            points, _ = starting_points(view, noise.to(X))
            unit = points / points.norm(dim=-1, keepdim=True)
            at = view.tokens[:, :, None] + view.radius * unit
            best = view.value_and_grad(at)[0].max().sqrt().item() / view.norm.item()
            for steps in (1, None):
                found = wordsens.word_sensitivity(map, X, seed=0, steps=steps)
                assert found.sup >= best * (1 - 1e-9)


def test_momentum_keeps_the_best_point_that_it_visits():
    """Even where the last steps lead away from it, as with steps that do not fall."""
    map, X = wordsens.build_map("relu_raf", d=6, seed=1), sample(9, 6, 1)
    view = map.view(X[None], position_sets([[0]], 9))
    seen = []
    plain = view.value_and_grad

    def watched(v, sharpness=1.0):
        value, grad = plain(v, sharpness)
        seen.append(value)
        return value, grad

    view.value_and_grad = watched
    start = torch.randn(1, 1, 5, 1, 6, generator=torch.Generator().manual_seed(0)).double()
    front = ascend(view, Front.of(start), Course(25, (1.0,), 1.0, {}))
    assert torch.equal(front.value, torch.stack(seen).amax(0))
    again, _ = plain(view.tokens[:, :, None] + view.radius * front.u)
    torch.testing.assert_close(again, front.value)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("reach", [1e-6, 1e-4, 1e-2, 0.3, 3.0])
def test_right_for_every_reach_in_float32(name, reach):
    n, d = 8, 6
    X = sample(n, d, 2)
    exact = wordsens.build_map(name, n=n, d=d, seed=3, **MAPS[name])
    weights = {
        "raf": lambda m: {"W": m.query.matrix[0, 0].mT * d**0.5},
        "relu_raf": lambda m: {"W": m.query.matrix[0, 0].mT * d**0.5},
    }
    if name in weights:
        given = weights[name](exact)
    else:
        g = torch.Generator().manual_seed(4)
        draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
        given = {
            "rf": {"V1": draw(n * d, n * d) / (n * d) ** 0.5},
            "drf": {f"V{i}": draw(n * d, n * d) / (n * d) ** 0.5 for i in (1, 2, 3)},
            "qkv": {w: draw(2, d, d) / d**0.5 for w in ("WQ", "WK", "WV")},
        }[name]
    single = {k: w.float().double() for k, w in given.items()}
    exact = wordsens.build_map(name, weights=single, n=n)
    rough = wordsens.build_map(name, weights={k: w.float() for k, w in single.items()}, n=n)
    X = X.float().double()
    found = wordsens.word_sensitivity(rough, X.float(), reach=reach)
    assert found.sup == pytest.approx(change(exact, X, found), rel=1e-3)
    assert found.delta.norm().item() <= reach * d**0.5 * (1 + 1e-5)
    wide = wordsens.word_sensitivity(exact, X, reach=reach)
    assert wide.sup == pytest.approx(change(exact, X, wide), rel=1e-6)
    tolerance = 3e-2 if name == "relu_raf" else 1e-3  # of ridges, where searches end apart
    assert found.sup == pytest.approx(wide.sup, rel=tolerance)


def test_rf_stays_within_its_bound_however_small_the_ball():
    for seed in range(6):
        X = sample(3, 1, seed)
        V = torch.randn(1, 3, generator=torch.Generator().manual_seed(seed))
        for dtype in (torch.float32, torch.float64):
            map = wordsens.build_map("rf", weights={"V1": V.to(dtype)}, n=3)
            if not map.features(X).any():
                continue
            for reach in (1e-9, 1e-7, 1e-3, 1.0):
                found = wordsens.word_sensitivity(map, X.to(dtype), reach=reach)
                assert found.sup <= found.bound


def test_two_scalar_words_where_annealing_led_to_nothing():
    """Δ = +1 moves X = (−1, −1) by 0.79; the smoother problem lies on the other side."""
    weights = {"WQ": [[18.0]], "WK": [[-2.0]], "WV": [[-0.7]]}
    map = wordsens.build_map("qkv", weights={k: torch.tensor(w) for k, w in weights.items()})
    found = wordsens.word_sensitivity(map, torch.tensor([[-1.0], [-1.0]]))
    view = map.perturb(torch.tensor([[-1.0], [-1.0]]), 0)
    value, _ = view.value_and_grad(torch.tensor([[1.0], [-1.0]]))
    assert found.sup >= value.max().sqrt().item() / map.features([[-1.0], [-1.0]]).norm() * 0.9999


def test_relu_attention_is_refined_along_its_ridges():
    """Values of 100 words, d = 128, near the best that 240 starts with long refinement found."""
    n, d, best = 100, 128, torch.tensor([0.771, 0.7023, 0.7073, 0.7951])
    streams = [Stream(0, "audit", map="relu_raf", n=n, d=d, t=t) for t in (0, 2, 4, 6)]
    X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
    X = (X / X.norm(dim=-1, keepdim=True) * d**0.5).float()
    cls, sets = map_class("relu_raf"), torch.tensor([[0]])
    view = cls.draw_view(X, sets, [s.child("map") for s in streams])
    suprema = search(cls, view, sets, streams, cls.effort_for(n, d), n)
    found = summarise([suprema], sets, single=False).sup
    assert (found > 0.985 * best).all()
    assert found.mean() > 0.99 * best.mean()


@pytest.mark.parametrize("seed", range(6))
def test_maxima_inside_the_ball_are_found(seed):
    """d = 1: every Δ in [−1, 1] on a grid; attention with large weights, and gelu networks."""
    n = 4
    g = torch.Generator().manual_seed(seed)
    X = sample(n, 1, seed)
    raf = wordsens.build_map("raf", weights={"W": 12 * torch.randn(1, 1, generator=g).double()})
    layers = [
        torch.randn(6, n, generator=g).double() * 3,
        torch.randn(6, 6, generator=g).double() * 2,
    ]
    phi = activation("gelu")
    drf = map_class("drf")([DenseGaussian(V[None]) for V in layers], phi)
    for map in (raf, drf):
        found = wordsens.word_sensitivity(map, X)
        grid = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None]
        value, _ = map.perturb(X, 0).value_and_grad(grid)
        largest = value.max().sqrt().item() / map.features(X).norm().item()
        assert found.sup >= largest * (1 - 1e-3)


def test_words_in_their_own_place_change_nothing():
    X = sample(12, 16, 0, mean=1.0).float()
    for name in ("raf", "relu_raf"):
        map = wordsens.build_map(name, d=16, seed=0, dtype=torch.float32)
        change = wordsens.vocabulary_sensitivity(map, X, X).change
        assert (change.diagonal() == 0).all()
        off = change[~torch.eye(12, dtype=torch.bool)]
        assert (off > 0).all()


def test_an_audit_goes_on_with_the_same_matrices():
    """rf: the longer search may find more, but never more than the first search's bound."""
    trials, n, d = 5, 4, 8
    X = torch.stack([sample(n, d, t) for t in range(trials)])
    streams = [Stream(0, "cell", trial=t) for t in range(trials)]
    chosen = audited_trials(trials, 0.4, Stream(0, "cell"))
    assert len(chosen) == 2
    assert audited_trials(trials, 1e-3, Stream(0, "cell"))  # at least one
    assert audited_trials(trials, 0, Stream(0, "cell")) == []
    sets = torch.tensor([[0], [2]])
    for name in ("rf", "raf", "relu_raf"):
        cls = map_class(name)
        view = cls.draw_view(X, sets, streams)
        effort = cls.effort_for(n, d)
        found = summarise([search(cls, view, sets, streams, effort, n)], sets, single=False)
        result = audit(cls, view, sets, streams, effort, n, found=found.sup, chosen=chosen)
        assert result.count == 2
        assert torch.isfinite(result.audited[chosen]).all()
        assert result.audited.isnan().sum() == trials - 2
        torch.testing.assert_close(result.audited[chosen], found.sup[chosen], rtol=0.02, atol=0)
        assert 0 <= result.largest < 0.02
        assert "2 audited" in result.sentence()
    assert longer(effort).starts * longer(effort).steps == 10 * effort.starts * effort.steps
    assert math.isnan(RandomFeaturesView.bound(_deep()).item())


def _deep():
    V = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)).double()
    x = torch.ones(1, 1, 1, 2, dtype=torch.float64)
    layers = (DenseGaussian(V[..., :2]), [DenseGaussian(V)])
    return RandomFeaturesView(x, torch.zeros(1, 1, 4).double(), *layers, activation("relu"))


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_exploring_in_float32_finds_what_float64_does(name, monkeypatch) -> None:
    X = sample(40, 128, seed=3)
    phi = wordsens.build_map(name, n=40, d=128, seed=1)
    view = phi.view(X[None], torch.tensor([[0]]))
    assert view.coarse().tokens.dtype == torch.float32
    found = wordsens.word_sensitivity(phi, X)
    monkeypatch.setattr(AttentionView, "coarse", lambda self: self)
    wide = wordsens.word_sensitivity(phi, X)
    assert found.sup >= wide.sup * (1 - (5e-3 if view.kinked else 1e-6))


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
@pytest.mark.parametrize("wrong", [1.01, math.nan])
def test_a_coarse_view_that_sees_another_F_is_not_followed(name, wrong, monkeypatch) -> None:
    X = sample(20, 16, seed=3)
    phi = wordsens.build_map(name, n=20, d=16, seed=1)
    plain = wordsens.word_sensitivity(phi, X)

    def misled(self: AttentionView) -> AttentionView:
        view = copy.copy(self)

        def value_and_grad(v: torch.Tensor, sharpness: float = 1.0) -> tuple[torch.Tensor, ...]:
            value, grad = self.value_and_grad(v, sharpness)
            return wrong * value, grad

        view.value_and_grad = value_and_grad
        return view

    monkeypatch.setattr(AttentionView, "coarse", misled)
    found = wordsens.word_sensitivity(phi, X)
    assert torch.equal(found.delta, plain.delta)
    assert found.steps == plain.steps
