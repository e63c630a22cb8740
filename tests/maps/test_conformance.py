"""Properties of every feature map and of its one-token view, against recomputing the map."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wordsens
from wordsens.errors import UserError
from wordsens.maps import MAPS, MapOptions, map_class

MAKERS = {
    "rf": {},
    "drf": {"depth": 3},
    "raf": {},
    "relu_raf": {},
    "qkv": {"heads": 2, "head_dim": 5},
}
ACTIVATIONS = ("relu", "tanh", "gelu", "sigmoid", "identity")


def test_the_suite_covers_every_map():
    assert set(MAKERS) == set(MAPS)


def sample(n, d, *, lead=(), seed=0, twins=False):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(*lead, n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    if twins:
        X[..., 2, :] = X[..., 1, :]
        X[..., 0, :] = X[..., 1, :]
    return X


def attention_with_logits(name, d, largest, X):
    """An attention map scaled so that the largest |score| of X is ``largest``."""
    plain = wordsens.build_map(name, d=d, seed=5, **(MAKERS[name] if name == "qkv" else {}))
    scale = largest / plain.state(X[None]).scores.abs().max().item()
    if name == "qkv":
        return type(plain)(
            plain.query.matrix[0] * scale * plain.query.matrix.shape[-2] ** 0.5,
            plain.key.matrix[0],
            plain.value.matrix[0],
        )
    return type(plain)(plain.query.matrix[0, 0].mT * scale * d**0.5)


def moved(X, positions, delta):
    out = X.expand(*delta.shape[:-2], *X.shape).clone()
    out[..., list(positions), :] += delta
    return out


def check_view(map, X, positions, delta, u):
    """features, value, gradient and linear functionals equal those of the recomputed map."""
    view = map.perturb(X, tuple(positions))
    base = map.features(X)
    delta = delta.clone().requires_grad_()
    rows = moved(X, positions, delta)
    whole = map.features(rows) if not hasattr(map, "layers") else differentiable(map, rows)
    gap = (whole - base).flatten(1).pow(2).sum(1)
    (slope,) = torch.autograd.grad(gap.sum(), delta, retain_graph=True)
    plain = delta.detach()
    size = base.norm() ** 2
    assert torch.allclose(view.features(plain), whole, rtol=1e-10, atol=1e-10 * base.abs().max())
    value, grad = view.value_and_grad(plain)
    assert (value - gap).abs().max() <= 1e-10 * (gap.max() + 1e-3 * size)
    assert (grad - slope).abs().max() <= 1e-9 * (slope.abs().max() + 1e-3 * size)
    functional = (whole * u).flatten(1).sum(1)
    (tilt,) = torch.autograd.grad(functional.sum(), delta)
    got, got_grad = view.linear(plain, u)
    assert torch.allclose(got, functional, rtol=1e-10, atol=1e-10 * base.norm() * u.norm())
    assert (got_grad - tilt).abs().max() <= 1e-9 * (tilt.abs().max() + 1e-3 * u.norm())


def differentiable(map, X):
    h = X.flatten(-2)[None]
    for V in map.layers:
        h = map.phi.value(V(h))
    return h[0]


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(3, 9),
    d=st.integers(2, 12),
    words=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    twins=st.booleans(),
)
def test_view_equals_recomputing(name, n, d, words, seed, twins):
    X = sample(n, d, seed=seed, twins=twins)
    map = wordsens.build_map(name, n=n, d=d, seed=seed, **MAKERS[name])
    g = torch.Generator().manual_seed(seed)
    positions = torch.randperm(n, generator=g)[:words].tolist()
    delta = torch.randn(4, words, d, generator=g, dtype=torch.float64)
    delta[3] = 0  # no change at all
    features = map.features(X)
    u = torch.randn(features.shape, generator=g, dtype=torch.float64)
    check_view(map, X, positions, delta, u)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
@pytest.mark.parametrize("logit", [1.0, 28.0, 60.0])
@pytest.mark.parametrize("twins", [False, True], ids=["distinct", "twins"])
def test_view_at_extreme_logits(name, logit, twins):
    X = sample(8, 6, seed=3, twins=twins)
    map = attention_with_logits(name, 6, logit, X)
    g = torch.Generator().manual_seed(1)
    for positions in ([0], [4], [1, 2], [0, 1, 2]):
        delta = torch.randn(5, len(positions), 6, generator=g, dtype=torch.float64)
        features = map.features(X)
        u = torch.randn(features.shape, generator=g, dtype=torch.float64)
        check_view(map, X, positions, delta, u)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_float32_stays_near_float64_when_one_logit_is_28(name):
    """Leave-one-out by subtraction would lose every digit here."""
    X = sample(10, 8, seed=4)
    map = attention_with_logits(name, 8, 28.0, X)
    delta = torch.randn(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = map.perturb(X, 3).features(delta)
    lean = type(map).__new__(type(map))
    lean.__dict__ = dict(map.__dict__)
    lean.dtype = torch.float32
    for part in ("query", "key", "value"):
        matrix = getattr(map, part).matrix
        if matrix is not None:
            setattr(lean, part, type(map.query)(matrix.float()))
    found = lean.perturb(X.float(), 3).features(delta.float()).double()
    assert (found - exact).abs().max() <= 2e-4 * exact.abs().max()


@pytest.mark.parametrize("name", MAKERS)
def test_gradient_equals_finite_differences(name):
    n, d = 6, 5
    X = sample(n, d, seed=7)
    view = wordsens.build_map(name, n=n, d=d, seed=2, **MAKERS[name]).perturb(X, 2)
    delta = torch.randn(d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    step = 1e-5 * torch.eye(d, dtype=torch.float64)
    _, grad = view.value_and_grad(delta)
    up, down = view.value_and_grad(delta + step)[0], view.value_and_grad(delta - step)[0]
    assert torch.allclose(grad, (up - down) / 2e-5, rtol=1e-5, atol=1e-6 * up.max().item())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_random_features_with_every_activation(activation):
    X = sample(5, 4, seed=1)
    map = wordsens.build_map("rf", n=5, d=4, k=30, seed=0, activation=activation)
    g = torch.Generator().manual_seed(0)
    delta = torch.randn(3, 1, 4, generator=g, dtype=torch.float64)
    check_view(map, X, [1], delta, torch.randn(30, generator=g, dtype=torch.float64))


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_permuting_the_other_tokens_changes_nothing(name):
    X = sample(9, 6, seed=2)
    map = wordsens.build_map(name, d=6, seed=0, **MAKERS[name])
    order = torch.tensor([0, 5, 3, 8, 1, 2, 7, 4, 6])
    delta = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value, grad = map.perturb(X, 0).value_and_grad(delta)
    again, grad_again = map.perturb(X[order], 0).value_and_grad(delta)
    assert torch.allclose(value, again, rtol=1e-12)
    assert torch.allclose(grad, grad_again, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_batches_of_draws_equal_single_draws(name):
    trials, n, d = 3, 6, 5
    X = sample(n, d, lead=(trials,), seed=6)
    streams = [wordsens.Stream(0, "batch", trial=t) for t in range(trials)]
    options = dict(MAKERS[name])
    sets = torch.tensor([[2], [4]])
    view = map_class(name).draw_view(X, sets, streams, MapOptions(**options))
    v = torch.randn(trials, 2, 3, 1, d, generator=torch.Generator().manual_seed(0)).double()
    value, grad = view.value_and_grad(v)
    for t in range(trials):
        one = map_class(name).draw_view(
            X[t : t + 1], sets, streams[t : t + 1], MapOptions(**options)
        )
        single, single_grad = one.value_and_grad(v[t : t + 1])
        assert torch.allclose(value[t : t + 1], single, rtol=1e-10)
        assert torch.allclose(grad[t : t + 1], single_grad, rtol=1e-9, atol=1e-10)


def test_relu_rows_without_positive_scores_output_zero():
    d = 4
    X = torch.eye(d, dtype=torch.float64)[:3] * d**0.5
    map = wordsens.build_map("relu_raf", weights={"W": -torch.ones(d, d, dtype=torch.float64)})
    assert map.features(X).abs().max() == 0
    delta = torch.randn(2, 1, d, dtype=torch.float64)
    assert torch.allclose(
        map.perturb(X, (0,)).features(delta), map.features(moved(X, [0], delta)), atol=1e-12
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wordsens.build_map("rfa", d=3), "rfa.*choose one of rf, drf"),
        (lambda: wordsens.build_map("rf", d=3), "needs n"),
        (lambda: wordsens.build_map("raf", depth=2, d=3), "only map drf"),
        (lambda: wordsens.build_map("qkv", weights={"WQ": torch.eye(2)}), "WK"),
        (lambda: wordsens.build_map("raf", weights={"W": torch.ones(2, 3)}), "d, d"),
        (lambda: wordsens.build_map("drf", n=3, d=3, activation="tanh"), "equation 7"),
        (
            lambda: wordsens.build_map("raf", d=3).perturb(torch.ones(4, 3), 4),
            "position 4 is outside 0 … 3",
        ),
    ],
)
def test_mistakes_are_one_clear_line(call, words):
    with pytest.raises(UserError, match=words) as error:
        call()
    assert "\n" not in str(error.value)
