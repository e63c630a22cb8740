"""Gradient flow of networks of one width."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.activations import activation
from wordsens.progress import portion
from wordsens.randomness import Stream
from wordsens.robustness.flow import gradient_flow
from wordsens.robustness.tangent_kernel import draw_layers

TIMES = 40  # at which the loss is looked at, evenly spaced in logarithms


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A row per trial and time: training_loss, bound, and the trial's smallest, later, parameters.

    All widths see the same samples and labels.
    """
    n, d, end = cell["n"], cell["d"], cell["time"]
    times = np.concatenate([[0.0], np.geomspace(end / 3000, end, TIMES)])
    shared = Stream(cell["seed"], "flow", n=n, d=d)
    columns: dict[str, list[np.ndarray]] = {}
    for trial in range(cell["trials"]):
        began = time.perf_counter()
        stream = shared.child("trial", trial=trial)
        X = stream.child("samples").normal(n, d, dtype=torch.float64)
        X = X * (d**0.5 / X.norm(dim=1, keepdim=True))
        labels = stream.child("labels").normal(n, dtype=torch.float64)
        y = torch.where(labels < 0, -1.0, 1.0).to(torch.float64)
        widths = [cell["width"]] * (cell["depth"] - 1)
        own = stream.child("weights", **{name: cell[name] for name in ("width", "depth")})
        with portion(1 / cell["trials"]):
            found = gradient_flow(
                X, y, draw_layers(d, widths, own), activation(cell["activation"]), times.tolist()
            )
        rows = len(times)
        made = {
            "trial": np.full(rows, trial),
            "time": times,
            "training_loss": found.loss,
            "bound": found.bound,
            "smallest": np.full(rows, found.smallest),
            "later": np.full(rows, found.later),
            "parameters": np.full(rows, found.parameters),
            "evaluations": np.full(rows, found.evaluations),
            "seconds": np.full(rows, (time.perf_counter() - began) / rows),
        }
        for name, values in made.items():
            columns.setdefault(name, []).append(values)
    attributes = {key: value for key, value in cell.items() if key != "time"}
    arrays = {name: np.concatenate(parts) for name, parts in columns.items()}
    return arrays, attributes
