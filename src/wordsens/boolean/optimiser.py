"""Adam for many models at once, and the schedule of Appendix F.2, each model with its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

BETAS = (0.9, 0.999)
SMALL = 1e-8


def adam_step(
    weights: dict[str, torch.Tensor],
    first: dict[str, torch.Tensor],
    second: dict[str, torch.Tensor],
    rates: torch.Tensor,
    step: int,
) -> None:
    """One step of Adam (Kingma and Ba, 2015) in place; ``rates`` (M,) are the models' own.

    ``weights`` carry their gradients; ``first`` and ``second`` are the moments, alike in shape.
    """
    bias, spread = 1 - BETAS[0] ** step, (1 - BETAS[1] ** step) ** 0.5
    for name, value in weights.items():
        gradient = value.grad
        assert gradient is not None
        first[name].lerp_(gradient, 1 - BETAS[0])
        second[name].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        size = (rates / bias).view(-1, *[1] * (value.ndim - 1)).to(value)
        value.data.sub_(size * first[name] / (second[name].sqrt() / spread + SMALL))


@dataclass
class Schedule:
    """Rates and stopping of M models: a rate is halved and a model stopped after flat epochs.

    A flat epoch is one without a new least loss.  All tensors have one entry per model.
    """

    rates: torch.Tensor
    best: torch.Tensor
    flat: torch.Tensor  # epochs since the least loss
    waited: torch.Tensor  # epochs since then, or since the last halving
    epochs: torch.Tensor  # epochs trained

    @classmethod
    def begin(cls, rates: torch.Tensor) -> Schedule:
        none = torch.zeros(len(rates), dtype=torch.long)
        worst = torch.full((len(rates),), torch.inf, dtype=torch.float64)
        return cls(rates.double().clone(), worst, none.clone(), none.clone(), none.clone())

    def after(
        self, live: torch.Tensor, loss: torch.Tensor, halve_after: int, stop_after: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the losses of the live models after an epoch; which improved, and which stop."""
        better = loss < self.best[live]  # nan is never better
        self.best[live] = torch.where(better, loss, self.best[live])
        self.flat[live] = torch.where(better, 0, self.flat[live] + 1)
        self.waited[live] = torch.where(better, 0, self.waited[live] + 1)
        halved = self.waited[live] >= halve_after
        self.rates[live] *= torch.where(halved, 0.5, 1.0)
        self.waited[live] = torch.where(halved, 0, self.waited[live])
        self.epochs[live] += 1
        return better, self.flat[live] >= stop_after
