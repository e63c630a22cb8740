"""Losses of the generalization experiments: their values, their search, and the trade-off."""

from dataclasses import replace

import pytest
import torch

import wordsens
from wordsens.errors import UserError
from wordsens.glm import fit
from wordsens.maps import position_sets
from wordsens.randomness import Stream
from wordsens.search.goals import LOSSES, Goal, Neighbourhood, Problem, evaluation, trade_off
from wordsens.search.losses import Question, search_losses
from wordsens.search.subgradients import follow

MAKERS = {"rf": {}, "raf": {}, "relu_raf": {}, "qkv": {"heads": 2}}


def trial(name, seed, n=6, d=8, N=14):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(N + 1, n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    Y = torch.where(torch.rand(N + 1, generator=g) < 0.5, -1.0, 1.0).double()
    map = wordsens.build_map(name, n=n, d=d, seed=seed, **MAKERS[name])
    return fit(map, X[1:], Y[1:]), X[0], Y[0].item()


def search(model, x, y, goals, method="spectral", seed=0):
    view = model.map.view(x[None], position_sets([[0]], len(x)))
    around = model._around(x, y)
    how = (model.map.published_descent(len(x)), model.map.loss_effort_for(*x.shape))
    asked = Question(view, around, goals, [Stream(seed, "test")], *how)
    return search_losses(asked, method), view, around


def loss_of(found, name, penalty):
    """The losses written out from the quantities of ``evaluate``."""
    base = {
        "features": (found.feature_cosine + 1) ** 2,
        "alignment": (found.feature_alignment + 1) ** 2,
        "error_finetuned": found.err_finetuned,
        "error_retrained": found.err_retrained,
        "change": -((found.f_delta_retrained - found.f_x_retrained) ** 2),
    }[name]
    return base + penalty * found.gamma**2


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_reported_loss_is_that_of_the_change_found(name, loss, penalty):
    model, x, y = trial(name, 1)
    for method in ("spectral", "published"):
        found = model.search(x, y, loss, penalty, method)
        again = model.evaluate(x, y, found.delta)
        assert found.delta.norm().item() <= 8**0.5 * (1 + 1e-12)
        assert found.loss == pytest.approx(loss_of(again, loss, penalty), rel=1e-9, abs=1e-12)
        assert again.gamma == pytest.approx(found.gamma, rel=1e-12)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", range(5))
def test_never_above_the_published_optimiser(name, seed):
    """20 trials, every loss, without and with penalties."""
    model, x, y = trial(name, seed + 10)
    goals = [Goal(loss, p) for loss in LOSSES for p in (0.0, 0.1, 1.0)]
    ours, _, _ = search(model, x, y, goals)
    theirs, _, _ = search(model, x, y, goals, "published")
    assert (ours.value <= theirs.value + 1e-6 * theirs.value.abs() + 1e-7).all()
    alone, _, _ = search(model, x, y, goals[:1])
    assert alone.value.item() <= theirs.value[0, 0] + 1e-6 * theirs.value[0, 0].abs() + 1e-7


def test_thorough_keeps_what_the_published_descent_saw():
    model, x, y = trial("relu_raf", 2, n=4, d=3)
    goals = [Goal(loss, 0.3) for loss in LOSSES]
    theirs, _, _ = search(model, x, y, goals, "published")
    ours, _, _ = search(model, x, y, goals, "thorough")
    assert (ours.value <= theirs.value + 1e-8).all()


def test_subgradient_steps_find_what_spectral_ones_leave():
    """They never end higher, and somewhere lower than one round of polishing alone."""
    goals = [Goal(loss, 1.0) for loss in LOSSES[:4]]
    lower = 0
    for seed in range(4):
        model, x, y = trial("relu_raf", seed + 30, n=8, d=16)
        view = model.map.view(x[None], position_sets([[0]], len(x)))
        effort = replace(model.map.loss_effort_for(40, 384), starts=4)
        asked = Question(view, model._around(x, y), goals, [Stream(0, "test")], (1.0, 10), effort)
        found = [
            search_losses(replace(asked, effort=replace(effort, settle=rounds))).value
            for rounds in (0, effort.settle)
        ]
        assert (found[1] <= found[0]).all()
        lower += bool((found[1] < found[0] * (1 - 1e-3)).any())
    assert lower >= 1


def test_several_goals_at_once_each_with_its_own_change():
    model, x, y = trial("raf", 4)
    goals = [("features", 0.0), ("error_retrained", 0.3), ("alignment", 1.0)]
    found = model.search_all(x, y, goals, position=2)
    for (loss, penalty), each in zip(goals, found, strict=True):
        again = model.evaluate(x, y, each.delta, 2)
        assert each.loss == pytest.approx(loss_of(again, loss, penalty), rel=1e-9, abs=1e-12)
        alone = model.search(x, y, loss, penalty, position=2)
        assert each.loss <= alone.loss * (1 + 1e-2) + 1e-7


@pytest.mark.parametrize("name", ["raf", "relu_raf", "rf"])
def test_trade_off_is_below_dense_sampling(name):
    model, x, y = trial(name, 3, n=5, d=3)
    limits = [0.1, 0.3, 0.6, 1.0, 1.5, 2.0]
    found, view, around = search(model, x, y, [Goal("error_finetuned"), *trade_off(limits)])
    g = torch.Generator().manual_seed(0)
    points = torch.randn(40_000, 1, 3, generator=g, dtype=torch.float64)
    length = torch.rand(40_000, 1, 1, generator=g, dtype=torch.float64) ** (1 / 3)
    points = points / points.norm(dim=-1, keepdim=True) * length * 3**0.5
    phi = view.features(view.tokens[:, :, None] + points[None, None])[:, 0].flatten(2)
    sampled = evaluation(phi @ around.u.mT, around)
    at = evaluation(
        view.features(view.tokens[:, :, None] + found.delta[:, None])[:, 0].flatten(2)
        @ around.u.mT,
        around,
    )
    for j, mode in enumerate(("finetuned", "retrained")):
        for i, limit in enumerate(limits):
            k = 1 + j * len(limits) + i
            assert at.gamma[0, k] <= limit + 1e-9
            error = getattr(at, f"err_{mode}")
            assert error[0, k].item() == pytest.approx(found.value[0, k].item(), abs=1e-9)
            best = getattr(sampled, f"err_{mode}")[sampled.gamma <= limit].min().item()
            # the penalty that keeps γ below the limit sets in a little before it
            assert error[0, k].sqrt() <= best**0.5 + 0.05


def test_penalties_trade_error_for_gamma():
    model, x, y = trial("raf", 5)
    strengths = (0.0, 0.1, 1.0, 10.0, 1000.0)
    found = [model.search(x, y, "error_retrained", p) for p in strengths]
    gammas = [each.gamma for each in found]
    assert gammas == sorted(gammas, reverse=True)
    assert gammas[-1] < 0.01


@pytest.mark.parametrize("name", ["raf", "qkv"])
def test_batch_composition_changes_nothing(name):
    from wordsens.maps import MapOptions, map_class

    trials = [trial(name, seed) for seed in (20, 21, 22)]
    goals = [Goal(loss, p) for loss in ("features", "error_retrained") for p in (0.0, 0.1)]
    X = torch.stack([x for _, x, _ in trials])
    options = MapOptions(heads=MAKERS[name].get("heads", 1))
    names = [Stream(0, "batch", trial=t) for t in range(3)]
    # each trial's own model, around views of freshly drawn maps
    around = [model._around(x, y) for model, x, y in trials]

    def run(chosen):
        view = map_class(name).draw_view(
            X[chosen], position_sets([[0]], 6), [names[t] for t in chosen], options
        )
        models = Neighbourhood.stack([around[t] for t in chosen])
        streams, effort = [names[t] for t in chosen], map_class(name).loss_effort_for(6, 8)
        return search_losses(Question(view, models, goals, streams, (1.0, 10), effort)).value

    together, alone = run([0, 1, 2]), run([1])
    assert torch.allclose(together[1], alone[0], rtol=1e-6, atol=1e-7)


def test_several_words_have_a_ball_each():
    model, x, y = trial("raf", 9)
    found = model.search(x, y, "error_finetuned", position=(1, 3))
    assert found.delta.shape == (2, 8)
    assert (found.delta.norm(dim=-1) <= 8**0.5 * (1 + 1e-12)).all()
    again = model.evaluate(x, y, found.delta, (1, 3))
    assert again.err_finetuned == pytest.approx(found.loss, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "hinge"}, "'hinge'.*choose one of features, alignment"),
        ({"penalty": -1}, "penalty = -1"),
        ({"penalty": float("nan")}, "penalty = nan"),
        ({"search": "adam"}, "spectral, published, thorough"),
        ({"starts": 0}, "starts = 0"),
    ],
)
def test_mistakes_are_one_line(options, words):
    model, x, y = trial("raf", 0)
    with pytest.raises(UserError, match=words):
        model.search(x, y, **options)


