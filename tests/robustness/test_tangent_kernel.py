"""K against the explicit Jacobian, and where its smallest eigenvalue leaves rounding."""

import pytest
import torch

import wordsens
from wordsens.activations import _activations, activation
from wordsens.errors import UserError
from wordsens.randomness import Stream
from wordsens.robustness.tangent_kernel import draw_layers, passes


def forward(layers, X, phi):
    f = X
    for W in layers[:-1]:
        f = phi.value(f @ W.mT)
    return (f @ layers[-1].mT)[:, 0]


@pytest.mark.parametrize("name", list(_activations()))
@pytest.mark.parametrize("widths", [[5], [4, 6], [3, 5, 2, 4]])
def test_equals_the_explicit_jacobian(widths, name):
    phi = activation(name)
    X = Stream(0, "X").normal(7, 4, dtype=torch.float64)
    layers = draw_layers(4, widths, Stream(1, "tangent kernel"))
    jacobians = torch.autograd.functional.jacobian(
        lambda *Ws: forward(Ws, X, phi), tuple(W.clone().requires_grad_() for W in layers)
    )
    J = torch.cat([part.reshape(7, -1) for part in jacobians], 1)
    found = wordsens.tangent_kernel(X, weights=layers, activation=name)
    assert torch.allclose(found.matrix, J @ J.mT, rtol=1e-10, atol=1e-10 * J.norm().item() ** 2)
    assert found.parameters == J.shape[1]
    same = wordsens.tangent_kernel(X, widths=widths, activation=name, seed=1)
    assert torch.equal(same.matrix, found.matrix)
    assert found.smallest == pytest.approx(torch.linalg.eigvalsh(J @ J.mT)[0].item(), abs=1e-10)
    f, _, _ = passes(X, layers, phi)
    assert torch.allclose(f, forward(layers, X, phi))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_singular_below_as_many_parameters_as_samples_and_not_above(seed):
    X = Stream(seed, "X").normal(60, 10, dtype=torch.float64)
    below = wordsens.tangent_kernel(X, [3, 3, 3], seed=seed)
    above = wordsens.tangent_kernel(X, [8, 8, 8], seed=seed)
    assert below.parameters < 60 < above.parameters
    assert abs(below.smallest) <= below.floor
    assert above.smallest > 100 * above.floor
    assert below.largest > 0


def test_repr_table_and_plot():
    X = Stream(0, "X").normal(20, 5, dtype=torch.float64)
    found = wordsens.tangent_kernel(X, [10, 8], activation="tanh")
    assert repr(found).startswith("TangentKernel(tanh, widths 10×8, n=20, p=138: λ_min = ")
    table = found.to_dataframe()
    assert table["eigenvalue"].is_monotonic_increasing
    assert table["eigenvalue"].iloc[0] == found.smallest
    assert found.plot().get_ylabel()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "widths or weights"),
        ({"widths": [3], "weights": [torch.ones(1, 5)]}, "widths or weights"),
        ({"widths": []}, r"widths = \[\]"),
        ({"widths": 7}, "widths = 7"),
        ({"widths": [3, 0]}, "widths = 0"),
        ({"weights": [torch.ones(3, 4), torch.ones(1, 3)]}, "for X of 5 columns"),
        ({"weights": [torch.ones(3, 5), torch.ones(2, 3)]}, "for X of 5 columns"),
        ({"weights": [torch.ones(1, 5)]}, "for X of 5 columns"),
        ({"widths": [3], "activation": "none"}, "activation 'none'"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    with pytest.raises(UserError, match=message):
        wordsens.tangent_kernel(torch.ones(4, 5), **arguments)
