"""Deep random features: momentum with long first steps over many hills."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from wordsens.maps import MapOptions, map_class, position_sets
from wordsens.maps.declaration import DEFAULTS
from wordsens.randomness import Stream
from wordsens.search import hills, supremum
from wordsens.search.hills import cross_hills
from wordsens.search.momentum import Course, Front, ascend
from wordsens.search.power import climb

DRF = map_class("drf")


def drawn(trials, n=5, d=8, depth=8):
    """A view of small deep features with stored matrices, and starts."""
    streams = [Stream(0, "hills", t=t) for t in range(trials)]
    X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
    X *= d**0.5 / X.norm(dim=-1, keepdim=True)
    options = MapOptions(depth=depth)
    view = DRF.draw_view(X, position_sets([[0]], n), [s.child("map") for s in streams], options)
    for matrix in view.deeper:
        matrix.matvec(torch.eye(n * d, dtype=torch.float64).expand(trials, -1, -1))
    starts = torch.stack(
        [s.child("starts").normal(1, 16, 1, d, dtype=torch.float64) for s in streams]
    )
    return view, starts


def test_it_comes_higher_than_guarded_steps_at_the_same_cost():
    view, starts = drawn(24, n=10, d=32)
    starts = starts[:, :, :4]
    long = cross_hills(view, starts, steps=75).value.sqrt()
    guarded = climb(view, starts, anneal=0, steps=75, halve=8).value.sqrt()
    assert (long / guarded).mean() > 1.002


def test_long_first_steps_matter(monkeypatch):
    view, starts = drawn(24)
    long = cross_hills(view, starts, steps=75).value.sqrt()
    monkeypatch.setattr(hills, "EXPLORE", ((0.02,), 0.01))
    assert (long / cross_hills(view, starts, steps=75).value.sqrt()).mean() > 1.002


def test_half_goes_on_after_each_quarter(monkeypatch):
    view, starts = drawn(2)
    courses = []

    def watched(view, front, course, **more):
        courses.append((front.u.shape[2], course))
        return ascend(view, front, course, **more)

    monkeypatch.setattr(hills, "ascend", watched)
    found = cross_hills(view, starts, steps=100)
    (many, exploring), (few, refining) = courses
    assert (many, exploring.steps, exploring.keep) == (16, 60, {15: 8, 30: 4, 45: 2})
    assert (few, refining.steps) == (2, 40)
    assert found.finals.shape[-1] == 2


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("steps", [1, 3, 22])
def test_two_starts_have_a_spread(count, steps):
    view, starts = drawn(2, depth=2)
    found = cross_hills(view, starts[:, :, :count], steps=steps)
    assert (found.finals.shape[-1] == 1) == (count == 1)
    assert torch.equal(found.finals.amax(-1), found.value)
    value, _ = view.value_and_grad(view.tokens[:, :, None] + found.delta[:, :, None])
    torch.testing.assert_close(value[..., 0], found.value)


def test_values_before_starts_are_given_up_are_their_best(monkeypatch):
    view, starts = drawn(2, depth=2)
    before, seen, step = [], [], view.value_and_grad

    def watched(v, sharpness=1.0):
        value, grad = step(v, sharpness)
        seen.append(value)
        return value, grad

    monkeypatch.setattr(view, "value_and_grad", watched)
    front = Front.of(starts)
    ascend(view, front, Course(9, (1.5,), 0.5, {3: 4, 6: 1}), before=before)
    assert [values.shape[-1] for values in before] == [16, 4]
    visited = torch.stack(seen[:4])
    assert torch.equal(before[0], visited.amax(0))
    assert (visited[-1] < before[0]).any(), "some had been higher"


@pytest.mark.parametrize(("depth", "crossed"), [(1, False), (2, True)])
def test_deep_features_are_searched_so(depth, crossed, monkeypatch):
    n, d = 4, 5
    calls = []

    def watched(view, starts, *, steps):
        calls.append(steps)
        return cross_hills(view, starts, steps=steps)

    monkeypatch.setattr(supremum, "cross_hills", watched)
    options, stream = MapOptions(depth=depth), Stream(0, "so")
    X = stream.normal(1, n, d, dtype=torch.float64)
    sets, effort = position_sets([[0]], n), DRF.effort_for(n, d, options)
    view = DRF.draw_view(X, sets, [stream.child("map")], options)
    supremum.search(DRF, view, sets, [stream], effort, n)
    assert calls == [effort.steps] * crossed


@pytest.mark.parametrize(("n", "d", "depth"), [(5, 8, 8), (40, 32, 4), (80, 768, 8), (80, 768, 2)])
def test_effort_falls_with_the_width_and_bases_fit(n, d, depth):
    options = MapOptions(depth=depth)
    effort = DRF.effort_for(n, d, options)
    wider = DRF.effort_for(2 * n, d, options)
    assert effort.starts >= wider.starts >= 2
    assert effort.steps >= wider.steps >= 15
    needed = DRF.trial_bytes(n, d, options, effort=effort, sets=1, size=8)
    assert needed < 3e9
    assert DRF.effort_for(n, d, DEFAULTS) == DRF.effort_for(n, d, MapOptions(depth=1))
    assert math.isfinite(needed)


def test_wide_layers_are_searched_long_enough():
    """With 9,600 neurons three starts of 22 steps, as before, miss more than half a percent."""
    n, d, options = 25, 384, MapOptions(depth=4)
    streams = [Stream(0, "w3", t=t) for t in range(3)]
    X = torch.stack([s.child("X").normal(n, d) for s in streams])
    X *= d**0.5 / X.norm(dim=-1, keepdim=True)
    sets = position_sets([[0]], n)
    view = DRF.draw_view(X, sets, [s.child("map") for s in streams], options)

    def found(effort):
        return supremum.search(DRF, view, sets, streams, effort, n).maximum.value[:, 0].sqrt()

    effort = DRF.effort_for(n, d, options)
    default, brief = found(effort), found(replace(effort, starts=3, steps=22))
    assert (default > brief).all()
    assert (default / brief).mean() > 1.005
