"""Where the search of layers starts: towards words that move a layer, and what attracts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import wordsens
from tests.encoders.test_layered import IDS, sharp
from wordsens.data.encoders import Encoder
from wordsens.encoders import layer_search
from wordsens.encoders.layer_search import Rung, climb, ladder, search_each
from wordsens.encoders.layer_starts import Beginnings
from wordsens.encoders.view import EncoderView
from wordsens.maps.autograd import AutogradView
from wordsens.randomness import Stream
from wordsens.search.momentum import Course, Front, ascend


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
def test_a_direction_to_a_word_ends_at_the_word(encoder, perturb: str) -> None:
    model = sharp(encoder, perturb)
    view = EncoderView(model, IDS, torch.tensor([[1, 4], [3, 2]]), [3])
    words = torch.arange(5, 29).reshape(2, 2, 3, 2)
    moved = model.embed(IDS)[:, None, None].repeat(1, 2, 3, 1, 1)
    delta = view.moved_by(view.towards(words))
    for trial in range(2):
        for group, rows in enumerate([[1, 4], [3, 2]]):
            for start in range(3):
                text = IDS[trial].clone()
                text[rows] = words[trial, group, start]
                moved[trial, group, start, rows] += delta[trial, group, start]
                expected = model.embed(text[None])[0]
                torch.testing.assert_close(moved[trial, group, start], expected)


def recorded(encoder: Encoder, monkeypatch, layers: list[int], **effort: int):
    """Every climb, as its layer, the directions from which it begins and its course; the names."""
    seen: list[tuple[int, torch.Tensor, Course]] = []

    def watched(view: EncoderView, front: Front, course: Course, **more: Any) -> Front:
        seen.append((view.targets[0].item(), front.u, course))
        return ascend(view, front, course, **more)

    monkeypatch.setattr(layer_search, "ascend", watched)
    sets = torch.tensor([[1], [3]])
    view = EncoderView(sharp(encoder), IDS, sets, layers)
    streams = [Stream(0, "search", trial=trial) for trial in range(len(IDS))]
    found, names = search_each(view, layers, sets, streams, **effort)
    return view, seen, found, names


@pytest.mark.parametrize(
    ("layers", "rungs"),
    [
        ([6], [1, 2, 3, 6]),
        ([1, 3, 6], [1, 2, 3, 6]),
        ([1], [1]),
        ([0, 5], [0, 1, 2, 3, 5]),
        ([12, 7], [1, 2, 3, 4, 6, 7, 12]),
    ],
)
def test_a_ladder_halves_the_depth_down_to_the_first_block(layers, rungs) -> None:
    assert ladder(layers) == rungs


def places(view: EncoderView, words: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Which directions u (T, P, S, 1, d) point to one of the words (T, P, C, 1)."""
    toward = torch.nn.functional.normalize(view.towards(words), dim=-1)
    return ((u[:, :, :, None] - toward[:, :, None]).abs().amax((-1, -2)) < 1e-9).any(-1)


def test_a_rung_begins_with_the_best_from_below_and_with_words(encoder, monkeypatch) -> None:
    monkeypatch.setattr(layer_search, "MET", 2.0)  # nothing ever meets
    view, seen, _, names = recorded(encoder, monkeypatch, [3], starts=4, steps=6)
    (below, *_), (_, first, _), (second, then, _), (third, last, _) = seen
    assert (below, second, third) == (1, 2, 3)
    assert (first.shape[2], then.shape[2], last.shape[2]) == (8, 5, 2)
    assert names == ["queries", "singular", *["random"] * 6, "word"]
    assert [c.steps for _, _, c in seen] == [8, 3, 3, 6]
    # Where all come from below they are at the foot of something, and longer steps would leave it.
    assert [c.first for _, _, c in seen] == [(0.4,), (0.1,), (0.1,), (0.05,)]
    every = torch.arange(44).expand(2, 2, -1)[..., None]
    assert places(view, every, then)[:, :, 2:].all(), "new starts point to words"
    # The two from below are the best that the first block's starts visited.
    here = view.at_layer(1)
    scouts = ascend(here, Front.of(seen[0][1]), seen[0][2])
    reached = ascend(here, scouts, seen[1][2])
    best = reached.take(reached.value.topk(2).indices.sort().values)
    torch.testing.assert_close(then[:, :, :2], best.u)


