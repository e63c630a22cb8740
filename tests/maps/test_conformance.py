"""The suite of maps, for every map of the library and for one made by a stranger."""

import pytest
import torch

from wordsens.maps import FeatureMap, declared
from wordsens.testing import MapConformance


class TestRandomFeatures(MapConformance):
    map = "rf"


class TestDeepRandomFeatures(MapConformance):
    map = "drf"
    options = {"depth": 3}  # noqa: RUF012


class TestRandomAttention(MapConformance):
    map = "raf"
    permutable = True


class TestReLUAttention(MapConformance):
    map = "relu_raf"
    permutable = True


class TestQueryKeyValue(MapConformance):
    map = "qkv"
    options = {"heads": 2, "head_dim": 5}  # noqa: RUF012
    permutable = True


class TestTransformer(MapConformance):
    map = "transformer"
    options = {"depth": 2, "temperature": 0.5}  # noqa: RUF012
    permutable = True


class LinearAttention(FeatureMap):
    """X W Xᵀ X / (n √d): attention without a softmax, for which nothing but this is written."""

    name = "linear_attention"

    def __init__(self, W):
        self.W, self.batch = W.reshape(-1, *W.shape[-2:]), len(W) if W.ndim == 3 else None
        self.dtype, self.device = W.dtype, W.device

    @classmethod
    def draw(cls, shape, streams, options=None, *, dtype, device="cpu"):
        d = shape[1]
        drawn = [stream.child("W").normal(d, d, dtype=dtype) / d**0.5 for stream in streams]
        return cls(torch.stack(drawn).to(device))

    def features(self, X):
        X = self.cast(X)
        return X @ self.beside(self.W, X) @ X.mT @ X / (X.shape[-2] * X.shape[-1] ** 0.5)


class TestAMapOfAStranger(MapConformance):
    map = LinearAttention
    permutable = True


def test_the_suite_covers_every_map():
    assert {suite.map for suite in MapConformance.__subclasses__()} >= set(declared())


def test_the_suite_notices_a_gradient_that_is_a_little_wrong():

    class Torn(LinearAttention):
        def view(self, X, sets):
            view = super().view(X, sets)
            right = view.value_and_grad

            def wrong(v, sharpness=1.0):
                value, grad = right(v, sharpness)
                return value, grad * 1.001

            view.value_and_grad = wrong
            return view

    suite = type("Suite", (MapConformance,), {"map": Torn})()
    with pytest.raises(AssertionError):
        suite.test_gradient_equals_finite_differences()
