"""Random transformers: parts that can be taken away, known layers, and transformers' own blocks."""

from dataclasses import replace

import pytest
import torch

from wordsens import UserError, build_map, word_sensitivity
from wordsens.maps import MapOptions, map_class
from wordsens.maps.blocks import view as blocks_view
from wordsens.randomness import Stream
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search
from wordsens.testing import check_view, sample

TRANSFORMER = map_class("transformer")
BARE = {"residual": 0, "layer_norm": "none", "mlp": 0}
DESIGNS = [
    {"attention": attention, "residual": residual, "layer_norm": norm, "mlp": mlp}
    for attention, residual, norm, mlp in [
        ("softmax", 0, "none", 0),
        ("softmax", 1, "before", 4),
        ("relu", 1, "after", 2),
        ("relu", 0.5, "none", 1),
        ("softmax", 0, "after", 2),
        ("relu", 0, "before", 0),
    ]
]


def draw(n, d, dtype=torch.float64, trials=1, **options):
    chosen = MapOptions.of(options, TRANSFORMER.options)
    streams = [Stream(0, "map", trial=t) for t in range(trials)]
    return TRANSFORMER.draw((n, d), streams, chosen, dtype=dtype), streams


def test_one_bare_layer_is_qkv_number_for_number():
    X = sample(9, 12, lead=(1,), seed=1)
    map, streams = draw(9, 12, heads=3, temperature=0.5, **BARE)
    options = MapOptions(heads=3, head_dim=4, more={"temperature": 0.5})
    qkv = map_class("qkv").draw((9, 12), streams, options, dtype=torch.float64)
    torch.testing.assert_close(map.features(X), qkv.features(X), rtol=1e-13, atol=1e-13)
    for positions in ([0], [4, 2]):
        delta = torch.randn(1, 5, len(positions), 12, dtype=torch.float64)
        mine, theirs = (each.perturb(X, tuple(positions)) for each in (map, qkv))
        for got, wanted in zip(
            mine.value_and_grad(delta), theirs.value_and_grad(delta), strict=True
        ):
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("attention", "name"), [("softmax", "raf"), ("relu", "relu_raf")])
def test_one_bare_layer_with_one_matrix_is_raf(attention, name):
    X, W = sample(8, 6, seed=2), torch.randn(6, 6, dtype=torch.float64)
    raf = build_map(name, weights={"W": W})
    map = build_map("transformer", weights={"WQ": W.mT[None, None]}, attention=attention, **BARE)
    torch.testing.assert_close(map.features(X), raf.features(X), rtol=1e-13, atol=1e-13)
    delta = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mine, theirs = (each.perturb(X, 3).value_and_grad(delta) for each in (map, raf))
    for got, wanted in zip(mine, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("depth", [1, 3])
def test_gradients_of_every_design(design, depth):
    n, d = 7, 8
    map, _ = draw(n, d, depth=depth, heads=2, activation="gelu", **design)
    map.batch = None
    g = torch.Generator().manual_seed(depth)
    delta = torch.randn(3, 2, d, generator=g, dtype=torch.float64)
    u = torch.randn(n, d, generator=g, dtype=torch.float64)
    check_view(map, sample(n, d, seed=5), [1, 4], delta, u)
    view = map.perturb(sample(n, d, seed=5), 1)
    at, way = delta[0, 0], torch.randn(d, generator=g, dtype=torch.float64)

    def value(step):
        return view.value_and_grad(at + step * way)[0]

    # an eighth-order difference, or one too short to meet a kink
    weights, h, exact = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}, 1e-3, 1e-9
    if design["attention"] == "relu":
        weights, h, exact = {1: 0.5}, 1e-6, 1e-6
    slope = sum(w * (value(k * h) - value(-k * h)) for k, w in weights.items()) / h
    along = (view.value_and_grad(at)[1] * way).sum()
    assert along.item() == pytest.approx(slope.item(), rel=exact)


