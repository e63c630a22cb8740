"""What Python callers hand over: tensors with a graph, other kinds of number, and wrong kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import wordsens
from wordsens.arguments import all_finite
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.words import word_changes
from wordsens.errors import UserError

n, d = 6, 5
MAPS = {"rf": {"n": n}, "drf": {"n": n, "depth": 2}, "raf": {}, "relu_raf": {}, "qkv": {}}


def sample(*lead: int) -> torch.Tensor:
    X = torch.randn(*lead, n, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return X / X.norm(dim=-1, keepdim=True) * d**0.5


def build(name: str = "raf", **more):
    return wordsens.build_map(name, d=d, seed=2, **MAPS[name], **more)


@pytest.mark.parametrize("name", MAPS)
def test_tensors_with_a_graph_are_detached(name: str) -> None:
    """Results are plain, and the map keeps nothing of the graph for later calls."""
    X = sample().requires_grad_()
    map = build(name)
    found = wordsens.word_sensitivity(map, X, starts=2, steps=3)
    found.delta.numpy()
    words = wordsens.vocabulary_sensitivity(map, X, X[2:] * 0.9)
    words.top.change.numpy()
    view = map.perturb(X, 0)
    delta = torch.ones(d, dtype=torch.float64, requires_grad=True)
    for part in (view.features(delta), *view.value_and_grad(delta)):
        part.numpy()
    many = sample(4).requires_grad_()
    model = wordsens.fit(map, many, torch.ones(4, requires_grad=True))
    model.theta.numpy()
    model.predict(many).numpy()
    model.evaluate(X, torch.tensor(1.0, requires_grad=True), delta)
    model.search(X, 1, starts=2).delta.numpy()
    map.features(X).sum().backward()
    assert X.grad is not None, "features themselves are differentiable"
    map.features(sample()).numpy()
    plain = wordsens.word_sensitivity(build(name), sample(), starts=2, steps=3)
    assert plain.sup == found.sup


@pytest.mark.parametrize("name", ["raf", "rf"])
def test_weights_with_a_graph_are_detached(name: str) -> None:
    weight = torch.randn(4, n * d) if name == "rf" else torch.randn(d, d)
    key = "V1" if name == "rf" else "W"
    map = wordsens.build_map(name, weights={key: torch.nn.Parameter(weight.double())})
    wordsens.word_sensitivity(map, sample(), starts=2, steps=2).delta.numpy()
    map.features(sample()).numpy()


@pytest.mark.parametrize(
    "one", [np.int64(1), np.int32(1), np.array(1), torch.tensor(1)], ids=lambda x: type(x).__name__
)
def test_any_whole_number_is_a_position(one) -> None:
    X, map, delta = sample(5), build(), torch.ones(d, dtype=torch.float64)
    assert torch.equal(map.perturb(X[0], one).features(delta), map.perturb(X[0], 1).features(delta))
    model = wordsens.fit(map, X, np.ones(5, dtype=np.int8))
    assert model.evaluate(X[0], np.float32(1), delta, one) == model.evaluate(X[0], 1, delta, 1)
    found = model.search(X[0], 1, position=one, starts=np.int64(2))
    assert found.delta.shape == (d,)
    several = model.evaluate(X[0], 1, torch.ones(2, d), np.array([1, 3]))
    assert several == model.evaluate(X[0], 1, torch.ones(2, d), (1, 3))
    searched = wordsens.word_sensitivity(map, X[0], np.array([1]), starts=np.int64(2))
    assert searched.position == 1


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 1j])
def test_weights_are_finite_real_numbers(name: str, broken) -> None:
    keys = ("WQ", "WK", "WV") if name == "qkv" else ("W",)
    weights = {key: torch.eye(d, dtype=torch.float64) for key in keys}
    W = torch.eye(d, dtype=torch.complex128 if broken == 1j else torch.float64)
    W[1, 2] = broken
    weights[keys[-1]] = W
    says = "is complex" if broken == 1j else "holds nan or inf"
    with pytest.raises(UserError, match=f"weights {keys[-1]} {says}"):
        wordsens.build_map(name, weights=weights)


def model():
    return wordsens.fit(build(), sample(4), [1, -1, 1, -1])


CALLS = [
    (lambda: build().perturb(sample(), 1.5), "position = 1.5 must be"),
    (lambda: build().perturb(sample(), "first"), "position = 'first' must be"),
    (lambda: build().perturb(sample(), []), "no position is named"),
    (lambda: build().perturb(sample(), True), "position = True must be"),
    (lambda: build().perturb(sample(), 0).features("x"), "delta is no array of numbers"),
    (lambda: build().perturb(sample(), 0).features(torch.ones(d + 1)), "delta has shape"),
    (lambda: build().perturb(sample(), 0).features([np.nan] * d), "delta holds nan"),
    (lambda: model().search(sample(), 1, starts=1.5), "starts = 1.5 must be"),
    (lambda: model().search(sample(), None), "y = None is no finite number"),
    (lambda: model().search(sample(), "up"), "y = 'up' is no finite number"),
    (lambda: model().search(sample(), [1, 2]), "y = .* is no finite number"),
    (lambda: model().search(sample(), np.ones(2)), "y has more than one entry"),
    (lambda: model().search(sample(), 1, ["features"]), r"loss \['features'\] is not known"),
    (lambda: model().search(sample(), 1, penalty="x"), "penalty = 'x'"),
    (lambda: model().search(sample(), 1, position=np.float64(1)), "position = 1.0 must be"),
    (lambda: model().evaluate(sample(), 1, None), "delta is no array of numbers"),
    (lambda: model().predict("texts"), "X is no array of numbers"),
    (lambda: model().predict(sample()[:, :2]), "tokens of dimension 2"),
    (lambda: wordsens.fit(build(), sample(2), ["up", "down"]), "Y is no array of numbers"),
    (lambda: wordsens.fit(build(), sample(2), None), "Y is no array of numbers"),
    (lambda: wordsens.fit(build(), [], []), r"X has shape \(0,\)"),
    (lambda: wordsens.fit(build(), sample(2) * 1j, [1, -1]), "X is complex"),
    (lambda: wordsens.fit(build(), sample(2), [1, 1j]), "Y is complex"),
    (lambda: wordsens.fit("raf", sample(2), [1, -1]), "map = 'raf' is no feature map"),
    (lambda: wordsens.word_sensitivity("raf", sample()), "map = 'raf' is no feature map"),
    (lambda: wordsens.word_sensitivity(build(), sample()[None][:0]), "nothing in it"),
    (lambda: wordsens.word_sensitivity(build(), ["a", "b"]), "X is no array of numbers"),
    (lambda: wordsens.word_sensitivity(build(), sample().to_sparse()), "X is no dense array"),
    (lambda: wordsens.word_sensitivity(build(), sample(), reach="x"), "reach = 'x'"),
    (lambda: wordsens.word_sensitivity(build(), sample(), positions=[None]), "position = None"),
    (lambda: wordsens.vocabulary_sensitivity(build(), sample(), sample(), top=1.5), "top = 1.5"),
    (lambda: wordsens.vocabulary_sensitivity(build(), sample(), ["a"]), "vocabulary is no array"),
    (lambda: wordsens.build_map(["raf"], d=3), "is not known; choose one of"),
    (lambda: wordsens.build_map("raf", d=3, device="gpu0"), "device = 'gpu0' cannot be used"),
    (lambda: wordsens.build_map("rf", n=2, d=3, activation=None), "activation None is not known"),
    (lambda: wordsens.build_map("raf", weights=torch.eye(3)), "give them by name"),
    (lambda: wordsens.build_map("raf", weights={"W": "x"}), "weights W is no array of numbers"),
    (lambda: wordsens.build_map("rf", weights={"V1": torch.ones(3)}), "weights V1 have shape"),
    (
        lambda: wordsens.build_map("drf", weights={"V1": torch.ones(3, 4), "V2": torch.ones(3, 2)}),
        "every layer takes what the one below gives",
    ),
    (lambda: wordsens.build_map("qkv", weights={"WQ": [1.0], "WK": [1.0], "WV": [1.0]}), "qkv"),
    (lambda: wordsens.large_width_limit(0), "n = 0 must be"),
    (lambda: wordsens.large_width_limit(3, words=4), "words = 4"),
    (lambda: wordsens.large_width_limit(3, activation="x"), "activation 'x' is not known"),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_wrong_kinds_of_thing_are_one_line(call, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (["w1 w2", "w3"], {}, "text is a list of texts"),
        ([4, 5, 44], {}, "token id 44; allowed: 0 to 43"),
        ([4, -1], {}, "token id -1"),
        ([4.0, 5.0], {}, "must be token ids"),
        ([[4, 5], [6]], {}, "text is no array of numbers"),
        ([], {}, "text is empty|must be token ids"),
        (torch.empty(0, 3, dtype=torch.long), {}, "text is empty"),
        (None, {}, "text is no array of numbers"),
        ("", {}, "text"),
        ("w1 w2", {"layers": 4}, "layers 4: the encoder has layers 0 to 3"),
        ("w1 w2", {"layers": [1.5]}, "layer = 1.5"),
        ("w1 w2", {"starts": 1.5}, "starts = 1.5"),
        ("w1 w2", {"steps": None}, "steps = None"),
        ("w1 w2", {"device": "gpu0"}, "device = 'gpu0' cannot be used"),
        ("w1 w2", {"weights": ["random"]}, "are not known"),
    ],
)
def test_wrong_texts_are_one_line(tiny_bert: Path, text, options, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        wordsens.layer_sensitivity(tiny_bert, text, **options)
    assert "\n" not in str(error.value)


def test_layers_as_an_array_and_ids_of_any_kind(tiny_bert: Path) -> None:
    options = {"layers": np.array([1, 2]), "starts": np.int64(2), "steps": 2}
    found = wordsens.layer_sensitivity(tiny_bert, np.array([4, 5, 6], dtype=np.int32), **options)
    assert found.layers.tolist() == [1, 2]
    opened = LayeredEncoder.load(tiny_bert)
    assert len(word_changes(opened, [4, 5, 6], np.int64(1), top=2)) == 2
    with pytest.raises(UserError, match="token id 99"):
        word_changes(opened, [4, 99], 0)


# Uniform attention, and nothing to attend to


@pytest.mark.parametrize("name", ["raf", "qkv", "relu_raf"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("positions", ["first", "all"])
def test_uniform_attention(name: str, dtype: torch.dtype, positions: str) -> None:
    """With W = 0 every row is the mean of the words: one of n moves it by ‖Δ‖/n, all n rows."""
    zero, one = torch.zeros(d, d), torch.eye(d)
    weights = {"WQ": zero, "WK": one, "WV": one} if name == "qkv" else {"W": zero}
    map = wordsens.build_map(name, weights=weights, dtype=dtype)
    X = sample().to(dtype)
    found = wordsens.word_sensitivity(map, X, positions)
    vocabulary = wordsens.vocabulary_sensitivity(map, X, -X)
    if name == "relu_raf":  # scores of 0 attend to nothing
        assert np.isnan(found.sup)
        assert np.isnan(vocabulary.sup)
        return
    expected = (d / n) ** 0.5 / map.features(X).norm().item()
    assert found.sup == pytest.approx(expected, rel=1e-5)
    assert found.spread == pytest.approx(0, abs=1e-5), "no start is better than another"
    if name == "raf":
        assert found.bound >= found.sup * (1 - 1e-6)
    opposite = vocabulary.change.diagonal().double()
    assert opposite.numpy() == pytest.approx(2 * expected, rel=1e-5)
    model = wordsens.fit(map, torch.stack([X, -X, 2 * X]), [1, -1, 1])
    assert np.isfinite(model.search(X, 1).loss)


@pytest.mark.parametrize("name", MAPS)
def test_a_sample_of_zeros_has_no_sensitivity(name: str) -> None:
    map, X = build(name), torch.zeros(n, d)
    found = wordsens.word_sensitivity(map, X, starts=2, steps=2)
    assert np.isnan(found.sup)
    vocabulary = wordsens.vocabulary_sensitivity(map, X, sample())
    assert np.isnan(vocabulary.sup)
    assert vocabulary.norm == 0
    assert np.isnan(wordsens.fit(map, X[None], [1]).evaluate(X, 1, torch.ones(d)).feature_cosine)


def test_scores_that_overflow_are_said_to() -> None:
    map = wordsens.build_map("raf", weights={"W": 1e308 * torch.eye(d, dtype=torch.float64)})
    with pytest.raises(UserError, match="scores of this map overflow"):
        wordsens.word_sensitivity(map, 1e3 * sample())


# Numbers as they were given


@pytest.mark.parametrize(
    "kind",
    [
        lambda X: X.tolist(),
        lambda X: X.numpy()[::-1][::-1],
        lambda X: X.numpy()[::-1].copy()[::-1],
        lambda X: X.numpy().astype(">f8"),
        lambda X: X.numpy().astype(np.longdouble),
        lambda X: X.numpy().astype(object),
        lambda X: pd.DataFrame(X.numpy()),
        lambda X: np.ma.masked_array(X.numpy(), mask=np.zeros(X.shape, dtype=bool)),
    ],
)
def test_numbers_keep_their_digits(kind) -> None:
    """Lists of Python's numbers are float64, and arrays may lie in memory as they like."""
    map, X = build(), sample()
    assert torch.equal(map.features(map.cast(kind(X))), map.features(X))
    assert wordsens.fit(map, kind(X)[None] if isinstance(kind(X), np.ndarray) else X[None], [0.1])


