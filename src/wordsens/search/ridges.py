"""Maximise F of ReLU attention, whose maxima lie on ridges, by momentum (``momentum``).

The changed word's own row counts much: it outputs a mean of the words to which its scores are
positive, so that F jumps where only one is left, and most maxima lie there.  Starts of several
kinds therefore explore, plain ones and those that the view knows in such cones, and each kind keeps
leaders to the end, as in a cone F grows slowly, along its edges; in small problems starts keep to
their cones while they explore.  Near v = 0, where a word almost vanishes, only its direction says
what it attends to: steps are as much shorter as v is.  All are then refined with steps that shrink
geometrically, which converge linearly along sharp ridges (Davis, Drusvyatskiy, MacPhee and
Paquette, J. Optim. Theory Appl. 179, 2018).
"""

from __future__ import annotations

import torch

from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.search.maximum import Maximum, leaders_by_kind
from wordsens.search.momentum import Course, Front, ascend

SHARES = (3, 20)  # of the steps: exploring and refining
LONGER = 2  # shares by which starts that keep to cones explore longer, and are refined less
EXPLORE = ((0.01, 0.02, 0.05, 0.1), 0.01)  # first and last lengths of steps
WITHIN = ((0.01, 0.03, 0.1, 0.2), 0.01)  # the same where starts keep to cones
KEPT = (12, 5)  # starts of each kind that explore on after one share of the steps and two
REFINE = ((0.03,), 1e-4)
REFINED = 3  # starts of each kind, of which one goes on
SOON = 0.15  # share of the refining after which it goes on alone
INERTIA = 0.9  # β of refining


def follow_ridges(
    view: OneTokenView, starts: torch.Tensor, beside: list[torch.Tensor], *, steps: int
) -> Maximum:
    """The best point from directions ``starts`` (T, P, S, m, d), of any length, and ``beside``.

    Each tensor of ``beside`` holds directions made from the first of the starts, of one kind.
    """
    kinds = [starts.shape[2], *(u.shape[2] for u in beside)]
    front = Front.of(torch.cat([starts, *beside], 2))
    origin = torch.cat([torch.arange(kind, device=starts.device) for kind in kinds])
    front = Front(front.value, front.u, origin.expand_as(front.start), front.steps)
    v = view.tokens[:, :, None] + view.radius * front.u[:, :, kinds[0] :]
    cones = view.cones(v) if beside else None
    exploring, lengths = SHARES[0], EXPLORE
    if cones is not None:
        exploring, lengths = SHARES[0] + LONGER, WITHIN
    refining = sum(SHARES) - exploring
    one = steps / sum(SHARES)
    keep = {round(k * one): kept for k, kept in enumerate(KEPT, start=1)}
    with stage(exploring / sum(SHARES)):
        explore = max(1, round(exploring * one))
        course = Course(explore, *lengths, keep, kinds=kinds, relative=True)
        front = ascend(view, front, course, cones=cones)
    # few steps end before the last are given up
    left = min([max(kinds), *(kept for step, kept in keep.items() if step < explore)])
    kinds = [min(kind, left) for kind in kinds]
    front = front.take(leaders_by_kind(front.value, kinds, [REFINED] * len(kinds)))
    refine = max(1, round(refining * one))
    with stage(refining / sum(SHARES)):
        alone = {round(SOON * refine): 1}
        kinds = [min(kind, REFINED) for kind in kinds]
        course = Course(refine, *REFINE, alone, INERTIA, kinds, even=True, relative=True)
        front = ascend(view, front, course)
    return front.maximum(view.radius)
