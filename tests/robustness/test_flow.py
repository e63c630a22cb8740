"""Gradient flow starts at the rate of its kernel, only falls, and keeps the bound where wide."""

import numpy as np
import pytest
import torch

from wordsens.activations import activation
from wordsens.errors import UserError
from wordsens.randomness import Stream
from wordsens.robustness.flow import DONE, gradient_flow
from wordsens.robustness.tangent_kernel import draw_layers, kernel_of, passes


def _setting(width, n=12):
    stream = Stream(0, "flow")
    X = torch.nn.functional.normalize(stream.normal(n, 6, dtype=torch.float64)) * 6**0.5
    y = torch.sign(stream.normal(n, dtype=torch.float64))
    return X, y, draw_layers(6, [width, width], stream), activation("tanh")


@pytest.mark.parametrize("width", [2, 40])
def test_the_first_rate_is_that_of_the_kernel(width):
    X, y, layers, phi = _setting(width)
    K = kernel_of(X, layers, phi).matrix
    r = passes(X, layers, phi)[0] - y
    step = 1e-5 / torch.linalg.matrix_norm(K, ord=2).item()
    flow = gradient_flow(X, y, layers, phi, [0, step])
    assert flow.loss[0] == pytest.approx(0.5 * (r @ r).item(), rel=1e-12)
    rate = (flow.loss[0] - flow.loss[1]) / step
    assert rate == pytest.approx((r @ K @ r).item(), rel=1e-3)


def test_a_wide_network_keeps_the_bound_and_a_narrow_one_stops():
    X, y, layers, phi = _setting(60)
    smallest = kernel_of(X, layers, phi).smallest
    times = [0, *np.geomspace(0.02, 8, 12) / smallest]
    wide = gradient_flow(X, y, layers, phi, times)
    assert (np.diff(wide.loss) <= 0).all()
    assert (wide.loss <= wide.bound).all()
    assert wide.loss[-1] <= DONE * wide.loss[0], "followed to the end, and said to be there"
    assert wide.smallest == smallest
    assert wide.later > wide.smallest / 4
    narrow = gradient_flow(*_setting(1, n=40), times)
    assert narrow.parameters < 40
    assert (np.diff(narrow.loss) <= 1e-9).all()
    assert narrow.loss[-1] > 0.5 * narrow.loss[0]


@pytest.mark.parametrize("times", [[0], [1, 2], [0, 2, 1]])
def test_times_increase_from_zero(times):
    with pytest.raises(UserError, match="times"):
        gradient_flow(*_setting(2), times)
