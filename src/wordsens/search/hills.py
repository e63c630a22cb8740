"""Maximise F of deep random features, which has many hills, by momentum (``momentum``).

Long first steps pass from hill to hill, and a start that falls behind soon does not come back:
half of the starts goes on after each quarter of the exploring.  Where there is time for it, those
that are left are refined with steps that shrink geometrically, as on ridges (``ridges``).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.search.maximum import Maximum, with_second
from wordsens.search.momentum import Course, Front, ascend

EXPLORING = 0.6  # share of the steps; of few all, of which refining would take too many
FEW = 45
EXPLORE = ((0.5,), 0.01)  # first and last lengths of steps
QUARTERS = 4  # of the exploring, after each but the last of which half of the starts goes on
REFINE = ((0.02,), 3e-4)


def cross_hills(view: OneTokenView, starts: torch.Tensor, *, steps: int) -> Maximum:
    """The best point from directions ``starts`` (T, P, S, m, d), of any length."""
    explore = min(steps, max(FEW, round(EXPLORING * steps)))
    refine, count = steps - explore, starts.shape[2]
    keep = {}
    for quarter in range(1, QUARTERS):
        count = -(-count // 2)
        keep[quarter * explore // QUARTERS] = count
    before: list[torch.Tensor] = []
    with stage(explore / steps):
        front = ascend(view, Front.of(starts), Course(explore, *EXPLORE, keep), before=before)
    if refine:
        with stage(refine / steps):
            front = ascend(view, front, Course(refine, *REFINE, {}, even=True))
    found = front.maximum(view.radius)
    return replace(found, finals=with_second(found.finals, before))
