"""Properties of every feature map and of its one-token view, against recomputing the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wordsens.maps import FeatureMap, MapOptions, map_class, position_sets
from wordsens.randomness import Stream
from wordsens.search.sensitivity import word_sensitivity

# Subclasses share these tests, which hypothesis would otherwise take for a mistake.
EXAMPLES = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)


def sample(
    n: int, d: int, *, lead: Sequence[int] = (), seed: int = 0, twins: bool = False
) -> torch.Tensor:
    """Tokens of norm √d, (*lead, n, d); with ``twins`` the first three are one word."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(*lead, n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    if twins:
        X[..., 2, :] = X[..., 1, :]
        X[..., 0, :] = X[..., 1, :]
    return X


def moved(X: torch.Tensor, positions: Sequence[int], delta: torch.Tensor) -> torch.Tensor:
    """X^I(Δ) for Δ (..., m, d)."""
    out = X.expand(*delta.shape[:-2], *X.shape).clone()
    out[..., list(positions), :] += delta
    return out


def check_view(
    map: FeatureMap,
    X: torch.Tensor,
    positions: Sequence[int],
    delta: torch.Tensor,
    u: torch.Tensor,
) -> None:
    """Features, F, ∇F and linear functionals of a view equal those of the recomputed map."""
    view = map.perturb(X, tuple(positions))
    base = map.features(X)
    delta = delta.clone().requires_grad_()
    whole = map.features(moved(X, positions, delta))
    gap = (whole - base).flatten(1).pow(2).sum(1)
    (slope,) = torch.autograd.grad(gap.sum(), delta, retain_graph=True)
    plain = delta.detach()
    size = base.norm() ** 2
    assert torch.allclose(
        view.features(plain), whole, rtol=1e-10, atol=1e-10 * base.abs().max().item()
    )
    value, grad = view.value_and_grad(plain)
    assert (value - gap).abs().max() <= 1e-10 * (gap.max() + 1e-3 * size)
    assert (grad - slope).abs().max() <= 1e-9 * (slope.abs().max() + 1e-3 * size)
    functional = (whole * u).flatten(1).sum(1)
    (tilt,) = torch.autograd.grad(functional.sum(), delta)
    got, got_grad = view.linear(plain, u)
    assert torch.allclose(got, functional, rtol=1e-10, atol=1e-10 * (base.norm() * u.norm()).item())
    assert (got_grad - tilt).abs().max() <= 1e-9 * (tilt.abs().max() + 1e-3 * u.norm())


