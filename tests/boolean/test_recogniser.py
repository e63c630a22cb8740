"""The recogniser's fast passes against the definitions, and its decisions."""

from __future__ import annotations

import math

import pytest
import torch

from wordsens.boolean.blowup import blowup, influence
from wordsens.boolean.flips import flip_logits, neighbours
from wordsens.boolean.recogniser import Recogniser, plain_logits, positions
from wordsens.boolean.shape import PAPER_SHAPES, Shape, draw_shape
from wordsens.boolean.weights import INITIALISATIONS, draw_weights
from wordsens.errors import UserError
from wordsens.randomness import Stream

SHAPES = [
    Shape(1, 8, 2, 12),
    Shape(2, 12, 3, 8),
    Shape(3, 8, 2, 16, split=False),
    Shape(4, 16, 4, 32, scaled=False, epsilon=0.0),
]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def draw(shape, initialisation="xavier-normal", models=3, dtype=torch.float64, **more):
    streams = [Stream(3, "model", m=m) for m in range(models)]
    return Recogniser.draw(shape, initialisation, streams, dtype=dtype, **more)


def bits(*shape):
    return torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(1))


def by_hand(of, model, string):
    """T(x) of (7) to (14) in loops over positions and heads."""
    shape, w = of.shape, {name: value[model] for name, value in of.weights.items()}
    n = len(string) + 1
    y = w["symbols"][[*string, 2]] + positions(n, shape.width)
    for layer in range(shape.depth):
        rows = []
        for i in range(n):
            total = torch.zeros(shape.width, dtype=y.dtype)
            for head in range(shape.heads):
                K, Q, V = (w[name][layer, head] for name in ("key", "query", "value"))
                a = torch.stack([(K @ y[m]) @ (Q @ y[i]) for m in range(n)]) * shape.scale
                c = sum(b * (V @ y[m]) for m, b in enumerate(a.softmax(0)))
                if shape.split:
                    size = shape.head_size
                    total[head * size : (head + 1) * size] += c
                else:
                    total += c
            hidden = (w["W1"][layer] @ total + w["b1"][layer]).clamp_min(0)
            d = y[i] + w["W2"][layer] @ hidden + w["b2"][layer]
            variance = ((d - d.mean()) ** 2).mean()
            rows.append((d - d.mean()) / (variance + shape.epsilon).sqrt())
        y = torch.stack(rows)
    return w["w"] @ y[-1] + w["omega"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_definition_in_loops(shape):
    of, x = draw(shape, models=2), bits(2, 5)
    want = torch.stack([torch.stack([by_hand(of, m, s) for s in x.tolist()]) for m in range(2)])
    torch.testing.assert_close(plain_logits(of, x), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_fast_passes_equal_full_ones(shape, dtype):
    of = draw(shape, dtype=dtype)
    for x in (bits(4, 9), bits(3, 4, 9)):
        close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        torch.testing.assert_close(of.logits(x), plain_logits(of, x), **close)
        plain, flipped = flip_logits(of, x)
        torch.testing.assert_close(plain, plain_logits(of, x), **close)
        want = plain_logits(of, neighbours(x).flatten(-3, -2)).view(3, 4, 9)
        torch.testing.assert_close(flipped, want, **close)


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_one_key_may_have_all_the_weight(initialisation):
    """Scores of hundreds: the exchanged key may weigh 1, and nothing is lost by subtraction."""
    of = draw(Shape(2, 32, 2, 32, scaled=False), initialisation)
    of.weights["query"] *= 10
    x = bits(3, 12)
    table = Recogniser(of.shape, of.weights).tables(12)
    if initialisation == "gaussian":
        assert (table.scores(of.as_input(x)).softmax(-1).amax(-1) == 1).any()
    want = plain_logits(of, neighbours(x).flatten(0, 1)).view(3, 3, 12)
    torch.testing.assert_close(flip_logits(of, x)[1], want, rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_the_definition():
    of, x = draw(SHAPES[1]), bits(5, 7)
    gradients = []
    for forward in (of.logits, lambda x: plain_logits(of, x)):
        values = {k: v.clone().requires_grad_(k != "symbols") for k, v in of.weights.items()}
        copy = Recogniser(of.shape, values)
        (
            copy.logits(x) if forward == of.logits else plain_logits(copy, x)
        ).square().sum().backward()
        gradients.append({k: v.grad for k, v in values.items() if k != "symbols"})
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-9, atol=1e-12)


def test_a_model_does_not_depend_on_its_batch():
    whole, one = draw(SHAPES[3], models=4), draw(SHAPES[3], models=1)
    for name, value in one.weights.items():
        assert torch.equal(value[0], whole.weights[name][0])
    x = bits(6, 8)
    torch.testing.assert_close(whole.take([2]).logits(x)[0], whole.logits(x)[2])


def test_initialisations_have_their_spread():
    shape = Shape(2, 64, 4, 128)
    streams = [Stream(1, "spread", m=m) for m in range(4)]
    want = {"uniform": 1 / 3, "gaussian": 1.0}
    for scheme in INITIALISATIONS:
        drawn = draw_weights(shape, scheme, streams)
        for name, fans in {"query": 128, "W1": 192, "W2": 192}.items():
            values = drawn[name].double()
            variance = want.get(scheme, 2 / fans)
            # 32,768 values or more: five percent is over six standard errors.
            assert math.isclose(values.var(), variance, rel_tol=0.05), (scheme, name)
            if scheme.endswith("uniform"):
                assert values.abs().max() <= (3 * variance) ** 0.5 + 1e-6
        assert (drawn["b1"] == 0).all() == scheme.startswith("xavier")


def test_the_margin_leaves_strings_unclassified():
    of = draw(SHAPES[1], margin=0.5)
    T = torch.tensor([-1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 2.0, math.nan])
    assert of.decide(T).tolist() == [0, 0, -1, -1, -1, 1, 1, -1]
    of.margin = 0.0
    assert of.decide(T).tolist() == [0, 0, 0, 1, 1, 1, 1, -1]


def test_the_blowup_is_read_from_every_row():
    of, x = draw(Shape(3, 8, 2, 8, epsilon=1e-3), "uniform"), bits(5, 6)
    tau, beta = blowup(of, x)
    assert tau.shape == beta.shape == (3, 5, 3)
    assert (tau > 1).all()
    assert (tau <= 1 + 1e-3**-0.5).all()  # Lemma 3.2
    torch.testing.assert_close(beta[..., -1], tau.prod(-1))
    one = influence(of, x)
    rows = [plain_logits(of, y) for y in (x, neighbours(x).flatten(0, 1))]
    moved = (rows[1].view(3, 5, 6) - rows[0][..., None]).abs()
    assert (moved <= one.distance * of.weights["w"].norm(dim=1)[:, None, None] + 1e-9).all()
    other = blowup(of, neighbours(x).flatten(0, 1))[1][..., -1].view(3, 5, 6)
    torch.testing.assert_close(one.constant, one.distance * 6 / (beta[..., -1:] * other))


def test_shapes_are_drawn_from_their_lists():
    generator = Stream(1, "shapes").generator()
    drawn = [draw_shape(PAPER_SHAPES, generator) for _ in range(300)]
    assert {shape.depth for shape in drawn} == set(PAPER_SHAPES["depth"])
    assert {shape.head_size for shape in drawn} == set(PAPER_SHAPES["head_size"])
    assert {shape.feedforward // shape.width for shape in drawn} == {2, 4, 8}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 3}, "heads = 3 must divide width = 16"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"depth": 0}, "depth = 0"),
    ],
)
def test_shapes_that_do_not_fit(options, said):
    with pytest.raises(UserError, match=said):
        Shape(**{"depth": 2, "width": 16} | options)


def test_unknown_initialisations_and_missing_weights():
    with pytest.raises(UserError, match="xavier-normal"):
        draw(SHAPES[0], "xavier")
    with pytest.raises(UserError, match="omega is missing"):
        Recogniser(SHAPES[0], {k: v for k, v in draw(SHAPES[0]).weights.items() if k != "omega"})
