"""The search of the layers of an encoder, up a ladder of rungs.

The first block is moved most by what attracts its attention, and random directions lead there too.
Behind it the landscape is another: in trained layers many low hills lie along a few ridges, and a
climb in a deep layer ends on one of the low ones.  What moves an earlier layer far, where there are
fewer hills and a step costs less, is at the foot of the high ones.  So the search of layer l begins
on a rung of half its depth, which begins on one of half of that, down to the first block.  From
there starts climb by momentum (``search.momentum``) and the best go on to the rung above.

What is best below can be a dead end above.  So on every rung from which others begin more starts
come anew, along x' − x_i towards other words x' of the vocabulary: several words are looked at for
every start, in one run of the model for all rungs, and those taken that move the rung most.  Of
the starts that came from below and of the new ones the best go on, half of each.  Where none comes
anew steps are shorter, as all are at the foot of something.

Some starts are given up on the way: after a third of the steps all but twice as many of each kind
as will go on; in the first block, after two thirds, all but those, and on the last rung, from which
none goes on, half.  A rung where no maximum is asked for keeps all: it is cheap, and who leads far
is not yet to be seen.

With random weights all starts of a rung come to one place, where few steps settle the maximum.  So
a few starts scout first, as long as those of all rungs below have met; all but one come anew.

A ladder is worth its cost where several starts climb.  One alone climbs in its own layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from wordsens.encoders.layer_starts import SHALLOW, Beginnings
from wordsens.encoders.view import EncoderView
from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.maximum import Maximum, leaders, leaders_by_kind, with_second
from wordsens.search.momentum import Course, Front, ascend

MET = 0.95  # cosine of every two starts from which on they are taken to have met, and
AGREED = 0.02  # the share by which their changes may still differ
# Of courses: first and last step length, β in the beginning and at the end.
SCOUT = 0.4, 0.05, 0.6, 0.6
SETTLE = 0.05, 0.002, 0.6, 0.6
CLIMB = 0.1, 0.005, 0.7, 0.9
GENTLE = 0.05, 0.003, 0.7, 0.9
SHORT = 0.2, 0.01, 0.4, 0.9
SCOUTING, SCOUTS = 8, 3  # steps of scouts, and how many go behind the first block, where all do
SETTLING, NEARER = 20, 12  # steps in the first block, and where one scout came from the rung below
MANY = 60  # steps from which on one start alone climbs as several do, and not by the short course


@dataclass(frozen=True)
class Rung:
    """What was found in one layer: starts at the end of their climb, those from below first.

    met says where all starts of this rung and of those below came to one place, (T, P); every start
    is there then.  finals (T, P, 2) are the least and the largest F of the starts that were not
    given up; where all but one were, that of the one and of the second when it was given up.
    """

    front: Front
    kinds: Sequence[int]  # how many came from below, and how many anew
    met: torch.Tensor
    finals: torch.Tensor

    def maximum(self, radius: float) -> Maximum:
        return replace(self.front.maximum(radius), finals=self.finals)

    def going_on(self, count: int) -> Front:
        """``count`` starts, half of each kind, of different places as far as there are; one is the
        best of all."""
        value = _ranked(self.front)
        if count == 1 or len(self.kinds) == 1:
            return self.front.take(leaders(value, count))
        of_each = [count // 2, count - count // 2]
        return self.front.take(leaders_by_kind(value, self.kinds, of_each))


def ladder(layers: Sequence[int]) -> list[int]:
    """The layers, and those of half their depth, and of half of that, down to the first block."""
    rungs = set(layers)
    for layer in layers:
        while layer > SHALLOW:
            layer = below(layer)
            rungs.add(layer)
    return sorted(rungs)


def below(layer: int) -> int:
    """The rung from which a layer's search begins."""
    return -(-layer // 2)


def search_each(
    view: EncoderView,
    layers: list[int],
    sets: torch.Tensor,
    streams: Sequence[Stream],
    *,
    starts: int,
    steps: int,
) -> tuple[Maximum, list[str]]:
    """Maxima at the P·K sets of a view of K ``layers``, and the names of the starts.

    ``sets`` (P, m) and a stream for each of the T texts name what is drawn.  A rung that is not
    among the ``layers`` takes half of the ``steps``, and so does the first block, with twice the
    ``starts``.
    """
    here = view.select(slice(0, None, len(layers)))  # one layer, all positions
    deepest = max(layers)
    # The deepest in which starts come anew; the last rung's come from below.
    last = 0 if deepest <= SHALLOW else deepest if starts == 1 else below(deepest)
    begin = Beginnings.of(here, sets, streams, starts, last=last)
    if starts == 1:
        found = _alone(here, layers, begin, steps)
    else:
        found = _climbed(here, layers, begin, starts, steps)
    return _laced([found[layer] for layer in layers]), begin.names


def _climbed(
    here: EncoderView, layers: Sequence[int], begin: Beginnings, starts: int, steps: int
) -> dict[int, Maximum]:
    rungs = ladder(layers)
    begun_from = {below(layer) for layer in rungs if layer > SHALLOW}
    carried, anew = max(2, starts // 2), starts - 1
    of_each = -(-carried // 2)
    found: dict[int, Rung] = {}
    for layer in rungs:
        asked = layer in layers
        if layer > SHALLOW:
            former, kinds = found[below(layer)], [carried, 0]
            if layer in begun_from:
                kinds = [carried, anew]
                keep = {steps // 3: 2 * of_each} if asked else {}
                course = _course(steps if asked else _half(steps), CLIMB, kinds, keep)
            else:
                course = _course(steps, GENTLE, kinds, {2 * steps // 3: of_each})
            front, simple = _mixed(former, begin.at(layer, sum(kinds) - 1), kinds), former.met
            scouts, settling = SCOUTS, NEARER if asked else 0
        else:
            front = begin.at(layer, 2 * starts)
            simple = torch.ones_like(front.value[..., 0], dtype=torch.bool)
            keep = {_half(steps) // 3: 2 * carried, 2 * _half(steps) // 3: carried}
            course = _course(_half(steps), CLIMB, [2 * starts], keep)
            scouts, settling = 2 * starts, SETTLING
        with stage(layer / max(1, sum(rungs))):
            found[layer] = climb(here.at_layer(layer), front, simple, course, scouts, settling)
    return {layer: rung.maximum(here.radius) for layer, rung in found.items()}


def _alone(
    here: EncoderView, layers: Sequence[int], begin: Beginnings, steps: int
) -> dict[int, Maximum]:
    """One start in every layer of its own."""
    course = _course(steps, CLIMB if steps >= MANY else SHORT)
    found = {}
    for layer in layers:
        with stage(layer / max(1, sum(layers))):
            front = ascend(here.at_layer(layer), begin.at(layer, 1), course)
        found[layer] = front.maximum(here.radius)
    return found


def _mixed(former: Rung, new: Front, kinds: Sequence[int]) -> Front:
    """Of both ``kinds`` as many; where all had met below, one from there and the others anew."""
    carried = former.going_on(kinds[0])
    one = carried.first(1).beside(new)
    return one.where(former.met, carried.beside(new.first(kinds[1]))).unvalued()


def climb(
    view: OneTokenView,
    front: Front,
    simple: torch.Tensor,
    course: Course,
    scouts: int,
    settling: int,
) -> Rung:
    """The rung of one layer from a front's starts, of the kinds that the course names.

    Where ``simple`` (T, P), the first of them scout; where those meet, the best settles alone.
    """
    kinds = course.left()
    met, settled, finals = simple, None, front.value[..., :2]
    if simple.any():
        ahead = ascend(view, front.first(scouts), _course(SCOUTING, SCOUT))
        met = simple & _met(ahead)
        front = ahead.beside(front.after(scouts)).where(simple, front)
        # Whether a set takes the short way or the long one is its own matter, so both may be there.
        settled = ahead.take(leaders(ahead.value, 1))
        if settling and met.any():
            settled = ascend(view, settled, _course(settling, SETTLE))
        settled, finals = settled.repeated(sum(kinds)), _extremes(ahead.value)
    if settled is not None and met.all():
        return Rung(settled, kinds, met, finals)
    before: list[torch.Tensor] = []
    climbed = ascend(view, front, course, before=before, ranked=_ranked)
    ends = torch.where(met[..., None], finals, _extremes(with_second(climbed.value, before)))
    return Rung(climbed if settled is None else settled.where(met, climbed), kinds, met, ends)


def _course(
    steps: int,
    kind: tuple[float, float, float, float],
    kinds: Sequence[int] = (),
    keep: Mapping[int, int] | None = None,
) -> Course:
    first, last, memory, at_end = kind
    return Course(steps, (first,), last, keep or {}, memory, kinds, memory_at_end=at_end)


def _half(steps: int) -> int:
    return max(1, steps // 2)


def _extremes(value: torch.Tensor) -> torch.Tensor:
    return torch.stack([value.amin(-1), value.amax(-1)], -1)


def _ranked(front: Front) -> torch.Tensor:
    """F of every start, (T, P, S); of who is where a better one is what comes behind all others."""
    return torch.where(_again(front), -1 / (1 + front.value), front.value)


def _again(front: Front) -> torch.Tensor:
    """Which starts are where a better one is, (T, P, S)."""
    value = front.value
    order = value.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    same = _cosines(front.u) >= MET
    return (same & (order[..., None, :] < order[..., None])).any(-1)


def _cosines(u: torch.Tensor) -> torch.Tensor:
    """Of the directions of every two starts, (T, P, S, S), on average over the words."""
    return torch.einsum("tpamd,tpbmd->tpab", u, u) / u.shape[-2]


def _met(scouts: Front) -> torch.Tensor:
    """Whether all starts of a set are at one place, (T, P)."""
    change = scouts.value.sqrt()
    agreed = change.amin(-1) >= (1 - AGREED) * change.amax(-1)
    return agreed & (_cosines(scouts.u).flatten(2).amin(-1) >= MET)


def _laced(found: Sequence[Maximum]) -> Maximum:
    """The maxima of K layers as those of one view, positions outermost."""
    several = zip(*(vars(each).values() for each in found), strict=True)
    return Maximum(*(torch.stack(parts, 2).flatten(1, 2) for parts in several))
