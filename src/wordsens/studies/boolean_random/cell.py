"""One cell: sensitivity profiles, blow-up and influence of random transformers at one N."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.boolean.blowup import blowup, influence
from wordsens.boolean.groups import batches
from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.sampling import recogniser_sensitivities, sample_strings
from wordsens.boolean.tables import profile_counts, table_profile, truth_table
from wordsens.progress import portion
from wordsens.randomness import Stream


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Profile ``models`` random transformers for each of ``datasets`` samples of strings.

    Arrays have one row per data set and model: ``counts`` K_0 … K_N and the unclassified, the
    shape, log10 of the blow-up β^L (18), and the ``influence`` (6) of every position on the eos.
    """
    N, models = cell["N"], cell["models"]
    found = []
    for dataset in range(cell["datasets"]):
        strings = Stream(cell["seed"], "boolean strings", N=N, dataset=dataset)
        bits = sample_strings(strings, cell["strings"], N) if cell.get("strings") else None
        measured = sample_strings(strings.child("measured"), cell["measured"], N)
        rows: list[dict[str, Any]] = [{} for _ in range(models)]
        with portion(1 / cell["datasets"]):
            numbers = range(dataset * models, (dataset + 1) * models)
            for places, of, _ in batches(cell, numbers, device):
                values = _values(of, N, bits, measured)
                for row, place in enumerate(places):
                    own = {name: value[row] for name, value in values.items()}
                    rows[place] = own | {"dataset": dataset}
        found += rows
    arrays = {name: np.stack([row[name] for row in found]) for name in found[0]}
    shapes = ("depth", "heads", "head_size", "feedforward")
    attributes = {f"{k}_list" if k in shapes else k: v for k, v in cell.items()}
    return arrays, attributes


def _values(
    of: Recogniser, N: int, bits: torch.Tensor | None, measured: torch.Tensor
) -> dict[str, np.ndarray]:
    if bits is None:
        counts = table_profile(truth_table(of, N))
    else:
        counts = profile_counts(recogniser_sensitivities(of, bits), N)
    values = {"counts": counts.numpy()}
    sizes = ("depth", "width", "heads", "feedforward")
    values |= {name: np.full(of.models, getattr(of.shape, name)) for name in sizes}
    if len(measured):
        beta = blowup(of, measured)[1][..., -1].double().log10()
        distance = influence(of, measured).distance
        values["log10_beta"] = beta.median(-1).values.cpu().numpy()
        values["influence"] = distance.double().mean(1).cpu().numpy()
    return values
