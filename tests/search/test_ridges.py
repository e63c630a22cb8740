"""Climbs that keep to cones, and rounds of searches around the best point, in ReLU attention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from wordsens.maps import map_class, position_sets
from wordsens.maps.attention import cones as keeping
from wordsens.maps.attention.cones import ReLUCones
from wordsens.maps.attention.silence import alone, but_one, unit_rows
from wordsens.randomness import Stream
from wordsens.search import supremum
from wordsens.search.afresh import AWAY, around
from wordsens.search.momentum import Course, Front, ascend
from wordsens.search.ridges import follow_ridges
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search


def drawn(n, d, trials, mean=0.0, sets=([0],), key="ridges"):
    streams = [Stream(0, key, n=n, d=d, t=t) for t in range(trials)]
    X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
    X += mean * torch.stack([s.child("mean").normal(1, d, dtype=torch.float64) for s in streams])
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    cls, sets = map_class("relu_raf"), position_sets(list(sets), n)
    return cls, cls.draw_view(X, sets, [s.child("map") for s in streams]), sets, streams


def directions(view, count=5):
    T, P, m, d = view.tokens.shape
    g = torch.Generator().manual_seed(0)
    return torch.randn(T, P, count, m, d, generator=g, dtype=torch.float64)


def visited(view, front, course, cones=None):
    """The points v (T, P, S, m, d) at which a climb evaluates F."""
    seen, step = [], view.value_and_grad

    def watched(v, sharpness=1.0):
        seen.append(v)
        return step(v, sharpness)

    view.value_and_grad = watched
    ascend(view, front, course, cones=cones)
    view.value_and_grad = step
    return seen


def test_the_way_back_is_the_projection_onto_the_cone(monkeypatch):
    """With many dual steps: feasible, λ ≥ 0, and λ_k ⟨a_k, v⟩ = 0 (Karush, Kuhn and Tucker)."""
    monkeypatch.setattr(keeping, "INNER", 20_000)
    _, view, sets, _ = drawn(12, 6, 2, sets=([0, 3], [5, 1]))
    v = view.tokens[:, :, None] + view.radius * directions(view)
    cones = ReLUCones.at(view.state, sets, v)
    back, held = cones.back(v)
    rows = unit_rows(view.state.token_columns())
    scores = (back @ rows[:, None, None].mT) * cones.silent
    assert scores.max() < 1e-6
    assert (held.push >= 0).all()
    assert (held.push * (1 - cones.silent) == 0).all()
    assert (held.push * scores).abs().max() < 1e-6
    torch.testing.assert_close(back, v - held.push @ rows[:, None, None])


def test_cones_leave_out_changed_words_and_the_loudest():
    _, view, sets, _ = drawn(12, 6, 2, sets=([0, 3], [5, 1]))
    v = view.tokens[:, :, None] + view.radius * directions(view)
    cones = ReLUCones.at(view.state, sets, v)
    rows = unit_rows(view.state.token_columns())
    scores = v @ rows[:, None, None].mT
    for p, words in enumerate(sets.tolist()):
        assert not cones.silent[:, p, ..., words].any()
        scores[:, p, ..., words] = -torch.inf
    loudest = scores.argmax(-1)
    heard = scores.amax(-1) > 0
    at = cones.silent.gather(-1, loudest[..., None])[..., 0]
    assert torch.equal(at == 0, heard)
    assert (cones.silent.sum(-1) == 10 - heard.double()).all()


def test_starts_keep_to_their_cones_while_they_explore():
    """Without the way back, most words that attended to themselves alone hear others."""
    _, view, sets, _ = drawn(40, 32, 3)
    u = alone(view.state, sets, directions(view, 8), view.radius)
    free = directions(view, 3)
    front = Front.of(torch.cat([free, u], 2))
    course = Course(60, (0.1,), 0.01, {20: 4}, kinds=[3, 8])
    held = ReLUCones.at(view.state, sets, view.tokens[:, :, None] + view.radius * u)
    rows = unit_rows(view.state.token_columns())
    heard = []
    for cones in (held, None):
        seen = visited(view, front, course, cones)
        scores = (seen[-1] @ rows[:, None, None].mT)[..., 1:] / view.radius
        heard.append((scores > 0.03).double().sum(-1)[:, :, 3:].mean().item())
        assert seen[-1].shape[2] == 7  # three free ones and four that lead in their cones
    assert heard[0] < 0.5 * heard[1]


def test_starts_in_a_cone_depend_on_no_other():
    _, view, sets, _ = drawn(10, 8, 3)
    v = view.tokens[:, :, None] + view.radius * directions(view, 6)
    cones = ReLUCones.at(view.state, sets, v)
    back, held = cones.back(v)
    index = torch.tensor([4, 1]).expand(3, 1, 2)
    few, kept = cones.take(index).back(v[:, :, [4, 1]])
    torch.testing.assert_close(few, back[:, :, [4, 1]])
    torch.testing.assert_close(kept.push, held.push[:, :, [4, 1]])
    alone_too = ReLUCones.at(view.trials([1]).state, sets, v[1:2]).back(v[1:2])[0]
    torch.testing.assert_close(alone_too, back[1:2])


def test_steps_are_as_short_as_the_word():
    """A word near 0 turns as little in a step as one of full length."""
    _, view, _, _ = drawn(6, 5, 1)
    x = view.tokens[:, :, None]
    side = torch.linalg.qr(torch.cat([x[0, 0, 0], torch.eye(5).double()[:4]]).mT).Q[:, 1]
    turned = []
    for near in (1e-3, 0.1):
        v = near * view.radius * side + 0.5 * near**2 * x  # on the sphere around x, in first order
        front = Front.of(v - x)
        seen = visited(view, front, Course(2, (0.05,), 0.05, {}, relative=True))
        turned.append(torch.cosine_similarity(seen[0], seen[1], dim=-1).item())
    assert min(turned) > 0.995


def test_rounds_begin_around_the_best_point():
    best = torch.nn.functional.normalize(torch.randn(2, 1, 1, 9).double(), dim=-1)
    noise = torch.randn(2, 1, 9, 1, 9).double()
    away = (around(best, noise) - best[:, :, None]).norm(dim=-1)
    want = torch.tensor([*AWAY, *AWAY, AWAY[0]]).double()[:, None].expand(2, 1, -1, 1)
    torch.testing.assert_close(away, want)


def test_every_round_begins_around_the_best_so_far(monkeypatch):
    n, d = 5, 8
    cls, view, sets, streams = drawn(n, d, 6, key="rounds")
    bests = []

    def watched(best, noise):
        bests.append(best)
        return around(best, noise)

    monkeypatch.setattr(supremum, "around", watched)
    found = search(cls, view, sets, streams, replace(cls.effort_for(n, d), starts=12), n).maximum
    value = torch.stack([view.squared_change(view.radius * best) for best in bests])
    assert len(value) == 4
    assert (value.diff(dim=0) >= 0).all()
    assert (found.value >= value[-1]).all()
    assert (value[-1] > 1.001 * value[0]).any()


def test_rounds_find_more_and_trials_do_not_notice_each_other():
    n, d, trials = 5, 8, 16
    cls, view, sets, streams = drawn(n, d, trials, key="rounds")
    effort = replace(cls.effort_for(n, d), starts=12)
    found = {}
    for afresh in (0, 48):
        suprema = search(cls, view, sets, streams, replace(effort, afresh=afresh), n)
        found[afresh] = summarise([suprema], sets, single=False).sup
    assert (found[48] >= found[0] * (1 - 1e-9)).all()
    assert (found[48] > 1.005 * found[0]).sum() >= 2
    few = [3, 7]
    part = search(cls, view.trials(few), sets, [streams[t] for t in few], effort, n)
    again = summarise([part], sets, single=False).sup
    want = search(cls, view, sets, streams, effort, n)
    want = summarise([want], sets, single=False).sup[few]
    torch.testing.assert_close(again, want, rtol=1e-3, atol=0)


@pytest.mark.parametrize("kind", [alone, but_one])
def test_large_problems_keep_to_no_cones(kind):
    _, view, sets, _ = drawn(60, 100, 1)
    u = kind(view.state, sets, directions(view, 2), view.radius)
    assert view.cones(view.tokens[:, :, None] + view.radius * u) is None


@pytest.mark.parametrize("kept", [True, False])
def test_few_steps_are_enough(kept, monkeypatch):
    """However few, so that exploring ends before all starts are given up that would be."""
    _, view, _, _ = drawn(6, 5, 2)
    if not kept:
        monkeypatch.setattr(type(view), "cones", lambda self, v: None)
    starts = directions(view, 20)
    beside = view.neighbours(starts[:, :, :14])
    for steps in range(1, 24):
        assert follow_ridges(view, starts, beside, steps=steps).value.min() > 0
