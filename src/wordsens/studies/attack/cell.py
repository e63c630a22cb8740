"""Attacks on one activation's interpolators, every strength at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from wordsens.progress import stage
from wordsens.robustness.attack import attack
from wordsens.studies.robustness.cell import attributes, draw, interpolator, trial_stream


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A row per trial, point and strength: output, predicted, along, projected, bound, flips."""
    N, d, width = cell["N"], cell["d"], cell["width"]
    columns: dict[str, list[np.ndarray]] = {}
    for trial in range(cell["trials"]):
        began = time.perf_counter()
        stream = trial_stream(cell, N, d, width, trial)
        with stage(1 / cell["trials"]):
            drawn = draw(cell, inputs, N, d, stream)
            model = interpolator(cell, drawn, width, stream, device)
            found = attack(
                model,
                drawn.x.to(device),
                cell["deltas"],
                starts=cell["starts"],
                steps=cell["steps"],
                stream=stream.child("attack"),
            )
        R, B = found.along.shape
        made: dict[str, Any] = {
            "trial": np.full((R, B), trial),
            "point": np.tile(np.arange(B), (R, 1)),
            "delta": np.tile(np.array(cell["deltas"])[:, None], (1, B)),
            "output": found.output.expand(R, B),
            "predicted": found.predicted,
            "along": found.along,
            "projected": found.projected,
            "bound": found.bound,
            "flipped_predicted": found.flipped(found.predicted),
            "flipped_along": found.flipped(found.along),
            "flipped_projected": found.flipped(found.projected),
            "seconds": np.full((R, B), (time.perf_counter() - began) / (R * B)),
        }
        for name, values in made.items():
            array = values.cpu().numpy() if hasattr(values, "cpu") else values
            columns.setdefault(name, []).append(array.reshape(-1))
    return {name: np.concatenate(parts) for name, parts in columns.items()}, attributes(cell)