@pytest.mark.parametrize("starts", [1, 4])
def test_new_starts_are_the_words_that_move_a_layer_most(encoder, starts: int) -> None:
    sets = torch.tensor([[1], [3]])
    view = EncoderView(sharp(encoder), IDS, sets, [3])
    streams = [Stream(0, "search", trial=trial) for trial in range(len(IDS))]
    begin = Beginnings.of(view, sets, streams, starts, last=3)
    every = torch.arange(44).expand(2, 2, -1)[..., None]
    assert begin.toward.shape[2] == (4 if starts == 1 else 18)
    # All but the word that stands there already.
    assert ((~places(view, every, begin.toward)).sum(-1) <= 1).all()
    value, _ = view.value_and_grad(view.tokens[:, :, None] + view.radius * begin.toward)
    count = min(3, starts)
    chosen = begin.at(3, count).u
    started, _ = view.value_and_grad(view.tokens[:, :, None] + view.radius * chosen)
    torch.testing.assert_close(started.sort().values, value.sort().values[..., -count:])


def test_one_start_climbs_all_the_way(encoder, monkeypatch) -> None:
    _, seen, _, _ = recorded(encoder, monkeypatch, [1, 3], starts=1, steps=7)
    assert [(layer, course.steps) for layer, _, course in seen] == [(1, 7), (3, 7)]


def two_poles() -> tuple[AutogradView, torch.Tensor]:
    """F = ⟨e, Δ⟩² has a maximum at either pole; in two of three trials all starts are near one."""
    points = torch.randn(3, 1, 4, 1, 16, dtype=torch.float64, generator=torch.manual_seed(1))
    points[[0, 2], ..., 0] = points[[0, 2], ..., 0].abs() + 0.5
    points[1, 0, :2, 0, 0], points[1, 0, 2:, 0, 0] = 1.0, -1.0
    still = torch.zeros(3, 1, 16, dtype=torch.float64)
    return AutogradView(lambda X: X[..., 0, :1], still, torch.tensor([[0]])), points


def climbed(
    view: AutogradView,
    points: torch.Tensor,
    settling: int = 20,
    keep: dict[int, int] | None = None,
    scouts: int = 4,
) -> Rung:
    starts = points.shape[2]
    course = Course(100, (0.1,), 0.005, keep or {}, 0.7, [starts], memory_at_end=0.9)
    simple = torch.ones(points.shape[:2], dtype=torch.bool)
    return climb(view, Front.of(points), simple, course, scouts, settling)


def test_starts_that_have_met_settle_and_others_climb_on_whatever_is_beside_them() -> None:
    view, points = two_poles()
    together = climbed(view, points)
    assert together.met[:, 0].tolist() == [True, False, True]
    found = together.maximum(view.radius)
    torch.testing.assert_close(
        found.value.sqrt(), torch.full_like(found.value, 4), rtol=1e-5, atol=0
    )
    assert found.steps[:, 0].tolist() == [8 + 20, 8 + 100, 8 + 20]
    for trial in range(3):
        alone = climbed(view.trials([trial]), points[trial : trial + 1]).maximum(view.radius)
        for name, x in vars(alone).items():
            torch.testing.assert_close(getattr(found, name)[trial : trial + 1], x, msg=name)


def test_starts_at_different_places_go_on() -> None:
    """Of two poles one is found by the better starts; the best of either goes on."""
    view, points = two_poles()
    rung = climbed(view, points)
    onward = rung.going_on(2).u[1, 0, :, 0, 0]
    assert sorted(onward.sign().tolist()) == [-1, 1]
    best = rung.front.value[1, 0].argmax()
    assert torch.equal(rung.going_on(1).u[1, 0, 0], rung.front.u[1, 0, best])


def test_half_of_those_that_go_on_are_of_either_kind() -> None:
    u = torch.eye(6, dtype=torch.float64)[None, None, :, None]
    value = torch.tensor([[[6.0, 5, 4, 3, 2, 1]]], dtype=torch.float64)
    front = replace(Front.of(u), value=value)
    rung = Rung(front, (3, 3), torch.zeros(1, 1, dtype=torch.bool), value[..., :2])
    assert rung.going_on(4).start.tolist() == [[[0, 1, 3, 4]]]
    assert rung.going_on(1).start.tolist() == [[[0]]]


def test_where_all_had_met_one_goes_on_and_others_come_anew(encoder, monkeypatch) -> None:
    monkeypatch.setattr(layer_search, "MET", -1.0)
    monkeypatch.setattr(layer_search, "AGREED", 1.0)  # everything has met
    view, seen, _, _ = recorded(encoder, monkeypatch, [3], starts=4, steps=50)
    # Eight steps of scouts on every rung; of the best 20 in the first block, and fewer where a
    # maximum is asked for and one scout was near it.
    assert [(layer, course.steps) for layer, _, course in seen] == [
        *[(1, 8), (1, 20)],
        *[(2, 8)],
        *[(3, 8), (3, 12)],
    ]
    assert [u.shape[2] for _, u, _ in seen] == [8, 1, 3, 2, 1]
    every = torch.arange(44).expand(2, 2, -1)[..., None]
    assert places(view, every, seen[2][1])[:, :, 1:].all()
    assert not places(view, every, seen[2][1])[:, :, :1].any()


