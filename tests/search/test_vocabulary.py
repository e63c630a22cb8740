"""Every substitution of a word, against recomputing the whole map."""

from __future__ import annotations

import math

import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.search import substitution as module

MAPS = {
    "raf": {},
    "relu_raf": {},
    "qkv": {"heads": 2, "head_dim": 5},
    "rf": {"n": 12},
    "drf": {"n": 12, "depth": 2, "k": 30},
}
ATTENTION = ("raf", "relu_raf", "qkv")
n, d, V = 12, 8, 25


def on_the_sphere(count: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(count, d, generator=g, dtype=torch.float64)
    return (X / X.norm(dim=-1, keepdim=True) * d**0.5).to(dtype)


def brute_force(map, X, words, positions=None):
    """Relative changes (P, V) from features of the changed samples, and distances in √d."""
    X, words = X.double(), words.double()
    base = map.features(X)
    positions = range(len(X)) if positions is None else positions
    change = torch.empty(len(positions), words.shape[-2], dtype=torch.float64)
    distance = torch.empty_like(change)
    for row, i in enumerate(positions):
        own = words if words.ndim == 2 else words[i]
        changed = X.repeat(len(own), 1, 1)
        changed[:, i] = own
        gap = map.features(changed) - base
        change[row] = gap.flatten(1).norm(dim=1) / base.norm()
        distance[row] = (own - X[i]).norm(dim=1) / X.shape[1] ** 0.5
    return change, distance


def peaked(name: str, scale: float):
    """A map whose rows put nearly all weight on one word: the digits are lost to subtraction."""
    weights = {"W": scale * wordsens.build_map(name, d=d, seed=3).query.matrix[0, 0].mT * d**0.5}
    return wordsens.build_map(name, weights=weights)


@pytest.mark.parametrize("few", [0, 99], ids=["expanded", "term by term"])
@pytest.mark.parametrize("name", MAPS)
def test_equals_recomputing_the_map(name, few, monkeypatch):
    monkeypatch.setattr(module, "FEW", few)
    X, words = on_the_sphere(n, 1), on_the_sphere(V, 2)
    map = wordsens.build_map(name, d=d, seed=4, **MAPS[name])
    found = wordsens.vocabulary_sensitivity(map, X, words)
    change, distance = brute_force(map, X, words)
    assert torch.allclose(found.change, change, rtol=1e-12, atol=0)
    assert found.sup == pytest.approx(change.max().item(), rel=1e-12)
    assert found.norm == pytest.approx(map.features(X).norm().item(), rel=1e-12)
    at = (found.top.position, found.top.word)
    assert torch.allclose(found.top.change, change[at], rtol=1e-12)
    assert torch.allclose(found.top.distance, distance[at], rtol=1e-12)


@pytest.mark.parametrize("few", [0, 99], ids=["expanded", "term by term"])
@pytest.mark.parametrize("scale", [1, 5, 30, 300])
@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_words_that_hold_a_whole_row(name, scale, few, monkeypatch):
    """Scores of hundreds: s_ji within rounding of 1, and e_v that takes everything or nothing."""
    monkeypatch.setattr(module, "FEW", few)
    map = peaked(name, scale)
    X, words = on_the_sphere(n, 5), torch.cat([on_the_sphere(V, 6), on_the_sphere(n, 5)])
    X[3:6] = X[2]  # repeated words share a row's weight
    found = wordsens.vocabulary_sensitivity(map, X, words)
    change, _ = brute_force(map, X, words)
    assert torch.allclose(found.change, change, rtol=1e-11, atol=1e-7)
    large = change > 1e-3
    assert torch.allclose(found.change[large], change[large], rtol=1e-11, atol=0)


def test_relu_rows_that_lose_their_only_score_output_nothing():
    """Two tokens of one direction each: what is left when the only positive score goes is 0."""
    X = torch.eye(d, dtype=torch.float64)[:4] * d**0.5
    words = torch.cat([X, -X, torch.ones(1, d, dtype=torch.float64)])
    W = torch.zeros(d, d, dtype=torch.float64)
    W[0, 1], W[1, 0], W[2, 2] = 1, 1, -1  # rows 2 and 3 have no positive score at all
    map = wordsens.build_map("relu_raf", weights={"W": W})
    assert (map.features(X)[2:] == 0).all()
    found = wordsens.vocabulary_sensitivity(map, X, words)
    change, _ = brute_force(map, X, words)
    assert torch.allclose(found.change, change, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", ATTENTION)
def test_float32_agrees_to_a_millionth(name):
    X, words = on_the_sphere(n, 1, torch.float32), on_the_sphere(V, 2, torch.float32)
    map = wordsens.build_map(name, d=d, seed=4, dtype=torch.float32, **MAPS[name])
    exact = wordsens.build_map(name, d=d, seed=4, **MAPS[name])
    found = wordsens.vocabulary_sensitivity(map, X, words)
    change, _ = brute_force(exact, X, words)
    assert found.change.dtype == torch.float32
    assert (found.change - change).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["raf", "rf"])
def test_vectors_that_depend_on_the_position(name):
    X = on_the_sphere(n, 1)
    words = torch.stack([on_the_sphere(V, 10 + i) for i in range(n)])
    map = wordsens.build_map(name, d=d, seed=4, **MAPS[name])
    found = wordsens.vocabulary_sensitivity(map, X, lambda i: words[i], positions=[7, 2])
    change, _ = brute_force(map, X, words, [7, 2])
    assert torch.allclose(found.change, change, rtol=1e-12)
    assert found.positions.tolist() == [7, 2]
    assert set(found.top.position.tolist()) <= {7, 2}


@pytest.mark.parametrize("name", MAPS)
def test_blocks_change_nothing(name, monkeypatch):
    X, words = on_the_sphere(n, 1), on_the_sphere(V, 2)
    map = wordsens.build_map(name, d=d, seed=4, **MAPS[name])
    whole = wordsens.vocabulary_sensitivity(map, X, words)
    monkeypatch.setattr(module, "FEW", 3)
    monkeypatch.setattr(module, "EXPANSION_BYTES", 1)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8000)
    cut = wordsens.vocabulary_sensitivity(map, X, words)
    assert torch.allclose(whole.change, cut.change, rtol=1e-12)
    for name in ("top", "top_in_ball", "best", "best_in_ball"):
        a, b = getattr(whole, name), getattr(cut, name)
        assert torch.equal(a.word, b.word)
        assert torch.equal(a.position, b.position)
        assert torch.allclose(a.distance, b.distance, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "rf"])
