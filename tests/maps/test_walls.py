"""Walls are where ReLU attention jumps: every jump crosses one, and points are kept off them."""

import pytest
import torch

from wordsens.maps import MapOptions, map_class, position_sets
from wordsens.randomness import Stream

N, D, WORD = 5, 6, 1


def drawn(heads=1, trials=3):
    g = torch.Generator().manual_seed(3)
    X = torch.randn(trials, N, D, generator=g, dtype=torch.float64)
    streams = [Stream(t, "walls") for t in range(trials)]
    options = MapOptions(heads=heads)
    return map_class("relu_raf").draw_view(X, position_sets([[WORD]], N), streams, options)


def points(view, count, seed=0):
    """Δ (T, S, 1, d) in the ball."""
    g = torch.Generator().manual_seed(seed)
    delta = torch.randn(len(view.tokens), count, 1, D, generator=g, dtype=torch.float64)
    return delta * (view.radius / delta.norm(dim=-1, keepdim=True))


def output(view, delta):
    return view.features(view.tokens[:, :, None] + delta[:, None])[:, 0].flatten(2)


def test_every_jump_crosses_a_wall():
    view = drawn()
    walls = view.walls()
    a, b = points(view, 400), points(view, 400, seed=1)
    for _ in range(45):  # to the half of every segment over which the output changes more
        half = (a + b) / 2
        left, middle, right = (output(view, x) for x in (a, half, b))
        first = (middle - left).norm(dim=-1) > (right - middle).norm(dim=-1)
        wide = first[..., None, None]
        a, b = torch.where(wide, a, half), torch.where(wide, half, b)
    jump = (output(view, b) - output(view, a)).norm(dim=-1) > 0.05
    assert jump.sum() > 50
    crossed = (walls.side(a) != walls.side(b)).any(-1)
    assert crossed[jump].all()
    assert len(walls.rows[0]) > N  # some row attends to no other word


@pytest.mark.parametrize("heads", [1, 2])
def test_steps_over_a_wall_are_put_back(heads):
    view = drawn(heads)
    walls = view.walls()
    delta = points(view, 200)
    side = walls.side(delta)
    far = delta + 0.8 * points(view, 200, seed=2)
    margin = torch.full(delta.shape[:2], 0.001 * view.radius, dtype=delta.dtype)

    def kept(x):
        """Where every wall of the first side is on the same side of x."""
        distance, _ = walls._distances(walls.centre + x[:, :, 0])
        return (side * distance >= 0).all(-1).double().mean()

    back = walls.back(far, side, margin, 40)
    assert kept(delta) == 1
    assert kept(back) > 0.9 > kept(far)
    assert (back.norm(dim=-1) <= view.radius * (1 + 1e-12)).all()
    near = walls.back(delta, side, torch.zeros_like(margin), 1)  # nothing to put back
    assert torch.allclose(near, delta)


def test_a_word_is_made_to_attend_to_itself():
    view = drawn()
    walls, delta = view.walls(), points(view, 200)
    side = torch.zeros_like(walls.side(delta))
    side[..., WORD] = 1
    back = walls.back(delta, side, torch.full(delta.shape[:2], 0.01, dtype=delta.dtype), 40)

    def attends(x):
        v = view.tokens[:, 0] + x[:, :, 0]
        return ((view.state.query(v[:, None])[:, 0] * v).sum(-1) > 0).double().mean()

    assert attends(delta) < 0.8
    assert attends(back) > 0.98


def test_quiet_points_leave_the_changed_row_empty():
    view = drawn()
    delta = points(view, 100)

    def quiet(x):
        return (output(view, x).unflatten(-1, (N, D))[..., WORD, :] == 0).all(-1).double().mean()

    assert quiet(delta) < 0.2
    assert quiet(view.walls().quiet(delta)) > 0.8


def test_other_views_have_none():
    X = torch.randn(1, N, D, dtype=torch.float64)
    for name, sets in (("raf", [[0]]), ("relu_raf", [[0, 1]]), ("relu_raf", [[0], [1]])):
        view = map_class(name).draw_view(X, position_sets(sets, N), [Stream(0, "w")], MapOptions())
        assert view.walls() is None