def walled(seed):
    """A question about ReLU attention so small that its losses jump."""
    model, x, y = trial("relu_raf", seed, n=5, d=6, N=12)
    view = model.map.view(x[None], position_sets([[0]], 5))
    goals = [Goal(loss, p) for loss in LOSSES for p in (0.0, 0.1)]
    effort = replace(model.map.loss_effort_for(5, 6), starts=24)
    return Question(view, model._around(x, y), goals, [Stream(seed, "test")], (1.0, 250), effort)


def test_minima_at_jumps_are_found_along_walls():
    """The search that does not know of walls misses some of them."""
    above, below = 0, 0
    for seed in range(4):
        asked = walled(seed)
        plain = replace(asked, effort=replace(asked.effort, slide=0))
        slid, left = search_losses(asked).value, search_losses(plain).value
        scale = left.abs().clamp_min(0.01)
        above += int((slid > left + 0.01 * scale).sum())
        below += int((slid < left - 0.01 * scale).sum())
    assert below >= 4
    assert below > 3 * above


def test_every_goal_slides_from_every_start(monkeypatch):
    """And from quiet points beside some; each group is a goal's, and stays on its sides."""
    from wordsens.search import losses

    asked, seen = walled(3), []
    walls = asked.view.walls()

    def watched(problem, archive, start, steps, walls, group=1):
        seen.append((start, steps, group))
        return follow(problem, archive, start, steps, walls, group)

    monkeypatch.setattr(losses, "follow", watched)
    search_losses(asked)
    start, steps, group = seen[0]
    assert steps == asked.effort.slide
    count = int(start.labels.max()) + 1  # starts
    assert group == count + len(range(1, count, losses.QUIET))
    assert start.delta.shape[1] == group * len(asked.goals)
    by_goal = start.delta[0, :, 0].unflatten(0, (-1, group))
    assert (by_goal == by_goal[:1]).all()
    row_of_word = walls.side(start.delta[:, :group])[0, :, : walls.n]
    empty = (row_of_word < 0).all(-1)
    assert empty[count:].double().mean() > 0.5 > empty[:count].double().mean()
    assert len(seen) > 1, "points beside the best ones follow"


