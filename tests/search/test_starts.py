"""Starts that differ: cones of ReLU attention, kinds halved apart, fresh starts where needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from wordsens.maps import map_class, position_sets
from wordsens.maps.attention.silence import alone, but_one
from wordsens.randomness import Stream
from wordsens.search import power, supremum
from wordsens.search.afresh import met_once, with_best
from wordsens.search.auditing import longer
from wordsens.search.maximum import Maximum, leaders_by_kind
from wordsens.search.power import climb
from wordsens.search.ridges import follow_ridges
from wordsens.search.sensitivity import chosen_effort, summarise
from wordsens.search.supremum import search, starting_points


def drawn(name, n, d, trials, mean=0.0, key="starts"):
    """A view of random maps at samples whose words share a mean, and the trials' streams."""
    streams = [Stream(0, key, n=n, d=d, t=t) for t in range(trials)]
    X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
    X += mean * torch.stack([s.child("mean").normal(1, d, dtype=torch.float64) for s in streams])
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    cls, sets = map_class(name), position_sets([[0]], n)
    return cls, cls.draw_view(X, sets, [s.child("map") for s in streams]), sets, streams


@pytest.mark.parametrize(("n", "mean"), [(40, 0.0), (120, 1.5)])
def test_words_that_attend_to_themselves_alone_are_found(n, mean):
    """Their own row outputs v, and that of the other kind one other word."""
    d, trials = 64, 3
    _, view, sets, streams = drawn("relu_raf", n, d, trials, mean)
    noise = torch.stack([s.child("noise").normal(1, 6, 1, d).double() for s in streams])
    for directions, own in ((alone, True), (but_one, False)):
        u = directions(view.state, sets, noise, view.radius)
        torch.testing.assert_close(u.norm(dim=-1), torch.ones(trials, 1, 6, 1).double())
        at = view.at(view.tokens[:, :, None] + view.radius * u)
        active = (at.q > 0).sum(-1)
        assert (active <= 1).double().mean() > 0.7
        if own:
            mine = at.q.gather(-1, at.index)
            assert (mine > 0).double().mean() > 0.9
            assert (view.features(view.tokens[:, :, None] + view.radius * u).isfinite()).all()


def test_a_kind_of_starts_is_not_given_up_for_another():
    """Where the best of 250 words attends to itself, other starts look better at first."""
    n, d, trials = 250, 32, 4
    cls, view, sets, streams = drawn("relu_raf", n, d, trials, mean=1.0)
    effort = cls.effort_for(n, d)
    found = summarise([search(cls, view, sets, streams, effort, n)], sets, single=False).sup
    noise = torch.stack([s.child("starts", words=[0]).normal(24, 1, d) for s in streams])
    starts, _ = starting_points(view, noise[:, None].double())
    plain = follow_ridges(view, starts, [], steps=effort.steps)
    without = view.squared_change(plain.delta)[:, 0].sqrt() / view.norm[:, 0]
    assert (found >= without * 0.999).all()
    assert (found > 1.02 * without).any()


def test_leaders_are_chosen_within_their_kind():
    value = torch.tensor([[[5.0, 9.0, 7.0, 1.0, 0.0, 3.0]]])
    assert leaders_by_kind(value, [3, 3], [1, 2]).tolist() == [[[1, 3, 5]]]
    assert leaders_by_kind(value, [6], [2]).tolist() == [[[1, 2]]]


def test_the_spread_shows_where_annealing_leads_astray():
    """Some annealed starts are kept to the end, so that the finals show what they missed."""
    n, d, trials = 40, 8, 60
    _, view, _, streams = drawn("raf", n, d, trials, mean=1.0)
    starts = torch.stack([s.child("starts").normal(1, 24, 1, d).double() for s in streams])
    index = torch.arange(24).expand(starts.shape[:3])
    u, _ = power._annealed(view, power.sphere(starts), index, 50, 100)
    annealed = climb(view, u, anneal=0, steps=80).value
    found = climb(view, starts, anneal=50, steps=80, halve=4)
    astray = annealed < 0.9 * found.value
    assert 2 <= astray.sum() < trials / 2
    spread = 1 - found.finals.amin(-1) / found.finals.amax(-1)
    assert (spread[astray] > 0.09).all()


def test_few_dimensions_have_more_starts():
    """At n = 400, d = 32 a dozen plain starts all missed the best maximum of some draws."""
    n, d = 400, 32
    cls, view, sets, streams = drawn("raf", n, d, 24, mean=1.0, key="few")
    many = cls.effort_for(n, d)
    few = cls.effort_for(n, 512)
    assert many.starts > few.starts
    assert many.plain is None

    def found(effort):
        return search(cls, view, sets, streams, effort, n).maximum.value[:, 0]

    raised = found(many) / found(few)
    assert (raised > 1 - 1e-5).all()
    assert (raised > 1.05).any()


