"""The search of all layers of an encoder, from the first to the last.

Deep layers of trained encoders have many local maxima, and random starts seldom find the best.  A
Δ that moves an early layer much is a good start for the later ones, and costs less to find.  So
the layers are searched in turn: each by momentum (``search.momentum``) from what the one before
found and from starts of its own, of which fewer and fewer go on.
"""

from __future__ import annotations

import torch

from wordsens.encoders.view import EncoderView
from wordsens.progress import portion
from wordsens.search.maximum import Maximum, at, leaders
from wordsens.search.momentum import Course, Front, ascend

FIRST, LAST = (0.6,), 0.03  # lengths of the steps
AHEAD = 2  # times as many starts at the first layer, which is cheap


def search_in_turn(
    view: EncoderView, points: torch.Tensor, layers: list[int], *, starts: int, steps: int
) -> Maximum:
    """Maxima at the sets of a view, positions outermost, from directions ``points`` (T, P, S, m, d).

    ``points`` are the starts of every position, at least ``starts`` of them; the first layer
    takes all, later ones the first ``starts`` beside as many that the layer before found.
    """
    count = len(layers)
    found: list[Maximum] = []
    before: Front | None = None
    for k in range(count):
        part = view.select(slice(k, None, count))
        front = Front.of(points)
        if before is not None:
            own = front.take(leaders_of_all(front, starts))
            front = Front(*(torch.cat(x, 2) for x in zip(*map(_fields, (before, own)), strict=True)))
        rows = front.u.shape[2]
        keep = {max(1, steps // 4): max(starts, rows // 2), max(2, steps // 2): (starts + 1) // 2}
        with portion(layers[k] / max(1, sum(layers))):
            front = ascend(part, front, Course(steps, FIRST, LAST, keep | {}))
        found.append(front.maximum(view.radius))
        best = leaders(front.value, starts)
        kept = front.take(best)
        before = Front(
            torch.full_like(kept.value, -torch.inf), kept.u, kept.start, kept.steps
        )
    trials, sets = found[0].value.shape

    def laced(name: str) -> torch.Tensor:
        """Of all layers, positions outermost."""
        several = torch.stack([getattr(each, name) for each in found], 2)
        return several.reshape(trials, sets * count, *several.shape[3:])

    least = min(each.finals.shape[-1] for each in found)
    finals = torch.stack([each.finals.topk(least).values for each in found], 2)
    return Maximum(
        *(laced(name) for name in ("value", "delta", "start", "steps")),
        finals=finals.reshape(trials, sets * count, least),
    )