class MapConformance:
    """Derive a test class and say which map; everything else is inherited.

    map         a map's name, or its class
    options     what it is made with, by the names of ``MapOptions``
    permutable  whether permuting the words that do not change leaves ‖φ(X^i(Δ)) − φ(X)‖ as it is
    """

    map: ClassVar[str | type[FeatureMap]]
    options: ClassVar[Mapping[str, Any]] = {}
    permutable: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not cls.permutable:  # pytest collects no test that is not there
            cls.test_permuting_the_other_tokens_changes_nothing = None  # type: ignore

    @property
    def cls(self) -> type[FeatureMap]:
        return map_class(self.map) if isinstance(self.map, str) else self.map

    @property
    def chosen(self) -> MapOptions:
        return MapOptions.of(self.options, self.cls.options)

    def make(self, n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> FeatureMap:
        """One map, for samples with any leading axes."""
        drawn = self.cls.draw((n, d), [Stream(seed, "map")], self.chosen, dtype=dtype)
        drawn.batch = None
        return drawn

    @EXAMPLES
    @given(
        n=st.integers(3, 9),
        d=st.integers(2, 12),
        words=st.integers(1, 3),
        seed=st.integers(0, 10**6),
        twins=st.booleans(),
    )
    def test_view_equals_recomputing(
        self, n: int, d: int, words: int, seed: int, twins: bool
    ) -> None:
        X = sample(n, d, seed=seed, twins=twins)
        map = self.make(n, d, seed)
        g = torch.Generator().manual_seed(seed)
        positions = torch.randperm(n, generator=g)[:words].tolist()
        delta = torch.randn(4, words, d, generator=g, dtype=torch.float64)
        delta[3] = 0  # no change at all
        features = map.features(X)
        u = torch.randn(features.shape, generator=g, dtype=torch.float64)
        check_view(map, X, positions, delta, u)

    def test_gradient_equals_finite_differences(self) -> None:
        n, d = 6, 5
        view = self.make(n, d, seed=2).perturb(sample(n, d, seed=7), 2)
        delta = torch.randn(d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        step = 1e-5 * torch.eye(d, dtype=torch.float64)
        _, grad = view.value_and_grad(delta)
        up, down = view.value_and_grad(delta + step)[0], view.value_and_grad(delta - step)[0]
        assert torch.allclose(grad, (up - down) / 2e-5, rtol=1e-5, atol=1e-6 * up.max().item())

    def test_batches_of_draws_equal_single_draws(self) -> None:
        trials, n, d = 3, 6, 5
        X = sample(n, d, lead=(trials,), seed=6)
        streams = [Stream(0, "batch", trial=t) for t in range(trials)]
        sets = torch.tensor([[2], [4]])
        v = torch.randn(trials, 2, 3, 1, d, generator=torch.Generator().manual_seed(0)).double()
        view = self.cls.draw_view(X, sets, streams, self.chosen)
        value, grad = view.value_and_grad(v)
        assert torch.allclose(view.value(v), value, rtol=1e-10)
        for t in range(trials):
            own = slice(t, t + 1)
            one = self.cls.draw_view(X[own], sets, streams[own], self.chosen)
            single, single_grad = one.value_and_grad(v[own])
            assert torch.allclose(value[own], single, rtol=1e-10)
            assert torch.allclose(grad[own], single_grad, rtol=1e-9, atol=1e-10)

    def test_batches_of_samples_equal_single_samples(self) -> None:
        map, X = self.make(6, 5, seed=1), sample(6, 5, lead=(2, 3), seed=2)
        whole = map.features(X)
        one = map.features(X[1, 2])
        assert whole.shape == (2, 3, *one.shape)
        assert torch.allclose(whole[1, 2], one, rtol=1e-10, atol=1e-12 * one.abs().max().item())

    def test_precision_changes_no_draw(self) -> None:
        X = sample(6, 5, seed=4)
        exact = self.make(6, 5, seed=3).features(X)
        lean = self.make(6, 5, seed=3, dtype=torch.float32).features(X)
        assert lean.dtype == torch.float32
        assert (lean.double() - exact).abs().max() <= 1e-4 * exact.abs().max()

    def test_permuting_the_other_tokens_changes_nothing(self) -> None:
        X, map = sample(9, 6, seed=2), self.make(9, 6, seed=0)
        order = torch.tensor([0, 5, 3, 8, 1, 2, 7, 4, 6])
        delta = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        value, grad = map.perturb(X, 0).value_and_grad(delta)
        again, grad_again = map.perturb(X[order], 0).value_and_grad(delta)
        assert torch.allclose(value, again, rtol=1e-12)
        assert torch.allclose(grad, grad_again, rtol=1e-10, atol=1e-12)

    def test_what_is_found_keeps_to_the_ball_and_the_bound(self) -> None:
        n, d = 5, 4
        X, map = sample(n, d, seed=9), self.make(n, d, seed=4)
        found = word_sensitivity(map, X, positions=[1, 3], starts=3, steps=5)
        assert found.sup > 0
        assert found.delta.norm() <= d**0.5 * (1 + 1e-9)
        moved_there = map.features(moved(X, [found.position], found.delta[None]))
        change = (moved_there - map.features(X)).norm() / map.features(X).norm()
        assert change.item() == pytest.approx(found.sup, rel=1e-6)
        assert not found.sup > found.bound * (1 + 1e-9)  # nan where none is known

    def test_a_training_set_has_the_features_of_its_map(self) -> None:
        """Rows of ``draw_training`` are features, and its view the view of the first sample."""
        if "generalization" not in self.cls.studies:
            pytest.skip("this map is in no generalization study")
        X, stream = sample(5, 4, lead=(6,), seed=5), Stream(0, "training")
        Phi, view = self.cls.draw_training(X, stream, self.chosen)
        if view is None:
            sets = position_sets([[0]], 5)
            view = self.cls.draw_view(X[:1], sets, [stream.child("map")], self.chosen)
        own = view.features(view.tokens[:, :, None]).flatten()
        assert Phi.shape == (6, own.numel())
        assert torch.allclose(Phi[0], own, rtol=1e-10, atol=1e-12 * Phi.abs().max().item())

    def test_what_it_declares_is_so(self) -> None:
        cls, options, (n, d) = self.cls, self.chosen, (6, 5)
        assert cls.name.isidentifier()
        assert cls.title
        assert cls.short
        assert set(cls.needs) <= set(cls.options)
        assert set(self.options) <= set(cls.options)
        map = self.make(n, d, seed=0)
        assert map.features(sample(n, d)).numel() == cls.feature_count(n, d, options)
        rate, steps = cls.published_schedule(n)
        descent, losses = cls.published_descent(n), cls.loss_effort_for(n, d)
        effort = cls.effort_for(n, d, options)
        assert min(rate, steps, *descent, effort.starts, effort.steps) > 0
        assert min(losses.starts, losses.explore, losses.polish, losses.rounds) > 0
        held = cls.trial_bytes(n, d, options, effort=effort, sets=2, size=4)
        extra = [cls.sensitivity_bytes(n, d, options), cls.vocabulary_bytes(n, d, options)]
        extra += [cls.generalization_bytes(n, d, options, size=8), cls.score_count(n, d, options)]
        assert min(held, cls.word_count(n, d, options), *extra) >= 0
        limit = cls.limit(n, options=options)
        assert limit is None or 0 < limit < 10
