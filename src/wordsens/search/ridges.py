"""Maximise F of ReLU attention, whose maxima lie on ridges, by momentum (``momentum``).

The changed word's own row counts much: it outputs a mean of the words to which its scores are
positive, so that F jumps where only one is left, and most maxima lie there.  Starts of several
kinds therefore explore, plain ones and those that the view knows in such cones, and each kind keeps
leaders to the end, as in a cone F grows slowly, along its edges.  They are then refined with steps
that shrink geometrically, which converge linearly along sharp ridges (Davis, Drusvyatskiy,
MacPhee and Paquette, J. Optim. Theory Appl. 179, 2018).
"""

from __future__ import annotations

import torch

from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.search.maximum import Maximum, leaders_by_kind
from wordsens.search.momentum import Course, Front, ascend

SHARES = (3, 20)  # of the steps: exploring and refining
EXPLORE = ((0.01, 0.02, 0.05, 0.1), 0.01)  # first and last lengths of steps
KEPT = (12, 5)  # starts of each kind that explore on after a third and two thirds
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
    explore, refine = (max(1, round(steps * share / sum(SHARES))) for share in SHARES)
    keep = {explore * k // 3: kept for k, kept in enumerate(KEPT, start=1)}
    with stage(SHARES[0] / sum(SHARES)):
        front = ascend(view, front, Course(explore, *EXPLORE, keep, kinds=kinds))
    kinds = [min(kind, KEPT[-1]) for kind in kinds]
    front = front.take(leaders_by_kind(front.value, kinds, [REFINED] * len(kinds)))
    with stage(SHARES[1] / sum(SHARES)):
        alone = {round(SOON * refine): 1}
        kinds = [min(kind, REFINED) for kind in kinds]
        front = ascend(view, front, Course(refine, *REFINE, alone, INERTIA, kinds, even=True))
    return front.maximum(view.radius)