def lonely(finals):
    finals = torch.tensor(finals, dtype=torch.float64)[None, None]
    one = torch.zeros(1, 1, dtype=torch.long)
    return Maximum(finals.amax(-1), torch.zeros(1, 1, 1, 2), one, one, finals)


@pytest.mark.parametrize(("name", "n", "d"), [("raf", 10, 96), ("relu_raf", 20, 9), ("rf", 5, 8)])
def test_starts_asked_for_bring_fresh_ones_in_proportion(name, n, d):
    effort = map_class(name).effort_for(n, d)
    assert chosen_effort(effort, effort.starts) == effort
    twice = chosen_effort(effort, 2 * effort.starts)
    assert (twice.starts, twice.afresh) == (2 * effort.starts, 2 * effort.afresh)


def test_where_one_start_alone_came_to_the_best():
    assert met_once(lonely([3.0, 1.0, 1.0]))
    assert met_once(lonely([1.0, 3.0, 2.99]))
    assert not met_once(lonely([3.0, 1.0, 3.0 * (1 - 1e-5)]))
    assert not met_once(lonely([3.0]))
    better = replace(lonely([3.0, 1.0]), value=torch.full((1, 1), 4.0).double())
    assert with_best(better).tolist() == [[[4.0, 1.0]]]


def test_fresh_starts_follow_there_and_nowhere_else(monkeypatch):
    """They never lower a value, raise some, depend on no other trial, and name a random start."""
    n, d, trials = 40, 8, 40
    cls, view, sets, streams = drawn("raf", n, d, trials, mean=1.0)
    plain = replace(cls.effort_for(n, d), starts=2, anneal=0, afresh=0)
    fresh = replace(plain, afresh=40)

    def found(view, streams, effort):
        return search(cls, view, sets, streams, effort, n).maximum

    before, after = found(view, streams, plain), found(view, streams, fresh)
    once = met_once(before)
    assert 3 <= once.sum() < trials
    assert torch.equal(after.value[~once], before.value[~once])
    assert (after.value >= before.value).all()
    assert (after.value > 1.05 * before.value).sum() >= 1
    torch.testing.assert_close(after.finals.amax(-1), after.value)
    few = once[:, 0].nonzero()[:3, 0].tolist()
    alone = found(view.trials(few), [streams[t] for t in few], fresh)
    torch.testing.assert_close(alone.value, after.value[few], rtol=1e-9, atol=0)
    assert longer(fresh).afresh == 5 * fresh.afresh


def test_rounding_in_one_trial_repeats_that_trial_alone(monkeypatch):
    """Where F in float32 and the direct difference disagree, float64 is asked, for nobody else."""
    n, d = 10, 8
    cls, wide, sets, streams = drawn("relu_raf", n, d, 4)
    X = wide.state.X.float()
    view = cls.draw_view(X, sets, [s.child("map") for s in streams])
    effort = cls.effort_for(n, d)
    asked = []
    kind = type(view)
    step, change = kind.value_and_grad, kind.squared_change

    def watched(self, v, sharpness=1.0):
        asked.append((v.dtype, v.shape[0]))
        return step(self, v, sharpness)

    def misled(self, delta):
        value = change(self, delta)
        if self.tokens.dtype == torch.float32 and len(value) == 4:
            value[2] *= 0.9
        return value

    plain = search(cls, view, sets, streams, effort, n).maximum.value
    monkeypatch.setattr(kind, "value_and_grad", watched)
    monkeypatch.setattr(kind, "squared_change", misled)
    again = search(cls, view, sets, streams, effort, n).maximum.value
    assert {trials for dtype, trials in asked if dtype == torch.float64} == {1}
    torch.testing.assert_close(again, plain, rtol=0.02, atol=0)


def test_what_rough_exploring_leaves_is_polished(monkeypatch):
    n, d = 25, 384
    cls, view, sets, streams = drawn("raf", n, d, 12)

    def found():
        return search(cls, view, sets, streams, cls.effort_for(n, d), n).maximum.value

    rough = found()
    monkeypatch.setattr(supremum, "ROUGH", supremum.FINE)
    monkeypatch.setattr(supremum, "POLISH", 60)
    torch.testing.assert_close(rough, found(), rtol=3e-6, atol=0)