def test_an_array_that_may_not_be_written_gives_no_warning(recwarn) -> None:
    given = sample().numpy().copy()
    given.setflags(write=False)
    build().cast(given)
    assert not recwarn.list


TOO_FAR = [
    (lambda: build().cast(np.ma.masked_array(sample().numpy(), mask=True)), "X has masked entries"),
    (lambda: wordsens.word_sensitivity(build(), sample(), reach=1e300), "reach = 1e.300 must be"),
    (
        lambda: wordsens.vocabulary_sensitivity(build(), sample(), sample(), reach=1e200),
        "reach = 1e.200 must be",
    ),
    (
        lambda: wordsens.word_sensitivity(build("rf"), 1e200 * sample()),
        "X has entries up to .* scale it",
    ),
    (
        lambda: wordsens.word_sensitivity(build("rf"), 1e-200 * sample()),
        "X has entries up to .* scale it",
    ),
    (
        lambda: wordsens.word_sensitivity(build("rf", dtype=torch.float32), 1e25 * sample()),
        "X has entries up to .* no float32 numbers",
    ),
    (
        lambda: wordsens.vocabulary_sensitivity(build(), sample(), 1e200 * sample()),
        "vocabulary has entries up to .* scale it",
    ),
    (
        lambda: wordsens.vocabulary_sensitivity(build(), sample(), lambda i: sample()[: i + 1]),
        "vocabulary gives 2 words at position 1 and 1 before",
    ),
    (lambda: wordsens.fit(build(), sample(2), [1e308, -1e308]), "Y has entries up to .* scale it"),
    (lambda: wordsens.fit(build(), sample(4), [[1, -1], [1, -1]]), r"Y has shape \(2, 2\)"),
    (lambda: wordsens.large_width_limit(10**12), "beyond what can be computed"),
]


