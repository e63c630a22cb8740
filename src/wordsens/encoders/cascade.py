"""The search of all layers of an encoder, from the first to the last.

Deep layers of trained encoders have many local maxima, and few random starts find the best one,
late.  A Δ that moves an earlier layer much is a good start for the later ones, and costs less to
find.  So the layers are searched in turn, each by momentum (``search.momentum``): earlier ones from
more starts, mostly random ones; the last ones mostly from what the layers before found.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from wordsens.encoders.view import EncoderView
from wordsens.progress import portion
from wordsens.search.maximum import Maximum, leaders
from wordsens.search.momentum import Course, Front, ascend

FIRST, LAST, MEMORY = (0.6,), 0.03, 0.5  # of momentum: step lengths and β
MOST = 2  # times as many starts at early layers, which are cheap
CARRIED = (0.25, 0.75)  # share of the starts that the layer before found: early layers, others


def starts_needed(starts: int, layers: list[int]) -> int:
    """How many starts ``search_in_turn`` takes."""
    return sum(fresh for _, fresh in _counts(starts, layers))


def search_in_turn(
    view: EncoderView, points: torch.Tensor, layers: list[int], *, starts: int, steps: int
) -> Maximum:
    """Maxima at the sets of a view, from directions ``points`` (T, P, S, m, d).

    Sets have positions outermost; P counts positions here, and S is ``starts_needed``.
    ``starts`` begin at the deepest layer, and twice as many at layers of half its depth or
    less; after half of the steps, half go on at the deepest layers.
    """
    found: list[Maximum] = []
    before: Front | None = None
    used = 0
    for k, (carried, fresh) in enumerate(_counts(starts, layers)):
        part = view.select(slice(k, None, len(layers)))
        front = Front.of(points[:, :, used : used + fresh])
        front = replace(front, start=front.start + used)
        used += fresh
        if before is not None:
            best = before.take(leaders(before.value, carried))
            best = replace(best, value=torch.full_like(best.value, -torch.inf))
            pairs = zip(vars(best).values(), vars(front).values(), strict=True)
            front = Front(*(torch.cat(pair, 2) for pair in pairs))
        total = carried + fresh
        keep = {} if total > starts else {steps // 2: (total + 1) // 2}
        with portion(layers[k] / max(1, sum(layers))):
            before = ascend(part, front, Course(steps, FIRST, LAST, keep, MEMORY))
        found.append(before.maximum(view.radius))
    trials, sets = found[0].value.shape

    def laced(name: str) -> torch.Tensor:
        """Of all layers, positions outermost."""
        several = torch.stack([getattr(each, name) for each in found], 2)
        return several.reshape(trials, sets * len(layers), *several.shape[3:])

    least = min(each.finals.shape[-1] for each in found)
    finals = torch.stack([each.finals.topk(least).values for each in found], 2)
    return Maximum(
        value=laced("value"),
        delta=laced("delta"),
        start=laced("start"),
        steps=laced("steps"),
        finals=finals.reshape(trials, sets * len(layers), least),
    )


def _counts(starts: int, layers: list[int]) -> list[tuple[int, int]]:
    """Starts of every layer: carried from the layer before, and its own."""
    counts: list[tuple[int, int]] = []
    for layer in layers:
        early = 2 * layer <= layers[-1]
        total = MOST * starts if early else starts
        share = CARRIED[0] if early else CARRIED[1]
        carried = min(round(share * total), (sum(counts[-1]) + 1) // 2) if counts else 0
        counts.append((carried, total - carried))
    return counts
