"""One cell of a study of depth: every depth and temperature on the same texts and weights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from wordsens.data.samples import draw_samples
from wordsens.maps import FeatureMap, MapOptions, map_class, position_sets
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.sensitivity import chosen_effort, summarise
from wordsens.search.supremum import search

CELL_BYTES = 1 << 30  # what the searches of a map may hold at once, roughly
POSITION = 0  # the changed word, as in the paper's figures
NUMBERS = ("sup", "bound", "norm", "spread", "steps")
NAMES = ("dataset", "map", "d", "n", "heads", "head_dim")  # of what a cell draws


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Word sensitivity (4) of ``trials`` samples at every depth × temperature of the entry.

    Trial t's weights are those of one stream at every setting, layer by layer, so that settings are
    compared on equal draws.  Arrays by trial and setting (T, K): sup, bound, norm, spread, steps,
    start, seconds; by trial: sample.  The attributes ``depths`` and ``temperatures`` (K,) say
    which setting is which.
    """
    cls = map_class(cell["map"])
    n, d, trials = cell["n"], cell["d"], cell["trials"]
    dtype = getattr(torch, cell["precision"])
    names = {name: cell[name] for name in NAMES if cell.get(name) is not None}
    stream = Stream(cell["seed"], "depth", **names)
    key = f"depths.{cell['study']}"
    samples = draw_samples(inputs.get("data"), n, d, trials, stream, dtype=dtype, key=key)
    streams = [stream.child("trial", trial=t) for t in range(trials)]
    settings = list(itertools.product(cell.get("depth", [1]), cell["temperature"]))
    work = [depth for depth, _ in settings]
    found: list[dict[str, np.ndarray]] = []
    for (depth, temperature), share in zip(settings, work, strict=True):
        options = MapOptions.of({**cell, "depth": depth, "temperature": temperature}, cls.options)
        with stage(share / sum(work)):
            found.append(_measured(cls, samples.X.to(device), streams, options, cell))
    arrays = {name: np.stack([part[name] for part in found], 1) for name in found[0]}
    arrays["sample"] = np.asarray(samples.indices)
    own = {key: x for key, x in cell.items() if key not in ("depth", "temperature", "steps")}
    own |= {"depths": work, "temperatures": [float(temperature) for _, temperature in settings]}
    return arrays, own


def _measured(
    cls: type[FeatureMap],
    X: torch.Tensor,
    streams: Sequence[Stream],
    options: MapOptions,
    cell: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """All trials at one setting, as many together as memory allows; arrays (T,)."""
    trials, n, d = X.shape
    sets = position_sets([[POSITION]], n).to(X.device)
    effort = chosen_effort(cls.effort_for(n, d, options), cell.get("starts"), cell.get("steps"))
    held = cls.trial_bytes(n, d, options, effort=effort, sets=1, size=X.element_size())
    together = max(1, min(trials, CELL_BYTES // held)) if held else trials
    parts: list[dict[str, np.ndarray]] = []
    for first in range(0, trials, together):
        began = time.perf_counter()
        own = streams[first : first + together]
        with stage(len(own) / trials):
            view = cls.draw_view(X[first : first + together], sets, own, options)
            found = summarise([search(cls, view, sets, own, effort, n)], sets, single=False)
        part = {name: getattr(found, name).cpu().numpy() for name in NUMBERS}
        part["start"] = np.array(found.start, dtype=object)
        part["seconds"] = np.full(len(own), (time.perf_counter() - began) / len(own))
        parts.append(part)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
