"""One cell of a sensitivity sweep: all its trials as one batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.data.samples import draw_samples
from wordsens.maps import MapOptions, map_class
from wordsens.progress import stage
from wordsens.search.auditing import audit, audited_trials
from wordsens.search.sensitivity import chosen_effort, chosen_sets, summarise
from wordsens.search.supremum import search
from wordsens.studies.sensitivity.draws import cell_stream

CELL_BYTES = 1 << 30  # what the searches of a map may hold at once, roughly


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Measure the word sensitivity (4) of ``trials`` samples with a fresh map each.

    ``cell`` holds the parameters that config.yaml gives a sweep and its point; ``data`` among the
    inputs is the embeddings file, absent for synthetic Gaussian samples.  Returns the per-trial
    arrays and the attributes of the cell file.  Raises ``UserError`` for samples that do not fit.
    """
    cls = map_class(cell["map"])
    n, d, words, trials = cell["n"], cell["d"], cell["words"], cell["trials"]
    dtype = getattr(torch, cell["precision"])
    stream = cell_stream(cell)
    samples = draw_samples(
        inputs.get("data"), n, d, trials, stream, dtype=dtype, key=f"sweeps.{cell['sweep']}"
    )
    sets = chosen_sets(cell["positions"], words, n, stream.child("positions"))
    options = MapOptions.of(cell, cls.options)
    effort = chosen_effort(cls.effort_for(n, d, options), cell.get("starts"), cell.get("steps"))

    held = cls.trial_bytes(
        n, d, options, effort=effort, sets=len(sets), size=torch.finfo(dtype).bits // 8
    )
    together = max(1, min(trials, CELL_BYTES // held)) if held else trials

    found, audits, seconds = [], [], []
    judged = audited_trials(trials, cell["audit"], stream)
    for first in range(0, trials, together):
        began = time.perf_counter()
        chosen = range(first, min(first + together, trials))
        streams = [stream.child("trial", trial=t) for t in chosen]
        X = samples.X[first : first + together].to(device)
        view = cls.draw_view(X, sets.to(device), streams, options)
        with stage(len(chosen) / trials):
            parts = search(cls, view, sets.to(device), streams, effort, n, cell["search"])
        found.append(summarise([parts], sets.to(device), single=False))
        if judged:
            again = [t - first for t in judged if t in chosen]
            sup = found[-1].sup
            asked = (cls, view, sets.to(device), streams, effort, n)
            audits.append(audit(*asked, found=sup, chosen=again))
        seconds += [(time.perf_counter() - began) / len(chosen)] * len(chosen)

    def gather(name: str) -> np.ndarray:
        return torch.cat([getattr(result, name) for result in found]).cpu().numpy()

    arrays: dict[str, Any] = {
        name: gather(name).astype(np.float64) for name in ("sup", "bound", "norm", "spread")
    }
    arrays |= {
        "position": gather("position"),
        "sample": np.asarray(samples.indices),
        "start": np.array([name for result in found for name in result.start], dtype=object),
        "steps": gather("steps"),
        "seconds": np.array(seconds),
    }
    for name in ("audited", "excess") if audits else ():
        arrays[name] = torch.cat([getattr(each, name) for each in audits]).cpu().numpy()
    if cell["positions"] != "first":
        arrays["sup_by_position"] = gather("by_position").astype(np.float64)
        arrays["positions"] = np.tile(sets[:, 0].cpu().numpy(), (trials, 1))
    attributes = {key: value for key, value in cell.items() if value is not None}
    attributes |= {"starts": effort.starts, "anneal": effort.anneal, "steps_allowed": effort.steps}
    attributes["halved_after"] = effort.halve
    theory = cls.limit(n, words=words, options=options)
    if theory is not None:
        attributes["theory"] = theory
    attributes.pop("steps", None)  # the array of that name says how many were taken
    return arrays, attributes
