import math

import numpy as np
import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.maps import MapOptions, map_class

EVERY = {
    "rf": {},
    "drf": {"depth": 2},
    "raf": {},
    "relu_raf": {},
    "qkv": {"heads": 2},
    "transformer": {"depth": 2},
}


def sample(n, d, *, lead=(), seed=0):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(*lead, n, d, generator=g, dtype=torch.float64)
    return X / X.norm(dim=-1, keepdim=True) * d**0.5


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("seed", range(4))
def test_never_below_the_published_method(name, seed):
    n, d = 8, 12
    X = sample(n, d, seed=seed)
    map = wordsens.build_map(name, n=n, d=d, seed=seed, **EVERY[name])
    ours = wordsens.word_sensitivity(map, X, seed=seed)
    theirs = wordsens.word_sensitivity(map, X, seed=seed, search="published", starts=1)
    assert ours.sup >= theirs.sup * (1 - 1e-6)
    assert theirs.delta.norm() <= d**0.5 * (1 + 1e-12)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("words", [1, 3])
def test_found_value_bound_and_delta_agree(name, words):
    n, d = 7, 10
    X = sample(n, d, seed=3)
    map = wordsens.build_map(name, n=n, d=d, seed=1, **EVERY[name])
    found = wordsens.word_sensitivity(map, X, positions="first", words=words)
    delta = found.delta.reshape(words, d)
    assert (delta.norm(dim=-1) <= d**0.5 * (1 + 1e-9)).all()
    changed = X.clone()
    changed[:words] += delta
    base = map.features(X)
    again = (map.features(changed) - base).norm() / base.norm()
    assert again.item() == pytest.approx(found.sup, rel=1e-9)
    known = name in ("rf", "transformer") or (name == "raf" and words == 1)
    assert (found.bound == found.bound) == known
    assert not known or found.sup <= found.bound


@pytest.mark.parametrize("name", EVERY)
def test_all_positions_contain_every_single_one(name):
    n, d = 6, 8
    X = sample(n, d, seed=5)
    map = wordsens.build_map(name, n=n, d=d, seed=2, **EVERY[name])
    whole = wordsens.word_sensitivity(map, X, positions="all")
    assert whole.by_position.shape == (n,)
    assert whole.sup == whole.by_position.max().item()
    assert whole.position == whole.by_position.argmax().item()
    # the ridges of ReLU amplify the rounding of differently shaped products
    tolerance = 1e-3 if name == "relu_raf" else 1e-6
    for i in (0, 4):
        alone = wordsens.word_sensitivity(map, X, positions=[i])
        assert alone.sup == pytest.approx(whole.by_position[i].item(), rel=tolerance)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_permuting_tokens_permutes_the_positions(name):
    # twenty tokens: among few, a ReLU row without positive scores jumps where no gradient sees it
    X = sample(20, 9, seed=8)
    map = wordsens.build_map(name, d=9, seed=3, **EVERY[name])
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    plain = wordsens.word_sensitivity(map, X, positions="all", starts=96)
    moved = wordsens.word_sensitivity(map, X[order], positions="all", starts=96)
    # what one of them found is as good for the other, exactly
    there = map.perturb(X, int(order[moved.position]))
    found = (there.features(moved.delta) - map.features(X)).norm() / map.features(X).norm()
    assert found.item() == pytest.approx(moved.sup, rel=1e-9)
    # other random starts at each position: the suprema agree, not the paths to them, and on the
    # ridges of ReLU some positions have a maximum that few starts find
    tolerance, share = (3e-2, 0.8) if name == "relu_raf" else (1e-2, 1.0)
    close = torch.isclose(moved.by_position, plain.by_position[order], rtol=tolerance)
    assert close.double().mean() >= share
    assert moved.sup == pytest.approx(plain.sup, rel=tolerance)


@pytest.mark.parametrize("name", EVERY)
def test_batch_composition_changes_nothing(name):
    from wordsens.search.sensitivity import summarise
    from wordsens.search.supremum import search

    trials, n, d = 4, 6, 8
    cls = map_class(name)
    X = sample(n, d, lead=(trials,), seed=1)
    streams = [wordsens.Stream(0, "cell", trial=t) for t in range(trials)]
    sets = torch.tensor([[0]])

    def run(chosen):
        mine = [streams[t] for t in chosen]
        fresh = [wordsens.Stream(0, "cell", trial=t) for t in chosen]
        view = cls.draw_view(X[chosen], sets, fresh, MapOptions(**EVERY[name]))
        return summarise([search(cls, view, sets, mine, cls.effort_for(n, d), n)], sets, False)

    together, alone = run([0, 1, 2, 3]), run([2])
    tolerance = 1e-2 if name == "relu_raf" else 1e-9
    assert alone.sup.item() == pytest.approx(together.sup[2].item(), rel=tolerance)


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_chunks_of_positions_change_nothing(name, monkeypatch):
    from wordsens.maps.attention import view

    X = sample(9, 6, seed=4)
    map = wordsens.build_map(name, d=6, seed=0)
    whole = wordsens.word_sensitivity(map, X, positions="all", starts=6)
    monkeypatch.setattr(view, "WORKING_BYTES", 1)
    cut = wordsens.word_sensitivity(map, X, positions="all", starts=6)
    # the ridges of ReLU amplify the rounding of differently shaped products
    tolerance = 1e-2 if name == "relu_raf" else 1e-9
    assert torch.allclose(whole.by_position, cut.by_position, rtol=tolerance)