def test_top_and_ball(name):
    X, words = on_the_sphere(n, 1), torch.cat([on_the_sphere(V, 2), on_the_sphere(n, 1)])
    map = wordsens.build_map(name, d=d, seed=4, **MAPS[name])
    change, distance = brute_force(map, X, words)
    found = wordsens.vocabulary_sensitivity(map, X, words, top=7)
    assert found.change is None
    assert len(found.top) == len(found.top_in_ball) == 7
    inside = torch.where(distance <= 1, change, -1)
    for top, values in ((found.top, change), (found.top_in_ball, inside)):
        largest = values.flatten().topk(7).values
        assert torch.allclose(top.change, largest, rtol=1e-11)
        assert torch.allclose(values[top.position, top.word], largest, rtol=1e-11)
    for best, values in ((found.best, change), (found.best_in_ball, inside)):
        assert torch.equal(best.position, torch.arange(n))
        assert torch.equal(best.word, values.argmax(1))
        assert torch.allclose(best.change, values.amax(1), rtol=1e-11)
    assert found.sup == found.top.change[0]
    assert found.sup_in_ball == found.top_in_ball.change[0] < found.sup
    nowhere = wordsens.vocabulary_sensitivity(map, X, -X, positions=[0], top=2, reach=1e-3)
    assert math.isnan(nowhere.sup_in_ball)
    assert nowhere.best_in_ball.word.tolist() == [-1]
    assert len(nowhere.top_in_ball) == 0


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_no_word_beats_the_search_over_the_ball(name):
    X, words = on_the_sphere(n, 1), on_the_sphere(400, 2)
    map = wordsens.build_map(name, d=d, seed=4)
    found = wordsens.vocabulary_sensitivity(map, X, words)
    searched = wordsens.word_sensitivity(map, X, positions="all")
    assert found.sup_in_ball <= searched.sup * (1 + 1e-6)
    if name == "raf":
        assert found.sup_in_ball <= searched.bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MAPS)
def test_a_word_is_no_substitute_for_itself(name, dtype):
    """Its own row, computed another way to float32 rounding, is neither a change nor listed."""
    X, others = on_the_sphere(n, 1, dtype), -on_the_sphere(n, 1, dtype)
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    own = (X.double() + 3e-7 * noise).to(dtype)
    map = wordsens.build_map(name, d=d, seed=4, dtype=dtype, **MAPS[name])
    found = wordsens.vocabulary_sensitivity(map, X, torch.cat([own, others]))
    assert (found.change[:, :n].diagonal() == 0).all()
    assert (found.best.word != torch.arange(n)).all()
    assert not (found.top.distance < 1e-3).any()
    one = wordsens.vocabulary_sensitivity(map, X, own[:1], positions=[0])
    assert math.isnan(one.sup)
    assert math.isnan(one.sup_in_ball)
    assert len(one.top) == len(one.top_in_ball) == 0
    assert one.best.word.tolist() == one.best_in_ball.word.tolist() == [-1]
    assert one.best.change.isnan().all()
    near = X[:1] * (1 + 1e-3)
    away = wordsens.vocabulary_sensitivity(map, X, near, positions=[0], top=1).top.distance
    assert float(away[0]) == pytest.approx(1e-3, rel=1e-2), "small distances keep their digits"


def test_one_word_alone():
    X, words = on_the_sphere(1, 1), on_the_sphere(V, 2)
    for name in ("raf", "relu_raf"):
        map = wordsens.build_map(name, d=d, seed=1)
        assert map.features(X).norm() > 0
        found = wordsens.vocabulary_sensitivity(map, X, words)
        assert torch.allclose(found.change, brute_force(map, X, words)[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "words", "options", "message"),
    [
        ((n, d), (V, d - 1), {}, r"must be \(V, 8\)"),
        ((n, d), (0, d), {}, "at least one word"),
        ((2, n, d), (V, d), {}, r"takes \(n, d\)"),
        ((n, d), (V, d), {"top": 0}, "top = 0"),
        ((n, d), (V, d), {"positions": [n]}, "position 12 is outside"),
    ],
)
def test_bad_questions_are_one_line(X, words, options, message):
    map = wordsens.build_map("raf", d=d, seed=0)
    with pytest.raises(UserError, match=message) as error:
        wordsens.vocabulary_sensitivity(map, torch.ones(X), torch.ones(words), **options)
    assert "\n" not in str(error.value)
