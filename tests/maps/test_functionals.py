"""Prepared functionals of a changed word say what ``linear`` says, and products what ``@`` does."""

import pytest
import torch

from wordsens.kernels import products
from wordsens.maps import MapOptions, map_class, position_sets
from wordsens.randomness import Stream


@pytest.mark.parametrize("name", ["rf", "raf", "relu_raf", "qkv"])
@pytest.mark.parametrize("heavy", [False, True])
def test_functionals_are_those_of_linear(name, heavy):
    g = torch.Generator().manual_seed(0)
    X = torch.randn(2, 6, 9, generator=g, dtype=torch.float64)
    if heavy:  # rows that attend to the changed word above all
        X[:, 2] *= 20
    streams = [Stream(t, "functionals") for t in range(2)]
    options = MapOptions(heads=3 if name == "qkv" else 1, head_dim=4)
    view = map_class(name).draw_view(X, position_sets([[2]], 6), streams, options)
    if heavy and name in ("raf", "qkv"):
        assert len(view.constants.heavy[0])
    shape = view.features(view.tokens[:, :, None]).shape[3:]
    u = torch.randn(2, 3, *shape, generator=g, dtype=torch.float64)
    v = view.tokens[:, :, None] + torch.randn(2, 1, 5, 1, 9, generator=g, dtype=torch.float64)
    weight = torch.randn(2, 1, 5, 3, generator=g, dtype=torch.float64)
    (value, pull), (wanted, through) = view.functionals(u)(v), view.linear(v, u)
    assert torch.allclose(value, wanted, rtol=1e-11, atol=1e-11 * wanted.abs().max().item())
    slope = through(weight)
    assert torch.allclose(pull(weight), slope, rtol=1e-9, atol=1e-11 * slope.abs().max().item())


@pytest.mark.parametrize("a", [(5, 40), (3, 5, 40), (3, 1, 5, 40)])
@pytest.mark.parametrize("b", [(7, 40), (1, 1, 7, 40), (3, 1, 7, 40), (3, 7, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products(a, b, dtype, monkeypatch):
    monkeypatch.setattr(products, "LARGE", 1)
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(*shape, generator=g).to(dtype) for shape in (a, b))
    wanted = x.double() @ y.double().mT
    found = products.product(x, y)
    assert found.shape == wanted.shape
    assert found.dtype == dtype
    assert torch.allclose(found.double(), wanted, atol=1e-4)


def test_a_product_of_a_batch_is_that_of_its_members():
    x, y = torch.randn(3, 64, 256), torch.randn(3, 512, 256)
    together = products.product(x, y)
    assert all(torch.equal(products.product(x[t], y[t]), together[t]) for t in range(3))


def test_products_keep_their_graph():
    x = torch.randn(64, 256, requires_grad=True)
    products.product(x, torch.randn(512, 256)).sum().backward()
    assert x.grad is not None
