"""How far a search was from a longer one: some trials are searched again with ten times the effort.

A found maximum is a lower bound, and a found loss an upper one.  The audit says by how much, for a
share of the trials that a stream chooses, by a search with other starts, five times as many, and
twice the steps.  It goes on with the view of the first search, as a matrix drawn lazily is the same
one only there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from wordsens.audits import sentence
from wordsens.errors import UserError
from wordsens.maps import FeatureMap
from wordsens.maps.declaration import Effort
from wordsens.perturbation import OneTokenView
from wordsens.randomness import Stream
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search

STARTS, STEPS = 5, 2  # of the longer search, in those of the audited one


@dataclass(frozen=True)
class Audit:
    """What a longer search found.

    audited   its value by trial, NaN where none was made; as the audited values, (T,) or (T, …)
    excess    how much higher it got, as a share of itself, at least 0; of losses how much lower,
              as a share of the audited one; NaN likewise
    """

    audited: torch.Tensor
    excess: torch.Tensor

    @property
    def count(self) -> int:
        """Trials that were audited."""
        return int((~self.excess.reshape(len(self.excess), -1).isnan().all(1)).sum())

    @property
    def largest(self) -> float:
        """The largest excess, NaN where nothing was audited."""
        known = self.excess[~self.excess.isnan()]
        return float(known.max()) if len(known) else float("nan")

    def sentence(self) -> str:
        """For captions and reports; empty where nothing was audited."""
        return sentence(self.largest, self.count)


def audited_trials(trials: int, share: float, stream: Stream) -> list[int]:
    """Which trials a stream chooses to audit: that share of them, at least one; none for 0.

    Raises ``UserError`` for a share outside 0 … 1.
    """
    if not 0 <= share <= 1:
        raise UserError(f"audit = {share} must lie between 0 and 1")
    if share == 0 or trials == 0:
        return []
    order = stream.child("audit").generator().permutation(trials)
    return sorted(order[: max(1, round(share * trials))].tolist())


def longer(effort: Effort) -> Effort:
    """An effort ten times as large."""
    starts, afresh = STARTS * effort.starts, STARTS * effort.afresh
    return replace(effort, starts=starts, steps=STEPS * effort.steps, afresh=afresh)


def audit(
    map: FeatureMap | type[FeatureMap],
    view: OneTokenView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    effort: Effort,
    n: int,
    *,
    found: torch.Tensor,
    chosen: Sequence[int],
) -> Audit:
    """Search the trials ``chosen`` of a view again; ``found`` (T,) are the suprema to be judged.

    The arguments are those of the search (``search.supremum.search``) that is audited; its own
    method does not matter.
    """

    def again(trials: list[int]) -> torch.Tensor:
        fresh = [streams[t].child("audit") for t in trials]
        part = search(map, view.trials(trials), sets, fresh, longer(effort), n)
        return summarise([part], sets, single=False).sup

    return compared(found, chosen, again)


def compared(
    found: torch.Tensor, chosen: Sequence[int], again: Callable[[list[int]], Any]
) -> Audit:
    """An audit of found (T, …), where ``again`` makes the longer search of some trials."""
    found = torch.as_tensor(found).double()
    audited = torch.full_like(found, torch.nan)
    if chosen:
        audited[list(chosen)] = torch.as_tensor(again(list(chosen))).double().to(found)
    higher = torch.where(audited > 0, (audited - found) / audited, 0).clamp_min(0)
    return Audit(audited, torch.where(audited.isnan(), torch.nan, higher))