def test_more_words_change_more():
    X = sample(12, 10, seed=2)
    for name in ("rf", "raf"):
        map = wordsens.build_map(name, n=12, d=10, seed=4)
        sups = [
            wordsens.word_sensitivity(map, X, positions="first", words=m).sup for m in (1, 2, 4, 8)
        ]
        assert sups == sorted(sups)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positions": "last"}, "choose first, all, random"),
        ({"positions": "random:9"}, "1 ≤ r ≤ 5"),
        ({"positions": [5]}, "position 5 is outside 0 … 4"),
        ({"positions": [[0, 0]], "words": 2}, "names? one word twice"),
        ({"positions": [0], "words": 2}, "sets of 2 word"),
        ({"words": 6, "positions": "first"}, "words = 6"),
        ({"positions": 0}, "neither a word nor a list"),
        ({"positions": ["0"]}, "position = '0'"),
        ({"words": 1.0}, "words = 1.0 must be a whole number"),
        ({"starts": 0}, "starts = 0"),
        ({"steps": 1.5}, "steps = 1.5 must be a whole number"),
        ({"steps": 3, "search": "published"}, "steps are fixed"),
        ({"reach": -1.0}, "reach = -1.0"),
        ({"reach": float("nan")}, "reach = nan"),
        ({"seed": 1.5}, "seed = 1.5"),
        ({"search": "newton"}, "power or published"),
    ],
)
def test_bad_questions_are_one_line(options, words):
    map = wordsens.build_map("raf", d=4, seed=0)
    with pytest.raises(UserError, match=words) as error:
        wordsens.word_sensitivity(map, sample(5, 4), **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["rf", "raf", "qkv"])
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (torch.full((5, 4), torch.nan), "nan or inf"),
        (torch.ones(5, 3), "built for"),
        (torch.ones(4), "has shape"),
        (torch.ones(0, 5, 4), "nothing in it"),
        (torch.ones(5, 4, dtype=torch.complex64), "complex"),
        ("words", "no array of numbers"),
    ],
)
def test_what_is_no_sample_of_the_map_is_one_line(name, X, words):
    map = wordsens.build_map(name, n=5, d=4, seed=0)
    with pytest.raises(UserError, match=words):
        wordsens.word_sensitivity(map, X)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("raf", {"d": 0}, "d = 0"),
        ("raf", {"d": 4, "heads": 2}, "only for qkv"),
        ("raf", {"d": 4, "k": 8}, "only for rf and drf"),
        ("raf", {"d": 4, "dtype": torch.int64}, "float32 or torch.float64"),
        ("drf", {"n": 5, "d": 4, "depth": 0}, "depth = 0"),
        ("rf", {"n": 5, "d": 4, "k": 2.5}, "k = 2.5"),
        ("qkv", {"d": 4, "head_dim": 0}, "head_dim = 0"),
    ],
)
def test_maps_that_cannot_be_are_one_line(name, options, words):
    with pytest.raises(UserError, match=words):
        wordsens.build_map(name, **options)


def test_positions_may_be_arrays_and_several_words_need_none():
    X, map = sample(6, 4), wordsens.build_map("raf", d=4, seed=0)
    plain = wordsens.word_sensitivity(map, X, positions=[0, 3])
    for positions in (np.array([0, 3]), torch.tensor([0, 3]), [np.int64(0), np.int64(3)]):
        assert wordsens.word_sensitivity(map, X, positions=positions).sup == plain.sup
    two = wordsens.word_sensitivity(map, X, words=2)
    assert two.sup == wordsens.word_sensitivity(map, X, [[0, 1]], words=2).sup


def test_where_no_feature_is_left_there_is_no_ratio():
    """φ(X) = 0: neither an infinite supremum nor an invented bound."""
    V = -torch.eye(2, dtype=torch.float64)
    map = wordsens.build_map("rf", weights={"V1": V})
    found = wordsens.word_sensitivity(map, torch.ones(1, 2, dtype=torch.float64))
    assert found.norm == 0
    assert math.isnan(found.sup)
    assert math.isnan(found.bound)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 12])
def test_few_steps_are_enough_for_a_value(name, steps):
    """However few, so that exploring ends before all are given up that would be."""
    map = wordsens.build_map(name, n=6, d=5, seed=1, **EVERY[name])
    found = wordsens.word_sensitivity(map, sample(6, 5, seed=0), steps=steps)
    assert 0 < found.sup < torch.inf
