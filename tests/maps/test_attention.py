"""Attention layers where a row's whole weight lies on one word."""

import pytest
import torch

import wordsens
from wordsens.testing import check_view, moved, sample

HEADS = {"heads": 2, "head_dim": 5}


def attention_with_logits(name, d, largest, X):
    """An attention map scaled so that the largest |score| of X is ``largest``."""
    plain = wordsens.build_map(name, d=d, seed=5, **(HEADS if name == "qkv" else {}))
    scale = largest / plain.state(X[None]).scores.abs().max().item()
    if name == "qkv":
        return type(plain)(
            plain.query.matrix[0] * scale * plain.query.matrix.shape[-2] ** 0.5,
            plain.key.matrix[0],
            plain.value.matrix[0],
        )
    return type(plain)(plain.query.matrix[0, 0].mT * scale * d**0.5)


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


def test_relu_rows_without_positive_scores_output_zero():
    d = 4
    X = torch.eye(d, dtype=torch.float64)[:3] * d**0.5
    map = wordsens.build_map("relu_raf", weights={"W": -torch.ones(d, d, dtype=torch.float64)})
    assert map.features(X).abs().max() == 0
    delta = torch.randn(2, 1, d, dtype=torch.float64)
    assert torch.allclose(
        map.perturb(X, (0,)).features(delta), map.features(moved(X, [0], delta)), atol=1e-12
    )
