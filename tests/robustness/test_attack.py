"""No attack exceeds its bound, and none is weaker than the gradient's."""

import pytest
import torch

from wordsens.errors import UserError
from wordsens.randomness import Stream
from wordsens.robustness.attack import attack
from wordsens.robustness.input_sensitivity import interpolate
from wordsens.robustness.vectors import draw_vectors

DELTAS = [1e-5, 0.01, 0.1, 0.5, 1.0]


@pytest.mark.parametrize("phi", ["tanh", "cos", "softplus", "square", "relu"])
@pytest.mark.parametrize("features", ["rf", "ntk"])
def test_attack_stays_below_the_bound(features, phi):
    drawn = draw_vectors(None, 30, 40, 6, Stream(0, "test"))
    model = interpolate(drawn.X, drawn.y, features, width=300, activation=phi)
    found = attack(model, drawn.x, DELTAS, steps=30)
    assert (found.along <= found.projected).all()
    assert (found.projected <= found.bound * (1 + 1e-9)).all()
    assert found.bound.isinf().all() == (phi == "relu" or (features, phi) == ("rf", "none"))
    # to first order, the change is δ S
    assert torch.allclose(found.along[0], found.predicted[0], rtol=1e-3)
    assert (found.projected[1:] >= found.projected[:-1] * (1 - 1e-3)).all()
    assert found.predicted.shape == (len(DELTAS), 6)
    flipped = found.flipped(found.projected)
    assert not flipped[0].any()
    assert torch.equal(flipped, found.projected > found.output.abs())


def test_a_flip_is_a_change_of_sign():
    drawn = draw_vectors(None, 30, 40, 8, Stream(1, "test"))
    model = interpolate(drawn.X, drawn.y, "rf", width=500, activation="tanh")
    f, gradient = model.value_and_gradient(drawn.x)
    delta = -torch.sign(f)[:, None] * 0.3 * 40**0.5 * torch.nn.functional.normalize(gradient)
    moved, _ = model.value_and_gradient(drawn.x + delta)
    found = attack(model, drawn.x, [0.3], steps=0, starts=1)
    assert torch.allclose(found.along[0], (moved - f).abs() * torch.sign((f - moved) * f))
    assert torch.equal(found.flipped(found.along)[0], torch.sign(moved) != torch.sign(f))


def test_texts_are_attacked_as_a_whole():
    torch.manual_seed(0)
    X = torch.nn.functional.normalize(torch.randn(9, 4, 6, dtype=torch.float64), dim=-1) * 6**0.5
    y = torch.sign(torch.randn(7, dtype=torch.float64))
    found = attack(interpolate(X[:7], y, "raf"), X[7:], [1e-4, 0.3])
    assert torch.allclose(found.along[0], found.predicted[0], rtol=1e-2)
    assert (found.projected >= found.along).all()
    assert found.bound.isinf().all()


@pytest.mark.parametrize("deltas", [[], [0.0], [-0.1, 0.1], [float("inf")]])
def test_strengths_are_positive(deltas):
    drawn = draw_vectors(None, 5, 4, 1, Stream(0, "test"))
    model = interpolate(drawn.X, drawn.y, "ntk", width=9)
    with pytest.raises(UserError, match="deltas"):
        attack(model, drawn.x, deltas)
