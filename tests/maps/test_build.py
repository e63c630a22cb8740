"""``build_map`` and what it refuses, and random features with every activation."""

import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.testing import check_view, sample

ACTIVATIONS = ("relu", "tanh", "gelu", "sigmoid", "identity")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_random_features_with_every_activation(activation):
    X = sample(5, 4, seed=1)
    map = wordsens.build_map("rf", n=5, d=4, k=30, seed=0, activation=activation)
    g = torch.Generator().manual_seed(0)
    delta = torch.randn(3, 1, 4, generator=g, dtype=torch.float64)
    check_view(map, X, [1], delta, torch.randn(30, generator=g, dtype=torch.float64))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wordsens.build_map("rfa", d=3), "rfa.*choose one of rf, drf"),
        (lambda: wordsens.build_map("rf", d=3), "needs n"),
        (lambda: wordsens.build_map("raf", depth=2, d=3), "only for drf"),
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
