"""The minimum-norm model against the published outputs, and against plain pseudo-inverses.

The golden features of relu_raf carry float32 rounding: every recorded output is off by about 1e-8
from what NumPy's pinv makes of the recorded inputs, which ``fit`` equals to 1e-10.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.glm import GramFactor, LeastSquares, fit
from wordsens.gram import gram

GOLDEN = Path(__file__).parent / "golden" / "glm"
QUANTITIES = (
    "f_x",
    "f_delta",
    "f_delta_finetuned",
    "f_delta_retrained",
    "f_x_retrained",
    "feature_alignment",
    "feature_cosine",
    "gamma",
    "err_finetuned",
    "err_retrained",
)


def plain(Phi, Y, phi, y, changed, theta0=None):
    """All quantities by NumPy's pinv, the retrained model by training once more."""
    Phi, Y, phi, changed = (np.asarray(a, dtype=float) for a in (Phi, Y, phi, changed))
    start = np.zeros(len(phi)) if theta0 is None else theta0
    theta = start + np.linalg.pinv(Phi, rcond=1e-9) @ (Y - Phi @ start)
    bigger, labels = np.vstack([Phi, phi]), np.append(Y, y)
    retrained = start + np.linalg.pinv(bigger, rcond=1e-9) @ (labels - bigger @ start)
    tuned = theta + phi * (y - phi @ theta) / (phi @ phi)
    return {
        "f_x": phi @ theta,
        "f_delta": changed @ theta,
        "f_delta_finetuned": changed @ tuned,
        "f_delta_retrained": changed @ retrained,
        "f_x_retrained": phi @ retrained,
        "feature_alignment": changed @ (retrained - theta) / (y - phi @ theta),
        "feature_cosine": changed @ phi / (phi @ phi),
        "gamma": abs(changed @ theta - phi @ theta),
        "err_finetuned": (changed @ tuned + y) ** 2,
        "err_retrained": (changed @ retrained + y) ** 2,
    }