def test_what_is_found_is_the_value_in_its_own_layer(encoder, monkeypatch) -> None:
    """And not that of the layer below, where a start came from."""
    view, _, found, _ = recorded(encoder, monkeypatch, [1, 2, 3], starts=4, steps=3)
    value, _ = view.value_and_grad((view.tokens + found.delta)[:, :, None])
    torch.testing.assert_close(found.value, value[..., 0])


def test_one_start_of_the_first_layer_is_what_attracts(encoder, monkeypatch) -> None:
    _, _, found, names = recorded(encoder, monkeypatch, [1, 2], starts=1, steps=1)
    assert names == ["queries", "word"]
    assert found.start.reshape(2, 2, 2).unique(dim=1).tolist() == [[[0, 1]], [[0, 1]]]


def test_the_first_block_alone_looks_at_no_words(encoder, monkeypatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("no words are looked at")

    monkeypatch.setattr(EncoderView, "towards", refused)
    monkeypatch.setattr(EncoderView, "relative_changes", refused)
    for starts in (1, 3):
        _, seen, _, _ = recorded(encoder, monkeypatch, [1], starts=starts, steps=2)
        assert {layer for layer, _, _ in seen} == {1}


def test_starts_are_given_up_where_a_maximum_is_asked_for(encoder, monkeypatch) -> None:
    monkeypatch.setattr(layer_search, "MET", 2.0)
    _, seen, _, _ = recorded(encoder, monkeypatch, [1, 2, 3], starts=6, steps=30)
    _, first, second, third = [(layer, c.kinds, c.keep) for layer, _, c in seen]
    assert first == (1, [12], {5: 6, 10: 3})
    # Three come from below and five anew; three go on, two of a kind at most, of twice as many.
    assert second == (2, [3, 5], {10: 4})
    assert third == (3, [3, 0], {20: 2})
    assert [u.shape[2] for _, u, _ in seen] == [12, 12, 8, 3]
    _, seen, _, _ = recorded(encoder, monkeypatch, [3], starts=6, steps=30)
    on_the_way = [(c.kinds, c.keep) for layer, _, c in seen if layer == 2]
    assert on_the_way == [([3, 5], {})], "there all climb on"


def test_of_starts_at_one_place_all_but_the_best_are_given_up_first() -> None:
    """Two of four are at one pole and higher than those at the other, of which one stays."""
    view, points = two_poles()
    points[1, 0, 2:, 0, 0] = -0.8
    rung = climbed(view, points, keep={12: 2})
    onward = rung.front.u[1, 0, :, 0, 0]
    assert sorted(onward.sign().tolist()) == [-1, 1]


def test_where_one_start_is_left_its_spread_is_to_the_second() -> None:
    view, points = two_poles()
    rung = climbed(view, points, keep={0: 1})
    scouted = climbed(view, points).finals
    assert rung.front.value.shape[-1] == sum(rung.kinds) == 1
    low, high = rung.finals[1, 0].tolist()
    assert 0 < low < high == rung.front.value[1, 0, 0]
    # Where all met, scouts say how far apart they were.
    assert torch.equal(rung.finals[[0, 2]], scouted[[0, 2]])


def test_who_was_not_sent_ahead_climbs_where_scouts_have_not_met() -> None:
    view, points = two_poles()
    rung = climbed(view, points, scouts=3)
    assert rung.met[:, 0].tolist() == [True, False, True]
    assert rung.front.steps[1, 0].tolist() == [108, 108, 108, 100]
    assert rung.front.start[1, 0].tolist() == [0, 1, 2, 3]


def test_scouts_alone_lead_on_where_no_maximum_is_asked_for() -> None:
    view, points = two_poles()
    rung = climbed(view, points, settling=0)
    assert rung.front.steps[0, 0].tolist() == [8] * 4
    assert (rung.front.value[0, 0] == rung.finals[0, 0, 1]).all()


def test_spread_tells_of_two_starts(encoder) -> None:
    found = wordsens.layer_sensitivity(sharp(encoder), IDS[0, 1:-1], starts=2, steps=3, layers=[3])
    assert found.spread[0] > 0


def test_a_layers_search_knows_nothing_of_layers_off_its_ladder(encoder, monkeypatch) -> None:
    _, alone, _, _ = recorded(encoder, monkeypatch, [2], starts=2, steps=4)
    _, both, _, _ = recorded(encoder, monkeypatch, [2, 3], starts=2, steps=4)
    for (_, u, _), (_, same, _) in zip(
        alone, [x for x in both if x[0] < 3 and x[1].shape[2] != 0], strict=True
    ):
        width = min(u.shape[2], same.shape[2])
        assert torch.equal(u[:, :, :width], same[:, :, :width])
