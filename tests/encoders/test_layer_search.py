"""Where the search of layers starts: towards words that move a layer, and what attracts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import wordsens
from tests.encoders.test_layered import IDS, sharp
from wordsens.data.encoders import Encoder
from wordsens.encoders import layer_search
from wordsens.encoders.layer_search import climb, search_each
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
    """The directions from which each layer's search begins, its course, and the names."""
    seen: list[tuple[torch.Tensor, Course]] = []

    def watched(view: EncoderView, front: Front, course: Course) -> Front:
        seen.append((front.u, course))
        return ascend(view, front, course)

    monkeypatch.setattr(layer_search, "ascend", watched)
    sets = torch.tensor([[1], [3]])
    view = EncoderView(sharp(encoder), IDS, sets, layers)
    streams = [Stream(0, "search", trial=trial) for trial in range(len(IDS))]
    _, names = search_each(view, layers, sets, streams, **effort)
    return view, seen, names


def test_deep_layers_start_at_the_words_that_move_them_most(encoder, monkeypatch) -> None:
    view, seen, names = recorded(encoder, monkeypatch, [1, 3], starts=3, steps=1)
    assert names[0] == ["queries", "random", "random"]
    assert names[1] == ["word"] * 3
    here = view.select(slice(1, None, 2))
    every = torch.arange(44).expand(2, 2, -1)[..., None]
    toward = torch.nn.functional.normalize(here.towards(every), dim=-1)
    _, chosen = (u for u, _ in seen if u.shape[2] == 3)  # of both layers, all starts
    same = (chosen[:, :, :, None] - toward[:, :, None]).abs().amax((-1, -2)) < 1e-9
    assert same.any(-1).all(), "every start points to a word"
    assert (same.sum(2) <= 1).all(), "no word twice"
    moved = here.tokens[:, :, None] + here.radius * toward
    value, _ = here.value_and_grad(moved)
    started, _ = here.value_and_grad(here.tokens[:, :, None] + here.radius * chosen)
    # 12 of 44 words are looked at, and the best three of them taken.
    assert (started.mean(-1) > value.mean(-1)).all()


def test_the_best_of_the_scouts_goes_on_alone(encoder, monkeypatch) -> None:
    view, seen, _ = recorded(encoder, monkeypatch, [3], starts=4, steps=50)
    (first, scouting), (then, onward) = seen
    assert (scouting.steps, onward.steps) == (5, 45)
    assert (first.shape[2], then.shape[2]) == (4, 1)
    reached = ascend(view, Front.of(first), scouting)
    assert torch.equal(then[:, :, 0], reached.maximum(view.radius).delta / view.radius)


def test_two_of_a_shallow_layer_go_on_until_half_of_the_way(encoder, monkeypatch) -> None:
    _, seen, _ = recorded(encoder, monkeypatch, [1], starts=4, steps=50)
    _, (then, onward) = seen
    assert then.shape[2] == 2
    assert onward.keep == {22: 1}


def test_one_start_climbs_all_the_way(encoder, monkeypatch) -> None:
    _, seen, _ = recorded(encoder, monkeypatch, [1, 3], starts=1, steps=7)
    assert [course.steps for _, course in seen] == [7, 7]


def test_starts_that_have_met_settle_and_others_climb_on_whatever_is_beside_them() -> None:
    """F = ⟨e, Δ⟩² has a maximum at either pole; in two of three trials all starts are near one."""
    points = torch.randn(3, 1, 4, 1, 16, dtype=torch.float64, generator=torch.manual_seed(1))
    points[[0, 2], ..., 0] = points[[0, 2], ..., 0].abs() + 0.5
    points[1, 0, :2, 0, 0], points[1, 0, 2:, 0, 0] = 1.0, -1.0
    still = torch.zeros(3, 1, 16, dtype=torch.float64)
    view = AutogradView(lambda X: X[..., 0, :1], still, torch.tensor([[0]]))
    together = climb(view, points, 120)
    torch.testing.assert_close(together.value.sqrt(), still.new_full((3, 1), 4), rtol=1e-5, atol=0)
    assert together.steps[:, 0].tolist() == [12 + 20, 120, 12 + 20]
    for trial in range(3):
        alone = climb(view.trials([trial]), points[trial : trial + 1], 120)
        for name, x in vars(alone).items():
            torch.testing.assert_close(getattr(together, name)[trial : trial + 1], x, msg=name)


def test_one_start_of_the_first_layer_is_what_attracts(encoder, monkeypatch) -> None:
    _, _, names = recorded(encoder, monkeypatch, [1, 2], starts=1, steps=1)
    assert names == [["queries"], ["word"]]


def test_spread_tells_of_two_starts(encoder) -> None:
    found = wordsens.layer_sensitivity(sharp(encoder), IDS[0, 1:-1], starts=2, steps=3, layers=[3])
    assert found.spread[0] > 0
    assert found.start == ["word"]


def test_a_layers_own_search_knows_nothing_of_the_others(encoder, monkeypatch) -> None:
    _, alone, _ = recorded(encoder, monkeypatch, [3], starts=2, steps=2)
    _, both, _ = recorded(encoder, monkeypatch, [1, 3], starts=2, steps=2)
    assert torch.equal(alone[0][0], [u for u, _ in both if u.shape[2] == 2][-1])
