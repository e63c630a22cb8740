"""How far found losses were from those of a search with ten times the effort (``auditing``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from wordsens.maps.declaration import LossEffort
from wordsens.search.auditing import STARTS, STEPS, Audit
from wordsens.search.losses import Question, search_losses

LEAST_LOSS = 0.01  # labels are ±1; of smaller losses an excess is no share, but says little


def longer_losses(effort: LossEffort) -> LossEffort:
    """An effort of a search of losses ten times as large."""
    return replace(
        effort,
        starts=STARTS * effort.starts,
        explore=STEPS * effort.explore,
        polish=STEPS * effort.polish,
        beside=STARTS * effort.beside,
        settle=STARTS * STEPS * effort.settle,
        slide=STEPS * effort.slide,
    )


def audit_losses(asked: Question, found: torch.Tensor, chosen: Sequence[int]) -> Audit:
    """Minimise all goals of the trials ``chosen`` again; ``found`` (T, J) is to be judged.

    Losses are squares of about 4 at Δ = 0, and of some the minimum is 0: below 0.01 the excess is
    a share of 0.01.
    """
    found = found.double()
    audited = torch.full_like(found, torch.nan)
    if chosen:
        index = list(chosen)
        some = asked.trials(index)
        fresh = [stream.child("audit") for stream in some.streams]
        again = replace(some, streams=fresh, effort=longer_losses(asked.effort))
        audited[index] = search_losses(again).value.to(found)
    known = audited.isfinite() & found.isfinite()  # a limit on γ may exclude every point
    lower = ((found - audited) / found.abs().clamp_min(LEAST_LOSS)).clamp_min(0)
    return Audit(audited, torch.where(known, lower, torch.nan))
