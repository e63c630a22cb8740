"""How attention scores become weights that sum to one over the keys: softmax, or ReLU.

Both make the output of row j, when only some keys I change, a convex combination

    out_j(v) = (1 − Σ_a p_a) o_j + Σ_a p_a v_a,

with o_j the output over the other keys and p the weights of the changed ones.  A class here says
how p follows from the scores a_j(v) of the changed keys and a summary of the others: for softmax
the log-sum-exp ℓ_j of their scores, for ReLU their sum R_j.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from wordsens.deferred import torch

Pull = Callable[["torch.Tensor"], "torch.Tensor"]


class Normalization(ABC):
    """Weights over keys, the last axis of the scores."""

    name: ClassVar[str] = ""  # of those that kernels know
    kinks: ClassVar[bool] = (
        False  # whether weights have corners, where searches end by subgradients
    )

    @abstractmethod
    def attend(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and summary over the keys outside ``mask``; shapes (..., n) and (...)."""

    @abstractmethod
    def without(self, summary: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The summary once keys of total ``weight`` < 1/2 are taken away."""

    @abstractmethod
    def changed(self, scores: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        """Weights p of the changed keys given the summary of the others, and dp ↦ d(scores).

        scores (..., m, n): m changed keys for each of n rows; others (..., 1, n).
        """

    @abstractmethod
    def row(self, scores: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        """Weights over all keys (last axis) and the map dq ↦ d(scores)."""


class Softmax(Normalization):
    """exp(s) / Σ exp(s)."""

    name = "softmax"

    def attend(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if mask is not None:
            scores = scores.masked_fill(mask, -torch.inf)
        summary = torch.logsumexp(scores, dim=-1)
        return torch.exp(scores - summary[..., None]), summary

    def without(self, summary: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return summary + torch.log1p(-weight)

    def changed(self, scores: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        if scores.shape[-2] == 1:
            p, rest = torch.sigmoid(scores - others), torch.sigmoid(others - scores)
            slope = p * rest
            return p, lambda dp: slope * dp
        total = torch.logaddexp(others, torch.logsumexp(scores, dim=-2, keepdim=True))
        p = torch.exp(scores - total)
        return p, lambda dp: p * (dp - (p * dp).sum(-2, keepdim=True))

    def row(self, scores: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        q = torch.softmax(scores, dim=-1)
        return q, lambda dq: q * (dq - (q * dq).sum(-1, keepdim=True))


class ReLU(Normalization):
    """relu(s) / Σ relu(s); a row whose scores are all ≤ 0 gets no weight and outputs 0."""

    name = "relu"
    kinks = True

    def attend(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positive = torch.relu(scores)
        if mask is not None:
            positive = positive.masked_fill(mask, 0)
        summary = positive.sum(-1)
        return positive / _nonzero(summary)[..., None], summary

    def without(self, summary: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return summary * (1 - weight)

    def changed(self, scores: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        positive = torch.relu(scores)
        total = _nonzero(others + positive.sum(-2, keepdim=True))
        p = positive / total
        active = (scores > 0) / total
        return p, lambda dp: active * (dp - (p * dp).sum(-2, keepdim=True))

    def row(self, scores: torch.Tensor) -> tuple[torch.Tensor, Pull]:
        positive = torch.relu(scores)
        total = _nonzero(positive.sum(-1, keepdim=True))
        q = positive / total
        active = (scores > 0) / total
        return q, lambda dq: active * (dq - (q * dq).sum(-1, keepdim=True))


def _nonzero(total: torch.Tensor) -> torch.Tensor:
    return torch.where(total == 0, torch.ones_like(total), total)