@pytest.mark.parametrize(("norm", "activation"), [("after", "gelu"), ("after", "relu")])
def test_blocks_equal_those_of_transformers(norm, activation):
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertEncoder

    n, d, heads, depth, r = 11, 24, 4, 3, 4
    config = BertConfig(
        hidden_size=d,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=r * d,
        hidden_act=activation,
        layer_norm_eps=1e-5,
        attn_implementation="eager",
    )
    bert = BertEncoder(config).double().eval()
    names = {
        "WQ": "attention.self.query",
        "WK": "attention.self.key",
        "WV": "attention.self.value",
        "WO": "attention.output.dense",
        "W1": "intermediate.dense",
        "W2": "output.dense",
    }
    weights = {}
    for name, module in names.items():
        layers = [layer.get_submodule(module) for layer in bert.layer]
        for layer in layers:
            torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            torch.nn.init.zeros_(layer.bias)
        weights[name] = torch.stack([layer.weight.detach() for layer in layers])
    for name in ("WQ", "WK", "WV"):
        weights[name] = weights[name].unflatten(1, (heads, d // heads))
    map = build_map("transformer", weights=weights, layer_norm=norm, activation=activation, mlp=r)
    X = sample(n, d, seed=4)
    with torch.no_grad():
        theirs = bert(X[None]).last_hidden_state[0]
    assert (map.features(X) - theirs).abs().max() <= 1e-6
    assert (map.features(X) - theirs).abs().max() <= 1e-12 * theirs.abs().max()
    lean = build_map(
        "transformer", weights=weights, layer_norm=norm, activation=activation, dtype=torch.float32
    )
    assert (lean.features(X) - theirs).abs().max() <= 1e-4


def test_little_memory_changes_no_number(monkeypatch):
    """In chunks, and with blocks recomputed on the way back."""
    X, sets = sample(7, 8, lead=(2,), seed=1), torch.tensor([[0], [3]])
    map, _ = draw(7, 8, trials=2, depth=3, heads=2)
    v = map.view(X, sets).tokens[:, :, None] + torch.randn(2, 2, 5, 1, 8, dtype=torch.float64)
    u, weight = torch.randn(2, 3, 7, 8).double(), torch.randn(2, 2, 5, 3).double()

    def all_of_it():
        view = map.view(X, sets)
        value, pull = view.linear(v, u)
        return [*view.value_and_grad(v), view.features(v), value, pull(weight), pull(2 * weight)]

    whole = all_of_it()
    monkeypatch.setattr(blocks_view, "WORKING_BYTES", 1)
    assert map.view(X, sets).sets_at_once(5) == 1
    for got, wanted in zip(all_of_it(), whole, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_a_norm_at_the_end_bounds_what_a_word_can_do():
    X = sample(6, 8, seed=3)
    found = word_sensitivity(build_map("transformer", d=8, depth=4, residual=0, mlp=0), X)
    assert 1 < found.sup <= found.bound == pytest.approx(2, rel=1e-4)
    free = word_sensitivity(build_map("transformer", d=8, depth=2, layer_norm="before"), X)
    assert free.bound != free.bound


def test_never_below_the_published_procedure():
    """Twenty draws, on the same weights: projected gradients with the published step and count."""
    n, d, trials = 6, 8, 20
    X = sample(n, d, lead=(trials,), seed=8)
    map, streams = draw(n, d, trials=trials, depth=2, heads=2)
    sets = torch.tensor([[0]])
    view = map.view(X, sets)
    effort = TRANSFORMER.effort_for(n, d, map.chosen)
    found = summarise([search(map, view, sets, streams, effort, n)], sets, False).sup
    one = replace(effort, starts=1)
    published = summarise([search(map, view, sets, streams, one, n, "published")], sets, False).sup
    assert (found >= published * (1 - 1e-6)).all()


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_a_temperature_divides_the_scores(name):
    X = sample(7, 6, seed=1)
    plain, one = build_map(name, d=6, seed=2), build_map(name, d=6, seed=2, temperature=1)
    assert torch.equal(plain.features(X), one.features(X))
    cold = build_map(name, d=6, seed=2, temperature=0.25)
    torch.testing.assert_close(cold.query.matrix, 4 * plain.query.matrix)
    frozen = build_map(name, d=6, seed=2, temperature=1e-4).state(X[None]).weights
    if name != "relu_raf":
        assert frozen.amax(-1).min() > 1 - 1e-6
    else:
        torch.testing.assert_close(cold.features(X), plain.features(X))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"temperature": 0}, "temperature = 0 must be a positive number"),
        ({"layer_norm": "both"}, "layer_norm = 'both'; allowed: none, before, after"),
        ({"attention": "max"}, "attention = 'max'; allowed: softmax, relu"),
        ({"residual": -1}, "residual = -1 must be a number from 0 to 1000"),
        ({"mlp": 0.5}, "mlp = 0.5 must be an integer from 0 to 64"),
        ({"heads": 3}, "heads = 3 must divide d = 8"),
        ({"activation": "swish"}, "activation 'swish' is not known"),
        ({"head_dim": 4}, "map transformer has none"),
    ],
)
def test_bad_options_are_one_line(options, says):
    with pytest.raises(UserError, match=says) as caught:
        build_map("transformer", d=8, **options)
    assert "\n" not in str(caught.value)


def test_weights_must_agree():
    WQ = torch.zeros(2, 1, 8, 8)
    with pytest.raises(UserError, match="different numbers of layers"):
        build_map("transformer", weights={"WQ": WQ, "WK": WQ[:1]})
    with pytest.raises(UserError, match="needs weights WQ"):
        build_map("transformer", weights={"W": WQ})
    with pytest.raises(UserError, match="was built for d = 8"):
        build_map("transformer", d=8).features(sample(5, 6))