def samples(N, n, d, seed=0):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(N + 1, n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    Y = torch.where(torch.rand(N + 1, generator=g) < 0.5, -1.0, 1.0).double()
    return X[1:], Y[1:], X[0], Y[0].item(), torch.randn(d, generator=g, dtype=torch.float64)


def compare(model, x, y, delta, position=0, theta0=None, X=None, Y=None, tolerance=1e-9):
    map = model.map
    changed = x.clone()
    changed[position] += delta
    rows = map.features(torch.cat([X, x[None], changed[None]])).flatten(1)
    wanted = plain(rows[:-2], Y, rows[-2], y, rows[-1], theta0)
    found = model.evaluate(x, y, delta, position)
    for name in QUANTITIES:
        assert getattr(found, name) == pytest.approx(wanted[name], rel=tolerance, abs=tolerance), (
            name
        )


@pytest.mark.parametrize(
    ("case", "name", "tolerance"),
    [("glm_raf_n10_d24_N40", "raf", 1e-10), ("glm_relu_raf_n10_d24_N40", "relu_raf", 4e-8)],
)
def test_golden(case, name, tolerance):
    data = np.load(GOLDEN / f"{case}.npz")
    model = fit(wordsens.build_map(name, weights={"W": data["W"]}), data["X"], data["Y"])
    found = model.evaluate(data["x"], float(data["y"]), data["delta"])
    for key in QUANTITIES:
        assert getattr(found, key) == pytest.approx(float(data[key]), rel=tolerance, abs=tolerance)
    assert model.residual < 1e-12
    x, X = torch.tensor(data["x"]), torch.tensor(data["X"])
    compare(
        model, x, float(data["y"]), torch.tensor(data["delta"]), X=X, Y=data["Y"], tolerance=1e-10
    )


@pytest.mark.parametrize("name", ["rf", "drf", "raf", "relu_raf", "qkv"])
@pytest.mark.parametrize("start", [False, True], ids=["zero", "theta0"])
def test_equals_direct_pseudo_inverse(name, start):
    N, n, d = 9, 5, 6
    X, Y, x, y, delta = samples(N, n, d, seed=3)
    extra = {"drf": {"depth": 2}, "qkv": {"heads": 2}}.get(name, {})
    map = wordsens.build_map(name, n=n, d=d, seed=1, **extra)
    p = map.features(x).numel()
    theta0 = np.random.default_rng(0).normal(size=p) if start else None
    model = fit(map, X, Y, theta0)
    assert model.residual < 1e-10
    compare(model, x, y, delta, 2, theta0, X, Y)


def test_equals_explicit_projector():
    X, Y, x, y, delta = samples(12, 4, 5, seed=1)
    map = wordsens.build_map("raf", d=5, seed=0)
    found = fit(map, X, Y).evaluate(x, y, delta)
    Phi, phi = map.features(X).flatten(1).numpy(), map.features(x).flatten().numpy()
    changed = map.perturb(x, 0).features(delta).flatten().numpy()
    rest = (np.eye(len(phi)) - np.linalg.pinv(Phi) @ Phi) @ phi
    assert found.feature_alignment == pytest.approx(changed @ rest / (rest @ rest), rel=1e-9)


def test_repeated_samples_are_counted_and_change_nothing():
    X, Y, x, y, delta = samples(8, 4, 6, seed=2)
    map = wordsens.build_map("raf", d=6, seed=0)
    once = fit(map, X, Y)
    twice, labels = torch.cat([X, X[2:5]]), torch.cat([Y, Y[2:5]])
    model = fit(map, twice, labels)
    assert (once.duplicates, model.duplicates, model.contradictions) == (0, 3, [])
    assert (model.rank, model.solution.factor.kind) == (8, "cholesky")
    assert model.residual < 1e-10
    assert torch.allclose(model.theta, once.theta, rtol=1e-9, atol=1e-11)
    compare(model, x, y, delta, X=twice, Y=labels)


def test_contradictory_labels_are_reported_and_averaged():
    X, Y, x, y, delta = samples(8, 4, 6, seed=4)
    twice, labels = torch.cat([X, X[3:4]]), torch.cat([Y, -Y[3:4]])
    model = fit(wordsens.build_map("relu_raf", d=6, seed=0), twice, labels)
    assert model.contradictions == [(3, 8)]
    assert model.residual == pytest.approx(1, abs=1e-9)
    assert model.predict(X[3]).item() == pytest.approx(0, abs=1e-9)
    compare(model, x, y, delta, X=twice, Y=labels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("apart", [0, 1e-9, 3e-7, 1e-6, 3e-6, 1e-5, 1e-4, 1e-2])
@pytest.mark.parametrize("N", [4, 300])
def test_near_duplicates_are_one_sample_or_two(N, apart, dtype):
    """One criterion: either listed and fitted to the mean, or told apart and interpolated."""
    g = torch.Generator().manual_seed(5)
    Phi = torch.randn(N, 900, generator=g, dtype=torch.float64)
    twin = Phi[0] + apart * torch.randn(900, generator=g, dtype=torch.float64)
    Phi = torch.cat([Phi, twin[None]]).to(dtype)
    Y = torch.where(torch.rand(N + 1, generator=g) < 0.5, -1.0, 1.0).double()
    Y[-1] = -Y[0]
    found = LeastSquares(Phi, Y)
    once = LeastSquares(Phi[1:-1], Y[1:-1])
    fitted = found.times(found.theta)
    if found.contradictions:
        assert found.contradictions == [(0, N)]
        assert found.duplicates == 1
        assert fitted[[0, -1]].abs().max() < 1e-5, "the mean of both labels"
        assert found.theta.norm() < 2 * once.theta.norm() + 1
        assert apart <= (1e-5 if dtype == torch.float64 else 1e-4)
    else:
        assert apart >= 1e-5
        assert (fitted - Y).abs().max() < 10.0**-found.digits
    if dtype == torch.float64:  # re-training on the twin asks the same question
        again = LeastSquares(Phi[:-1], Y[:-1]).around(Phi[-1], Y[-1].item())
        assert again.f_x_retrained.item() == pytest.approx(fitted[-1].item(), abs=1e-4)


@pytest.mark.parametrize("apart", [1e-5, 1e-4, 1e-3, 1e-1])
def test_digits_are_those_that_higher_precision_confirms(apart):
    from mpmath import mp, mpf

    g = torch.Generator().manual_seed(8)
    Phi = torch.randn(5, 40, generator=g, dtype=torch.float64)
    Phi[4] = Phi[0] + apart * torch.randn(40, generator=g, dtype=torch.float64)
    Y = torch.tensor([1.0, -1, 1, 1, -1]).double()
    found = LeastSquares(Phi, Y)
    x = torch.randn(40, generator=g, dtype=torch.float64)
    mp.dps = 60
    exact = mp.matrix([[mpf(v) for v in row] for row in Phi.tolist()])
    alpha = mp.lu_solve(exact * exact.T, mp.matrix(Y.tolist()))
    wanted = (mp.matrix([[mpf(v) for v in x.tolist()]]) * exact.T * alpha)[0]
    error = abs(float(wanted - mpf((found.theta @ x).item()))) / max(1, abs(float(wanted)))
    assert error < 10.0**-found.digits
    assert found.digits >= 12 + 2 * np.log10(apart), "no more are lost than condition takes"


def test_more_samples_than_features():
    X, Y, x, y, delta = samples(40, 3, 4, seed=5)
    map = wordsens.build_map("rf", n=3, d=4, seed=0)  # p = 12
    model = fit(map, X, Y)
    assert model.rank == 12
    assert model.residual > 0.1
    compare(model, x, y, delta, X=X, Y=Y)


def test_new_sample_among_the_training_samples():
    X, Y, _, _, delta = samples(8, 4, 6, seed=6)
    model = fit(wordsens.build_map("raf", d=6, seed=0), X, Y)
    compare(model, X[5], -Y[5].item(), delta, X=X, Y=Y)


def test_float32_features_stay_near_float64():
    X, Y, x, y, delta = samples(60, 12, 16, seed=7)
    exact = wordsens.build_map("raf", d=16, seed=0)
    lean = wordsens.build_map("raf", d=16, seed=0, dtype=torch.float32)
    wanted = fit(exact, X, Y).evaluate(x, y, delta)
    model = fit(lean, X, Y)
    assert (model.solution.Phi.dtype, model.theta.dtype) == (torch.float32, torch.float64)
    found = model.evaluate(x, y, delta)
    for name in QUANTITIES:
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=2e-4, abs=2e-5)


def test_float32_repeats_are_recognised():
    Phi = torch.randn(6, 500, generator=torch.Generator().manual_seed(0))
    twice = torch.cat([Phi, Phi[:2] * (1 + 1e-7)])
    solution = LeastSquares(twice, torch.tensor([1.0, 1, 1, 1, -1, -1, 1, -1]).double())
    assert (solution.rank, solution.duplicates) == (6, 2)
    assert solution.contradictions == [(1, 7)]


def test_nothing_of_size_p_by_p_is_formed():
    X = torch.randn(3, 120, 768)  # p = 92,160: a projector would take 68 GB
    map = wordsens.build_map("raf", d=768, dtype=torch.float32)
    model = fit(map, X[:2], [1, -1])
    found = model.evaluate(X[2], 1, torch.zeros(768))
    assert found.err_finetuned == pytest.approx(4, rel=1e-5)
    assert found.err_retrained == pytest.approx(4, rel=1e-5)


def test_several_changes_and_several_words_at_once():
    X, Y, x, y, _ = samples(7, 5, 4, seed=8)
    model = fit(wordsens.build_map("qkv", d=4, seed=0), X, Y)
    delta = torch.randn(2, 3, 2, 4, generator=torch.Generator().manual_seed(0)).double()
    found = model.evaluate(x, y, delta, (1, 4))
    assert found.gamma.shape == (2, 3)
    one = model.evaluate(x, y, delta[1, 2], (1, 4))
    assert isinstance(one.gamma, float)
    assert found.err_retrained[1, 2].item() == pytest.approx(one.err_retrained)


def test_gram_sums_pieces(monkeypatch):
    from wordsens import gram as module

    monkeypatch.setattr(module, "CHUNK_BYTES", 8 * 40 * 7)
    Phi = torch.randn(40, 100, dtype=torch.float64)
    assert torch.allclose(gram(Phi), Phi @ Phi.T, rtol=1e-12, atol=1e-12)


def test_factor_reports_condition_and_cutoff():
    values = torch.tensor([4.0, 2.0, 0.5, 1e-18]).double()
    basis, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))
    basis = basis.double()
    basis, _ = torch.linalg.qr(basis)
    factor = GramFactor((basis * values) @ basis.T, 2e-16)
    assert (factor.kind, factor.rank) == ("eigen", 3)
    assert factor.condition == pytest.approx(8)
    assert 1e-18 < factor.cutoff < 1e-10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda map: fit(map, torch.ones(4, 3), [1]), r"training samples \(N, n, d\)"),
        (lambda map: fit(map, torch.ones(2, 4, 3), [1]), "1 labels for 2 samples"),
        (lambda map: fit(map, torch.ones(1, 4, 3), [1], [0.0]), "theta0 has 1 entries.*p = 12"),
        (lambda map: fit(map, torch.full((1, 4, 3), torch.nan), [1]), "nan or inf"),
    ],
)
def test_mistakes_are_one_line(call, words):
    with pytest.raises(UserError, match=words):
        call(wordsens.build_map("raf", d=3, seed=0))
