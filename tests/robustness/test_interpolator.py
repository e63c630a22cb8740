"""Kernel forms against explicit features and autograd, for every activation."""

import pytest
import torch

import wordsens
from wordsens.activations import _activations, activation
from wordsens.randomness import Stream
from wordsens.robustness import rows as rows_module
from wordsens.robustness.input_sensitivity import interpolate
from wordsens.robustness.rows import GivenRows, Rows

N, D, K = 7, 9, 12
OWN = (lambda a: torch.exp(-a * a), lambda a: -2 * a * torch.exp(-a * a))
ACTIVATIONS = [*_activations(), OWN]


def _value(phi):
    return phi[0] if isinstance(phi, tuple) else activation(phi).value


def network_gradient(W, x, value):
    """φ(x) = ∇_W of the antisymmetric network at W, of its first half (k, d)."""
    W = W.detach().requires_grad_()
    twin = W.detach()
    f = value(W @ x).sum() - value(twin @ x).sum()
    return torch.autograd.grad(f, W, create_graph=True)[0].reshape(-1)


@pytest.fixture(name="data")
def _data():
    torch.manual_seed(0)
    X, x = torch.randn(N, D, dtype=torch.float64), torch.randn(3, D, dtype=torch.float64)
    return X, torch.sign(torch.randn(N, dtype=torch.float64)), x, torch.randn(K, D).double() / 3


@pytest.mark.parametrize("phi", ACTIVATIONS, ids=lambda phi: phi if isinstance(phi, str) else "own")
@pytest.mark.parametrize("features", ["rf", "ntk"])
def test_equals_explicit_features_and_autograd(features, phi, data):
    X, y, x, W = data
    value = _value(phi)

    def explicit(point):
        return value(W @ point) if features == "rf" else network_gradient(W, point, value)

    Phi = torch.stack([explicit(each) for each in X]).detach()
    theta = Phi.mT @ torch.linalg.solve(Phi @ Phi.mT, y)
    result = wordsens.input_sensitivity(X, y, x, features, weights=W, activation=phi)
    for i, point in enumerate(x):
        at = point.clone().requires_grad_()
        f = explicit(at) @ theta
        gradient = torch.autograd.grad(f, at)[0]
        S = point.norm() * gradient.norm()
        assert result.output[i].item() == pytest.approx(f.item(), rel=1e-10, abs=1e-10)
        assert (result.gradient[i] - gradient).norm() <= 1e-10 * gradient.norm()
        assert result.sensitivity[i].item() == pytest.approx(S.item(), rel=1e-10)
    assert result.residual < 1e-10
    assert result.parameters == Phi.shape[1]


@pytest.mark.parametrize("features", ["rf", "ntk"])
def test_a_matrix_in_chunks_is_the_whole_matrix(features, data, monkeypatch):
    X, y, x, _ = data
    monkeypatch.setattr(rows_module, "CHUNK", 5 * D)
    drawn = Rows(K, D, Stream(3, "robustness", map=features))
    W = torch.cat(list(drawn))
    assert len(list(drawn)) == 3
    assert W.std().item() == pytest.approx(D**-0.5, rel=0.5)
    monkeypatch.setattr(rows_module, "KEPT_BYTES", 0)
    monkeypatch.setattr("wordsens.robustness.interpolator.KEPT_BYTES", 0)
    monkeypatch.setattr("wordsens.robustness.interpolator.POINTS_BYTES", 1)
    lazy = wordsens.input_sensitivity(X, y, x, features, width=K, seed=3)
    monkeypatch.undo()
    whole = wordsens.input_sensitivity(X, y, x, features, weights=W)
    assert torch.allclose(lazy.gradient, whole.gradient, rtol=1e-12)
    assert torch.allclose(lazy.output, whole.output, rtol=1e-12)
    monkeypatch.setattr(rows_module, "CHUNK", 5 * D)
    wider = torch.cat(list(Rows(2 * K, D, Stream(3, "robustness", map=features))))
    assert torch.equal(wider[:K], W)


@pytest.mark.parametrize("features", ["rf", "ntk"])
@pytest.mark.parametrize("phi", ["tanh", "gelu", "softplus", "cos", "sin", "square", "sigmoid"])
def test_the_lipschitz_constant_of_the_gradient_bounds_the_hessian(features, phi, data):
    X, y, x, W = data
    model = interpolate(X, y, features, weights=W, activation=phi)
    radius = torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)
    bound = model.gradient_lipschitz(x, radius)
    tightest = 0.0
    for point, r, most in zip(x, radius, bound, strict=True):
        for away in torch.nn.functional.normalize(torch.randn(20, D, dtype=torch.float64)):
            at = point + r * away

            def gradient(z):
                return model.value_and_gradient(z)[1]

            step = 1e-6
            H = torch.stack(
                [
                    (gradient(at + step * e) - gradient(at - step * e)) / (2 * step)
                    for e in torch.eye(D, dtype=torch.float64)
                ]
            )
            norm = torch.linalg.matrix_norm(H, ord=2).item()
            assert norm <= most.item() * (1 + 1e-6)
            tightest = max(tightest, norm / most.item())
    assert tightest > 0.01


def test_no_constant_where_a_derivative_is_unbounded(data):
    X, y, x, W = data
    for features, phi in (("rf", "relu"), ("ntk", "relu"), ("rf", "hermite3"), ("ntk", OWN)):
        model = interpolate(X, y, features, weights=W, activation=phi)
        assert model.gradient_lipschitz(x, torch.ones(3)).isinf().all()


def test_given_rows_keep_their_order(data):
    W = torch.randn(5000, 300, dtype=torch.float64)
    parts = list(GivenRows(W))
    assert len(parts) > 1
    assert torch.equal(torch.cat(parts), W)


def test_even_activations_are_more_robust(data):
    """Tangent features with ϕ even against ϕ odd, n = 60, d = k = 100 (the talk)."""
    stream = Stream(0, "test")
    X = torch.nn.functional.normalize(stream.normal(80, 100).double()) * 10
    y = torch.sign(stream.normal(60).double())
    S = {
        phi: wordsens.input_sensitivity(X[:60], y, X[60:], width=100, activation=phi)
        for phi in ("square", "cos", "tanh", "sin")
    }
    even = max(S[phi].sensitivity.mean() for phi in ("square", "cos"))
    odd = min(S[phi].sensitivity.mean() for phi in ("tanh", "sin"))
    assert odd > 2 * even