def test_how_many_candidates_go_at_once_changes_nothing(monkeypatch):
    from wordsens.search import descent

    asked = walled(7)
    found = []
    for numbers in (1, 10_000_000):
        monkeypatch.setattr(descent, "NUMBERS", numbers)
        found.append(search_losses(asked).value)
    assert torch.allclose(*found, rtol=1e-6, atol=1e-7)


def deep_trial(seed, n=40, d=32, N=60):
    """A model on two given layers, and the new sample."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(N + 1, n, d, generator=g, dtype=torch.float64)
    X = X / X.norm(dim=-1, keepdim=True) * d**0.5
    Y = torch.where(torch.rand(N + 1, generator=g) < 0.5, -1.0, 1.0).double()
    k = n * d
    draw = {f"V{i}": torch.randn(k, k, generator=g, dtype=torch.float64) for i in (1, 2)}
    weights = {name: V * (2 / k) ** 0.5 for name, V in draw.items()}
    map = wordsens.build_map("drf", n=n, d=d, weights=weights)
    return fit(map, X[1:], Y[1:]), X[0], Y[0].item()


def ways_out(problem, goals, rate, steps):
    """The published descent from points beside Δ = 0, where the re-trained output rises and falls.

    At Δ = 0 loss "change" is stationary.
    """
    terms = problem.terms(goals)
    zero = torch.zeros_like(problem.centre[:, 0])
    _, pull = problem.functionals(zero)
    way = 1e-3 * pull(problem.terms([Goal("change")]).a)
    found = []
    for beside in (way, -way):
        delta = beside.repeat(1, len(goals), 1, 1)
        for _ in range(steps):
            q, pull = problem.functionals(delta)
            delta = problem.ball(delta - rate * pull(problem.value(q, terms)[1]))
        found.append(problem.value(problem.functionals(delta)[0], terms)[0])
    return torch.stack(found)


@pytest.mark.parametrize("seed", [9, 12, 13, 17])
def test_change_of_deep_features_is_not_above_the_published(seed):
    model, x, y = deep_trial(seed)
    ours, view, around = search(model, x, y, [Goal("change")])
    schedule = model.map.published_descent(len(x))
    theirs = ways_out(Problem(view, around), [Goal("change")], *schedule)
    assert theirs.max() < -0.05
    assert ours.value.item() <= theirs.min().item() * (1 - 1e-3)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("name", MAKERS)
def test_penalised_change_is_not_above_the_published_either_way(name, seed):
    """A penalty adds hills that the loss without it does not have."""
    model, x, y = trial(name, seed)
    goals = [Goal("change", p) for p in (0.0, 0.1, 1.0)]
    ours, view, around = search(model, x, y, [Goal("features"), *goals])
    theirs = ways_out(Problem(view, around), goals, *model.map.published_descent(len(x)))
    assert (ours.value[:, 1:] <= theirs.amin(0) * (1 - 1e-3)).all()
