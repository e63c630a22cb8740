"""One activation's input sensitivity at every N × d × width of an entry."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wordsens.activations import activation
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.robustness.input_sensitivity import Model, interpolate, sensitivity_at
from wordsens.robustness.vectors import Vectors, draw_vectors

NAMES = ("features", "source", "dataset", "labels", "tokens")


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """``trials`` independent draws at each (N, d, width); a row each, with S averaged over points.

    Arrays: N, d, width, trial, parameters, sensitivity (mean over the points), spread (their
    standard deviation), output (root mean square of f), condition, rank, residual, seconds.
    """
    points = list(grid(cell))
    rows: list[dict[str, Any]] = []
    for N, d, width in points:
        with stage(1 / len(points)):
            for trial in range(cell["trials"]):
                began = time.perf_counter()
                stream = trial_stream(cell, N, d, width, trial)
                drawn = draw(cell, inputs, N, d, stream)
                model = interpolator(cell, drawn, width, stream, device)
                found = sensitivity_at(model, drawn.x.to(device))
                S = found.sensitivity.cpu()
                rows.append(
                    {
                        **{"N": N, "d": d, "width": width, "trial": trial},
                        "parameters": found.parameters,
                        "sensitivity": S.mean().item(),
                        "spread": S.std(unbiased=False).item(),
                        "output": found.output.square().mean().sqrt().item(),
                        "condition": found.condition,
                        "rank": found.rank,
                        "residual": found.residual,
                        "seconds": time.perf_counter() - began,
                    }
                )
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return arrays, attributes(cell)


def interpolator(
    cell: Mapping[str, Any], drawn: Vectors, width: int, stream: Stream, device: str
) -> Model:
    """The minimum-norm interpolator of one trial's training samples."""
    return interpolate(
        drawn.X.to(device),
        drawn.y.to(device),
        cell["features"],
        width=width,
        activation=cell["activation"],
        seed=stream.child("weights"),
    )


def grid(cell: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Every (N, d, width) of a cell; by its rule, d follows N."""
    times = cell.get("d_times")
    for N in cell["N"]:
        for d in [round(times * N ** cell["d_power"])] if times else cell["d"]:
            for width in cell["width"]:
                yield N, d, width


def trial_stream(cell: Mapping[str, Any], N: int, d: int, width: int, trial: int) -> Stream:
    """The stream of one trial; all activations see the same draws."""
    names = {name: cell[name] for name in NAMES if cell.get(name) is not None}
    stream = Stream(cell["seed"], "robustness", **names, N=N, d=d, width=width)
    return stream.child("trial", trial=trial)


def draw(
    cell: Mapping[str, Any], inputs: Mapping[str, str], N: int, d: int, stream: Stream
) -> Vectors:
    """Training samples and points of a trial."""
    source = {"texts": inputs.get("data"), "digits": "digits"}.get(cell["source"])
    return draw_vectors(
        source,
        N,
        d,
        cell["points"],
        stream,
        labels=cell["labels"],
        tokens=cell["tokens"],
        key=f"{cell['section']}.{cell['study']}",
    )


def attributes(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's own parameters and what is known of its activation; lists are columns already."""
    phi = activation(cell["activation"])
    kept = {
        key: value
        for key, value in cell.items()
        if value is not None and not isinstance(value, (list, dict)) and key != "section"
    }
    return kept | {"mean_slope": phi.mean_slope(), "parity": phi.parity()}
