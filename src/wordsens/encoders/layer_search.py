"""The search of the layers of an encoder, up a ladder of rungs.

The first block is moved most by what attracts its attention, and random directions lead there too.
Behind it the landscape is another: in trained layers many low hills lie along a few ridges, and a
climb in a deep layer ends on one of the low ones.  What moves an earlier layer far, where there are
fewer hills and a step costs less, is at the foot of the high ones.  So the search of layer l begins
on a rung of half its depth, which begins on one of half of that, down to the first block.  From
there starts climb by momentum (``search.momentum``) and the best go on to the rung above.

What is best below can be a dead end above.  So on every rung from which others begin more starts
come anew, along x' − x_i towards other words x' of the vocabulary: several words are looked at for
every start, in one run of the model for all layers, and those taken that move the rung most.  Of
the starts that came from below and of the new ones the best go on, half of each.  Where none comes
anew steps are shorter, as all are at the foot of something.

With random weights all starts of a rung come to one place, where few steps settle the maximum.  So
starts scout first, as long as those of all rungs below have met; there all but one come anew.

A ladder is worth its cost where several starts climb.  One alone climbs in its own layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from wordsens.encoders.layer_starts import SHALLOW, Beginnings
from wordsens.encoders.view import EncoderView
from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.maximum import Maximum, leaders, leaders_by_kind
from wordsens.search.momentum import Course, Front, ascend

MET = 0.95  # cosine of every two starts from which on they are taken to have met, and
AGREED = 0.02  # the share by which their changes may still differ
# Of courses: first and last step length, β in the beginning and at the end.
SCOUT = 0.4, 0.05, 0.6, 0.6
SETTLE = 0.05, 0.002, 0.6, 0.6
CLIMB = 0.1, 0.005, 0.7, 0.9
GENTLE = 0.05, 0.003, 0.7, 0.9
SHORT = 0.2, 0.01, 0.4, 0.9
SCOUTING, SETTLING = 8, 20  # steps of the first two
MANY = 60  # steps from which on one start alone climbs as several do, and not by the short course


@dataclass(frozen=True)
class Rung:
    """What was found in one layer: starts at the end of their climb, those from below first.

    met says where all starts of this rung and of those below came to one place, (T, P); every start
    is there then.  finals (T, P, 2) are the least and the largest F of the starts that climbed.
    """

    front: Front
    kinds: tuple[int, ...]  # how many came from below, and how many anew
    met: torch.Tensor
    finals: torch.Tensor

    def maximum(self, radius: float) -> Maximum:
        return replace(self.front.maximum(radius), finals=self.finals)

    def going_on(self, count: int) -> Front:
        """``count`` starts, half of each kind, of different places as far as there are; one is the
        best of all."""
        value = torch.where(_again(self.front), -1 / (1 + self.front.value), self.front.value)
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
    begin = Beginnings.of(here, sets, streams, starts, deep=max(layers) > SHALLOW)
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
    found: dict[int, Rung] = {}
    for layer in rungs:
        asked = layer in layers and layer > SHALLOW
        feeds = layer in begun_from or layer <= SHALLOW
        course = _course(steps if asked else max(1, steps // 2), CLIMB if feeds else GENTLE)
        if layer > SHALLOW:
            former, kinds = found[below(layer)], [carried, anew if feeds else 0]
            front = _mixed(former, begin.at(layer, sum(kinds) - 1), kinds)
            simple = former.met
        else:
            front = begin.at(layer, 2 * starts)
            kinds, simple = [2 * starts], torch.ones_like(front.value[..., 0], dtype=torch.bool)
        with stage(layer / max(1, sum(rungs))):
            found[layer] = climb(here.at_layer(layer), front, kinds, simple, course)
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
    view: OneTokenView, front: Front, kinds: Sequence[int], simple: torch.Tensor, course: Course
) -> Rung:
    """The rung of one layer from starts of some ``kinds``; ``simple`` (T, P): scout there first."""
    met, finals = simple, None
    onward = front
    if simple.any():
        scouts = ascend(view, front, _course(SCOUTING, SCOUT))
        met = simple & _met(scouts)
        onward, finals = scouts.where(simple, front), scouts.value
        # Whether a set takes the short way or the long one is its own matter, so both may be there.
        if met.any():
            best = scouts.take(leaders(scouts.value, 1))
            settled = ascend(view, best, _course(SETTLING, SETTLE)).repeated(sum(kinds))
            onward = settled.where(met, onward)
    if not met.all():
        onward = onward.where(met, ascend(view, onward, course))
    reached = onward.value if finals is None else torch.where(met[..., None], finals, onward.value)
    spread = torch.stack([reached.amin(-1), reached.amax(-1)], -1)
    return Rung(onward, tuple(kinds), met, spread)


def _course(steps: int, kind: tuple[float, float, float, float]) -> Course:
    first, last, memory, at_end = kind
    return Course(steps, (first,), last, {}, memory, memory_at_end=at_end)


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
