"""The search of every layer of an encoder, each on its own.

The first block is moved most by what attracts its attention, and random directions lead there too.
Behind it the landscape is another: few random directions lead to a high maximum, while most other
words x' of the vocabulary do, as Δ along x' − x_i.  So deeper layers start from words.  Several are
looked at for every start, in one run of the model for all layers, and each layer takes those that
move it most.  Momentum goes on from there (``search.momentum``).

In trained layers many low hills lie along a few ridges.  One long climb with short steps and a
memory that grows comes out higher than several short ones of the same cost.  So all starts climb a
little, and the best of them goes on alone.  With random weights all starts are at one place by
then: where they have met, a few steps settle the maximum.  At layers of at most half the depth,
where a step costs less, the two best go on, and the better one from half of the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from wordsens.encoders.view import EncoderView
from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.maximum import Maximum, at, leaders, sphere
from wordsens.search.momentum import Course, Front, ascend
from wordsens.search.supremum import starting_points

SHALLOW = 1  # layers up to this one start from what attracts attention, deeper ones from words
LOOKED_AT = 4  # words for every start
SCOUTING, GOES_ON = 12, 6  # steps that all starts take; one of so many goes on, one at least
SHARE = 10  # one of so many steps is for scouting where that is less
MET = 0.95  # cosine of every two starts from which on they are taken to have met, and
AGREED = 0.01  # the share by which their changes may still differ
SETTLING, MANY = 20, 60  # steps of starts that have met; steps from which on a course is long
# Of courses: first and last step length, β in the beginning and at the end.
SCOUT = 0.15, 0.03, 0.6, 0.6
SETTLE = 0.05, 0.002, 0.6, 0.6
SHORT = 0.2, 0.01, 0.4, 0.9
LONG = 0.1, 0.005, 0.7, 0.9


def search_each(
    view: EncoderView,
    layers: list[int],
    sets: torch.Tensor,
    streams: Sequence[Stream],
    *,
    starts: int,
    steps: int,
) -> tuple[Maximum, list[list[str]]]:
    """Maxima at the P·K sets of a view of K ``layers``, and the names of each layer's starts.

    ``sets`` (P, m) and a stream for each of the T texts name what is drawn.
    """
    here = view.select(slice(0, None, len(layers)))  # one layer, all positions
    noise = _noise(here, sets, streams, starts)
    if max(layers) > SHALLOW:
        words, changes = _words(here, sets, streams, LOOKED_AT * starts, noise)
    found: list[Maximum] = []
    names: list[list[str]] = []
    for k, layer in enumerate(layers):
        if layer <= SHALLOW:
            points, known = starting_points(here, noise, least=1)
        else:
            points = at(words, leaders(changes[..., layer], starts))
            known = ["word"] * starts
        with stage(layer / max(1, sum(layers))):
            own = view.select(slice(k, None, len(layers)))
            found.append(climb(own, points, steps, rivals=2 * layer <= view.model.depth))
        names.append(known)
    return _laced(found), names


def climb(view: OneTokenView, points: torch.Tensor, steps: int, rivals: bool = False) -> Maximum:
    """The maximum of one layer from directions ``points`` (T, P, S, m, d).

    With ``rivals`` twice as many starts go on, until half of the way.  Of several starts the finals
    are what each had reached after scouting.
    """
    starts = points.shape[2]
    if starts == 1:
        return ascend(view, Front.of(points), _onward(steps)).maximum(view.radius)
    scouting = min(SCOUTING, -(-steps // SHARE))
    left = max(1, steps - scouting)
    with stage(scouting / (scouting + left)):
        scouts = ascend(view, Front.of(points), _course(scouting, SCOUT))
    met = _met(scouts)
    found: list[Maximum] = []
    # Whether a set takes the short way or the long one is its own matter, so both are there.
    with stage(left / (scouting + left)):
        if met.any():
            settling = _course(min(left, SETTLING), SETTLE)
            best = scouts.take(leaders(scouts.value, 1))
            found.append(ascend(view, best, settling).maximum(view.radius))
        if not met.all():
            count = max(1, starts // GOES_ON)
            best = scouts.take(leaders(scouts.value, 2 * count if rivals else count))
            course = replace(_onward(left), keep={left // 2: count})
            found.append(ascend(view, best, course).maximum(view.radius))
    return replace(found[0].where(met, found[-1]), finals=scouts.value)


def _onward(steps: int) -> Course:
    return _course(steps, LONG if steps >= MANY else SHORT)


def _course(steps: int, kind: tuple[float, float, float, float]) -> Course:
    first, last, memory, at_end = kind
    return Course(steps, (first,), last, {}, memory, memory_at_end=at_end)


def _met(scouts: Front) -> torch.Tensor:
    """Whether all starts of a set are at one place, (T, P)."""
    u, change = scouts.u, scouts.value.sqrt()
    cosines = torch.einsum("tpamd,tpbmd->tpab", u, u) / u.shape[-2]
    agreed = change.amin(-1) >= (1 - AGREED) * change.amax(-1)
    return agreed & (cosines.flatten(2).amin(-1) >= MET)


def _noise(
    here: EncoderView, sets: torch.Tensor, streams: Sequence[Stream], count: int
) -> torch.Tensor:
    """Random directions (T, P, count, m, d)."""
    shape = (count, *here.tokens.shape[2:])
    dtype = here.tokens.dtype
    drawn = _drawn(streams, sets, "starts", lambda stream: stream.normal(*shape, dtype=dtype))
    return drawn.to(here.tokens)


def _words(
    here: EncoderView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    count: int,
    noise: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Directions to words (T, P, count, m, d), and every layer's change at their end."""
    rows, size = here.model.blocks.rows, (count, sets.shape[1])
    few = count * sets.shape[1] > rows

    def draw(stream: Stream) -> torch.Tensor:
        return torch.from_numpy(stream.generator().choice(rows, size, replace=few))

    toward = sphere(here.towards(_drawn(streams, sets, "words", draw)))
    # The direction to the word itself is none.
    none = (toward == 0).all(-1, keepdim=True)
    toward = torch.where(none, sphere(noise[:, :, :1]), toward)
    return toward, here.relative_changes(here.tokens[:, :, None] + here.radius * toward)


def _drawn(
    streams: Sequence[Stream],
    sets: torch.Tensor,
    purpose: str,
    draw: Callable[[Stream], torch.Tensor],
) -> torch.Tensor:
    """What ``draw`` makes of a stream of its own for every text and set, (T, P, …)."""
    named = [[stream.child(purpose, words=words) for words in sets.tolist()] for stream in streams]
    return torch.stack([torch.stack([draw(stream) for stream in row]) for row in named])


def _laced(found: Sequence[Maximum]) -> Maximum:
    """The maxima of K layers as those of one view, positions outermost."""
    several = zip(*(vars(each).values() for each in found), strict=True)
    return Maximum(*(torch.stack(parts, 2).flatten(1, 2) for parts in several))
