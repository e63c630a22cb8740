"""Where the search of an encoder's layers begins: with what attracts attention, and with words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from wordsens.encoders.view import EncoderView
from wordsens.randomness import Stream
from wordsens.search.maximum import at, leaders, sphere
from wordsens.search.momentum import Front
from wordsens.search.supremum import starting_points

SHALLOW = 1  # layers up to this one begin with what attracts attention, deeper ones with words
LOOKED_AT, ALONE = 6, 4  # words for every start that comes anew, and for one that is alone


@dataclass(frozen=True)
class Beginnings:
    """Where starts begin that come from no rung: ``points`` of the first block, words behind it.

    toward (T, P, C, m, d) are directions to words, and changes (T, P, C, l+1) how far those move
    every layer up to some l.  The last of the names is that of words.
    """

    points: torch.Tensor
    toward: torch.Tensor
    changes: torch.Tensor
    names: list[str]

    @classmethod
    def of(
        cls,
        here: EncoderView,
        sets: torch.Tensor,
        streams: Sequence[Stream],
        starts: int,
        *,
        last: int,
    ) -> Beginnings:
        """Drawn for a number of ``starts``; words are looked at up to layer ``last``, if any."""
        size = (2 * starts if starts > 1 else 1, *here.tokens.shape[2:])
        dtype = here.tokens.dtype
        drawn = _drawn(streams, sets, "starts", lambda stream: stream.normal(*size, dtype=dtype))
        noise = drawn.to(here.tokens)
        points, known = starting_points(here, noise, least=1)
        names = [*known, "word"]
        if not last:
            return cls(points, noise[:, :, :0], noise.new_zeros(*noise.shape[:2], 0, 0), names)
        looked = LOOKED_AT * (starts - 1) if starts > 1 else ALONE
        toward = _towards_words(here, sets, streams, looked, noise)
        moved = here.tokens[:, :, None] + here.radius * toward
        return cls(points, toward, here.relative_changes(moved, last), names)

    def at(self, layer: int, count: int) -> Front:
        """``count`` starts in a layer, behind the first block at the words that move it most.

        A layer beyond those that were looked at begins with what moves the last of them.
        """
        if layer <= SHALLOW:
            return Front.of(self.points[:, :, :count])
        known = min(layer, self.changes.shape[-1] - 1)
        front = Front.of(at(self.toward, leaders(self.changes[..., known], count)))
        return replace(front, start=torch.full_like(front.start, len(self.names) - 1))


def _towards_words(
    here: EncoderView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    count: int,
    noise: torch.Tensor,
) -> torch.Tensor:
    """Directions to words drawn at random, (T, P, count, m, d)."""
    rows, size = here.model.blocks.rows, (count, sets.shape[1])
    few = count * sets.shape[1] > rows

    def draw(stream: Stream) -> torch.Tensor:
        return torch.from_numpy(stream.generator().choice(rows, size, replace=few))

    toward = sphere(here.towards(_drawn(streams, sets, "words", draw)))
    # The direction to the word itself is none.
    none = (toward == 0).all(-1, keepdim=True)
    return torch.where(none, sphere(noise[:, :, :1]), toward)


def _drawn(
    streams: Sequence[Stream],
    sets: torch.Tensor,
    purpose: str,
    draw: Callable[[Stream], torch.Tensor],
) -> torch.Tensor:
    """What ``draw`` makes of a stream of its own for every text and set, (T, P, …)."""
    named = [[stream.child(purpose, words=words) for words in sets.tolist()] for stream in streams]
    return torch.stack([torch.stack([draw(stream) for stream in row]) for row in named])
