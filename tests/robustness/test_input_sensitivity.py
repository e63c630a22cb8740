"""The Python call: shapes, texts, what it shows of itself, and mistakes."""

import pytest
import torch

import wordsens
from wordsens.errors import UserError


@pytest.fixture(name="texts")
def _texts():
    torch.manual_seed(1)
    X = torch.nn.functional.normalize(torch.randn(8, 5, 6, dtype=torch.float64), dim=-1) * 6**0.5
    return X[:6], torch.sign(torch.randn(6, dtype=torch.float64)), X[6:]


@pytest.mark.parametrize("features", ["raf", "relu_raf", "qkv", "rf", "ntk"])
def test_gradient_of_texts_is_that_of_the_output(features, texts):
    X, y, x = texts
    width = {"width": 40} if features in ("rf", "ntk") else {}

    def output(points):
        return wordsens.input_sensitivity(X, y, points, features, **width).output

    result = wordsens.input_sensitivity(X, y, x, features, **width)
    away = torch.randn(x.shape, dtype=torch.float64)
    step = 1e-6
    slope = (output(x + step * away) - output(x - step * away)) / (2 * step)
    assert torch.allclose((result.gradient * away).sum((1, 2)), slope, rtol=1e-5, atol=1e-7)
    whole = x.flatten(1).norm(dim=1) * result.gradient.flatten(1).norm(dim=1)
    assert torch.allclose(result.sensitivity, whole)
    # tokens of one norm: S² = n Σ_i S_i²
    assert torch.allclose((5 * (result.by_token**2).sum(1)).sqrt(), whole)


def test_attention_equals_its_own_features(texts):
    X, y, x = texts
    raf = wordsens.build_map("raf", d=6, seed=4)
    Phi = raf.features(X).flatten(1)
    theta = Phi.mT @ torch.linalg.solve(Phi @ Phi.mT, y)
    at = x[0].clone().requires_grad_()
    f = raf.features(at).flatten() @ theta
    gradient = torch.autograd.grad(f, at)[0]
    result = wordsens.input_sensitivity(X, y, x[0], raf)
    assert result.output == pytest.approx(f.item(), rel=1e-10)
    assert torch.allclose(result.gradient, gradient, rtol=1e-10, atol=1e-12)
    assert result.sensitivity == pytest.approx((x[0].norm() * gradient.norm()).item(), rel=1e-10)


def test_one_point_is_one_of_several_and_scale_does_not_matter(texts):
    X, y, x = (part.flatten(1) if part.ndim == 3 else part for part in texts)
    several = wordsens.input_sensitivity(X, y, x, width=20, seed=2)
    one = wordsens.input_sensitivity(X.numpy(), y.tolist(), x[1].numpy(), width=20, seed=2)
    assert one.sensitivity == pytest.approx(several.sensitivity[1].item(), rel=1e-12)
    assert one.output == pytest.approx(several.output[1].item(), rel=1e-12)
    W = torch.randn(20, 30, dtype=torch.float64)
    plain = wordsens.input_sensitivity(X, y, x, weights=W)
    scaled = wordsens.input_sensitivity(7 * X, y, 7 * x, weights=W / 7)
    assert torch.allclose(plain.sensitivity, scaled.sensitivity, rtol=1e-9)


def test_repr_table_and_plot(texts):
    X, y, x = texts
    result = wordsens.input_sensitivity(X, y, x, "raf")
    assert repr(result).startswith("InputSensitivity(raf, n=6, d=30, p=30: S = ")
    table = result.to_dataframe()
    assert len(table) == 10
    assert table.groupby("point")["sensitivity"].first().tolist() == result.sensitivity.tolist()
    assert result.plot().get_ylabel()
    vectors = wordsens.input_sensitivity(X.flatten(1), y, x.flatten(1), "rf", width=50)
    assert "tanh" in repr(vectors)
    assert "universal" in vectors.to_dataframe()
    axes = vectors.plot()
    assert vectors.plot(axes) is axes


def test_attention_has_no_width(texts):
    with pytest.raises(UserError, match="width is only for"):
        wordsens.input_sensitivity(*texts, "raf", width=9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": None}, "width or weights"),
        ({"width": 2.5}, "width = 2.5"),
        ({"width": 0}, "width = 0"),
        ({"weights": torch.ones(3, 30)}, "width or weights"),
        ({"width": None, "weights": torch.ones(3, 29)}, "29 columns"),
        ({"width": None, "weights": torch.ones(3)}, "allowed is .width, d"),
        ({"width": None, "weights": torch.full((3, 30), torch.nan)}, "weights holds nan"),
        ({"features": "nkt"}, "nkt.*choose rf, ntk, raf"),
        ({"features": "raf"}, "must be .N, n, d"),
        ({"activation": "swish"}, "swish"),
        ({"activation": (torch.sin,)}, "activation = "),
        ({"activation": (torch.sin, torch.sin)}, "not the derivative"),
        ({"activation": (torch.sin, torch.cos, torch.cos)}, "not the derivative"),
        ({"activation": (lambda a: a.sum(), torch.cos)}, "activation"),
        ({"y": [1.0, -1.0]}, "2 labels for 6 samples"),
        ({"X": torch.full((6, 30), torch.inf)}, "X holds nan or inf"),
        ({"X": torch.full((6, 30), 1e30).double() ** 5}, "X has entries up to 1e.150"),
        ({"X": torch.full((6, 30), 1e-30).double() ** 5}, "X has entries up to 1e-150"),
        ({"X": torch.ones(6)}, "allowed are"),
        ({"x": torch.ones(29)}, "x has shape"),
        ({"x": "text"}, "x is no array"),
        ({"seed": -1.5}, "seed"),
    ],
)
def test_mistakes_are_one_line(changes, message, texts):
    X, y, x = texts
    arguments = {"X": X.flatten(1), "y": y, "x": x.flatten(1), "features": "ntk", "width": 9}
    with pytest.raises(UserError, match=message) as caught:
        wordsens.input_sensitivity(**(arguments | changes))
    assert "\n" not in str(caught.value)
