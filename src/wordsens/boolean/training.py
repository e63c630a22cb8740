"""Training recognisers as in Appendix F.2, all models of one shape as one batch.

Every model has its own data, rate, order of batches, schedule and end; models that have stopped
leave the batch.  Orders come from streams named by model and epoch, so that a training that was
killed goes on from its checkpoint to the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch.nn import functional

from wordsens.boolean.checkpoint import read_checkpoint, write_checkpoint
from wordsens.boolean.optimiser import Schedule, adam_step
from wordsens.boolean.recogniser import Recogniser
from wordsens.progress import reached
from wordsens.randomness import Stream

# Hidden units of the MLP held at once: gradients of parts of a batch are added up.
CACHE_BYTES, DEVICE_BYTES = 1 << 22, 1 << 30
JUDGED = 1 << 22  # numbers of one layer held at once when a set is judged


@dataclass(frozen=True)
class Examples:
    """Strings (M, S, N), int8, and their labels (M, S), bool: a set for each of M models."""

    bits: torch.Tensor
    labels: torch.Tensor

    def take(self, models: torch.Tensor) -> Examples:
        return Examples(self.bits[models], self.labels[models])


@dataclass(frozen=True)
class Settings:
    """How long and how: ``enough`` ends a model whose validation loss has fallen below it."""

    batch: int = 256
    epochs: int = 100
    halve_after: int = 5
    stop_after: int = 10
    enough: float = 0.0


@dataclass(frozen=True)
class Trained:
    """The models at their least validation loss, and how each got there (M,)."""

    recogniser: Recogniser
    loss: torch.Tensor
    epochs: torch.Tensor
    rate: torch.Tensor


def train(
    start: Recogniser,
    examples: Examples,
    validation: Examples,
    rates: torch.Tensor,
    streams: Sequence[Stream],
    settings: Settings,
    *,
    checkpoint: Path | None = None,
    every: int = 5,
) -> Trained:
    """Adam on the binary cross-entropy between labels and T(x) as a logit, until all models stop.

    ``rates`` (M,) are the initial learning rates; ``streams`` name each model's order of batches.
    The state is written to ``checkpoint`` every ``every`` epochs and at the end, and read from it
    where it belongs to the same training.
    """
    state = _State.begin(start, rates)
    signature = _signature(start, examples, validation, rates, streams, settings)
    if checkpoint is not None and (found := read_checkpoint(checkpoint, signature)):
        state = _State.unpacked(found, start.device)
    while len(state.live) and state.epoch < settings.epochs:
        _epoch(state, start, examples.take(state.live), streams, settings)
        current = state.recogniser(start)
        loss = judge(current, validation.take(state.live))[0]
        better, stop = state.schedule.after(
            state.live, loss, settings.halve_after, settings.stop_after
        )
        for name, value in state.weights.items():
            state.kept[name][state.live[better]] = value.detach()[better]
        state.keep(~(stop | (loss < settings.enough)))
        reached(state.epoch, settings.epochs)
        if checkpoint is not None and state.epoch % every == 0:
            write_checkpoint(checkpoint, state.packed(), signature)
    if checkpoint is not None:
        write_checkpoint(checkpoint, state.packed(), signature)
    schedule = state.schedule
    best = Recogniser(start.shape, start.weights | state.kept, start.margin)
    return Trained(best, schedule.best, schedule.epochs, schedule.rates)


@torch.no_grad()
def judge(of: Recogniser, examples: Examples) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean loss and accuracy of every model on its set: (M,) and (M,), float64."""
    M, _, N = examples.bits.shape
    row = (N + 1) * (4 * of.shape.width + of.shape.heads * (N + 1))
    size = max(1, JUDGED // (M * row))
    logits = torch.cat([of.logits(part) for part in examples.bits.split(size, 1)], 1).cpu()
    loss = functional.binary_cross_entropy_with_logits(
        logits.double(), examples.labels.double(), reduction="none"
    )
    return loss.mean(1), ((logits >= 0) == examples.labels).double().mean(1)


@dataclass
class _State:
    """All that a training is in between two epochs; ``live`` are the models not yet stopped."""

    epoch: int
    step: int
    live: torch.Tensor
    weights: dict[str, torch.Tensor]  # of the live models, as are the moments
    first: dict[str, torch.Tensor]
    second: dict[str, torch.Tensor]
    kept: dict[str, torch.Tensor]  # of all models, at their least loss
    schedule: Schedule

    @classmethod
    def begin(cls, start: Recogniser, rates: torch.Tensor) -> _State:
        own = {name: start.weights[name].clone() for name in start.shape.sizes()}
        first, second = ({k: torch.zeros_like(v) for k, v in own.items()} for _ in range(2))
        kept = {k: v.clone() for k, v in own.items()}
        live = torch.arange(start.models)
        return cls(0, 0, live, own, first, second, kept, Schedule.begin(rates))

    def recogniser(self, start: Recogniser) -> Recogniser:
        symbols = start.weights["symbols"][self.live.to(start.device)]
        return Recogniser(start.shape, self.weights | {"symbols": symbols}, start.margin)

    def keep(self, going: torch.Tensor) -> None:
        """Let the other live models leave the batch."""
        if going.all():
            return
        self.live = self.live[going]
        for group in (self.weights, self.first, self.second):
            for name, value in group.items():
                group[name] = value.detach()[going.to(value.device)].clone()

    def packed(self) -> dict[str, torch.Tensor]:
        tensors = {"live": self.live, "at": torch.tensor([self.epoch, self.step])}
        for group in ("weights", "first", "second", "kept"):
            held = getattr(self, group)
            tensors |= {f"{group}.{name}": value.detach() for name, value in held.items()}
        return tensors | {f"schedule.{f.name}": getattr(self.schedule, f.name) for f in _SCHEDULE}

    @classmethod
    def unpacked(cls, tensors: dict[str, torch.Tensor], device: torch.device) -> _State:
        def group(name: str) -> dict[str, torch.Tensor]:
            return {
                key.removeprefix(f"{name}."): value if name == "schedule" else value.to(device)
                for key, value in tensors.items()
                if key.startswith(f"{name}.")
            }

        epoch, step = tensors["at"].tolist()
        weights, first, second, kept = map(group, ("weights", "first", "second", "kept"))
        schedule = Schedule(**group("schedule"))
        return cls(epoch, step, tensors["live"], weights, first, second, kept, schedule)


_SCHEDULE = fields(Schedule)


def _epoch(
    state: _State,
    start: Recogniser,
    examples: Examples,
    streams: Sequence[Stream],
    settings: Settings,
) -> None:
    """One pass over every live model's examples, in an order of its own."""
    count = examples.bits.shape[1]
    order = torch.stack(
        [
            torch.from_numpy(
                streams[m].child("order", epoch=state.epoch).generator().permutation(count)
            )
            for m in state.live.tolist()
        ]
    )
    model = torch.arange(len(state.live))[:, None]
    for value in state.weights.values():
        value.requires_grad_(True)
    recogniser = state.recogniser(start)
    rates = state.schedule.rates[state.live].to(start.device)
    shape = start.shape
    row = (examples.bits.shape[2] + 1) * len(model) * shape.feedforward * start.dtype.itemsize
    together = max(1, (DEVICE_BYTES if start.device.type == "cuda" else CACHE_BYTES) // row)
    for batch in order.split(settings.batch, 1):
        for rows in batch.split(together, 1):
            labels = examples.labels[model, rows]
            logits = recogniser.logits(examples.bits[model, rows])
            loss = functional.binary_cross_entropy_with_logits(
                logits, labels.to(logits), reduction="sum"
            )
            (loss / batch.shape[1]).backward()
        state.step += 1
        adam_step(state.weights, state.first, state.second, rates, state.step)
        for value in state.weights.values():
            value.grad = None
    for value in state.weights.values():
        value.requires_grad_(False)
    state.epoch += 1


def _signature(
    start: Recogniser,
    examples: Examples,
    validation: Examples,
    rates: torch.Tensor,
    streams: Sequence[Stream],
    settings: Settings,
) -> str:
    """A digest of what a training starts from; a checkpoint of another one is not taken up.

    Whatever the epochs allowed: more of them go on from where fewer ended.
    """
    said = asdict(settings) | asdict(start.shape) | {"streams": [s.name for s in streams]}
    said.pop("epochs")
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    tensors = (*start.weights.values(), examples.bits, examples.labels, validation.bits)
    for tensor in (*tensors, validation.labels, rates):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