@pytest.mark.parametrize(("call", "says"), TOO_FAR)
def test_what_has_no_value_in_floating_point_is_one_line(call, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_the_limit_keeps_its_digits_up_to_the_longest_text() -> None:
    for activation in ("relu", "tanh"):
        near, far = (wordsens.large_width_limit(n, activation=activation) for n in (10**7, 10**9))
        assert far * 10 == pytest.approx(near, rel=1e-4)


def test_digits_count_what_a_distant_beginning_loses() -> None:
    """θ_0 of 10¹⁴ leaves predictions two digits or none, whatever K's condition is."""
    X, Y = sample(3), torch.tensor([1.0, -1, 1])
    near = wordsens.fit(build(), X, Y)
    far = wordsens.fit(build(), X, Y, theta0=torch.full((n * d,), 1e14))
    error = float((far.predict(X) - Y).abs().max())
    assert near.digits >= 13
    assert 1e-3 < error <= 10.0**-far.digits
    assert far.residual == pytest.approx(error, rel=0.5)


def test_no_features_no_loss() -> None:
    map = wordsens.build_map("relu_raf", weights={"W": torch.zeros(d, d)})
    assert np.isnan(wordsens.fit(map, sample(3), [1, -1, 1]).search(sample(), 1, starts=2).loss)


@pytest.mark.parametrize(
    ("entries", "finite"),
    [
        *(([1.0, np.inf], False), ([np.inf, -np.inf], False), ([0.0, np.nan], False)),
        *(([3e38, 3e38], True), ([-3e38, -3e38, 1.0], True), ([], True)),  # sums overflow
    ],
)
def test_what_is_finite(entries: list[float], finite: bool) -> None:
    assert all_finite(torch.tensor(entries)) is finite
