"""Input and word sensitivity of one map at one context length."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.data.samples import draw_training_set
from wordsens.maps import MapOptions, map_class
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.robustness.input_sensitivity import interpolate, sensitivity_at
from wordsens.search.sensitivity import word_sensitivity


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A row per trial, averaged over its points.

    Arrays: trial, sensitivity (of the whole text), token_mean and token_max (of one token: mean and
    maximum over tokens), word_sensitivity (4) of the map at the first token, output, parameters,
    condition, rank, residual, seconds.
    """
    n, d, N, points = cell["n"], cell["d"], cell["N"], cell["points"]
    cls = map_class(cell["map"])
    options = MapOptions.of(cell, cls.options)
    stream = Stream(cell["seed"], "text robustness", dataset=cell["dataset"], n=n, d=d, N=N)
    rows: list[dict[str, Any]] = []
    for trial in range(cell["trials"]):
        began = time.perf_counter()
        own = stream.child("trial", trial=trial)  # all maps see the same texts
        drawn = draw_training_set(
            inputs.get("data"),
            n,
            d,
            N + points - 1,
            own.child("samples"),
            dtype=torch.float64,
            key=f"text_robustness.{cell['study']}",
        )
        X, y = drawn.X.to(device), drawn.labels.to(device, torch.float64)
        with stage(1 / cell["trials"]):
            map = cls.draw(
                (n, d), [own.child("map", map=cls.name)], options, dtype=X.dtype, device=device
            )
            map.batch = None
            if cls.kernel_form:
                model = interpolate(
                    X[points:],
                    y[points:],
                    cls.name,
                    width=options.width or n * d,
                    activation=options.activation,
                    seed=own.child("weights"),
                )
            else:
                model = interpolate(X[points:], y[points:], map)
            found = sensitivity_at(model, X[:points])
            words = [
                word_sensitivity(map, x, seed=trial, starts=cell["starts"], steps=cell["steps"]).sup
                for x in X[:points]
            ]
        assert found.by_token is not None
        rows.append(
            {
                "trial": trial,
                "sensitivity": found.sensitivity.mean().item(),
                "token_mean": found.by_token.mean().item(),
                "token_max": found.by_token.amax(1).mean().item(),
                "word_sensitivity": float(np.mean(words)),
                "output": found.output.square().mean().sqrt().item(),
                "parameters": found.parameters,
                "condition": found.condition,
                "rank": found.rank,
                "residual": found.residual,
                "seconds": time.perf_counter() - began,
            }
        )
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return arrays, {key: value for key, value in cell.items() if value is not None}
