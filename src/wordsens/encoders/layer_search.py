"""The search of every layer of an encoder, each on its own.

The first block is moved most by what attracts its attention, and random directions lead there too.
Behind it the landscape is another: few random directions lead to a high maximum, while most other
words x' of the vocabulary do, as Δ along x' − x_i.  So deeper layers start from words.  Several are
looked at for every start, in one run of the model for all layers, and each layer takes those that
move it most.  Momentum goes on from there (``search.momentum``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from wordsens.encoders.view import EncoderView
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.maximum import Maximum, at, leaders, sphere
from wordsens.search.momentum import Course, Front, ascend
from wordsens.search.supremum import starting_points

FIRST, LAST, MEMORY = (0.2,), 0.02, 0.65  # of momentum: step lengths and β
SHALLOW = 1  # layers up to this one start from what attracts attention, deeper ones from words
LONGER = 1.5  # times as many steps at layers of at most half the depth, which cost less
LOOKED_AT = 4  # words for every start


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

    ``sets`` (P, m) and a stream for each of the T texts name what is drawn.  Half of the starts,
    two at least, go on after half of the steps.
    """
    here = view.select(slice(0, None, len(layers)))  # one layer, all positions
    lengths = [round(steps * (LONGER if 2 * x <= view.model.depth else 1)) for x in layers]
    costs = [layer * length for layer, length in zip(layers, lengths, strict=True)]
    noise = _noise(here, sets, streams, starts)
    if max(layers) > SHALLOW:
        words, changes = _words(here, sets, streams, LOOKED_AT * starts, noise)
    found: list[Maximum] = []
    names: list[list[str]] = []
    for k, (layer, length) in enumerate(zip(layers, lengths, strict=True)):
        if layer <= SHALLOW:
            points, known = starting_points(here, noise, least=1)
        else:
            points = at(words, leaders(changes[..., layer], starts))
            known = ["word"] * starts
        course = Course(length, FIRST, LAST, {length // 2: max(2, (starts + 1) // 2)}, MEMORY)
        with stage(costs[k] / max(1, sum(costs))):
            front = ascend(view.select(slice(k, None, len(layers))), Front.of(points), course)
        found.append(front.maximum(view.radius))
        names.append(known)
    return _laced(found), names


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
