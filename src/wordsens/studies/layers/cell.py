"""One cell of a layers entry: word sensitivity of every layer of an encoder at one n."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from wordsens.data.encoders import Encoder
from wordsens.data.samples import draw_tokens
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.sensitivity import LayerSensitivity, chosen_layers, search_layers
from wordsens.errors import UserError
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.auditing import STARTS, STEPS, Audit, audited_trials, compared
from wordsens.search.sensitivity import chosen_sets


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Search ``trials`` texts of n tokens, special tokens included; see ``layer_sensitivity``.

    Pretrained weights are shared by the trials; random ones are drawn for each.  Returns the
    arrays, one row per trial, and the attributes of the cell file.
    """
    key = f"layers.{cell['study']}"
    n, trials = cell["n"], cell["trials"]
    encoder = Encoder.open(inputs["encoder"], f"encoders.{cell['encoder']}")
    special = encoder.special_tokens() if cell["special_tokens"] else ([], [])
    words = n - len(special[0]) - len(special[1])
    if words < 1:
        raise UserError(
            f"{key}.n: is {n}, all of it special tokens; allowed: {n - words + 1} or more"
        )
    if n > encoder.max_tokens:
        raise UserError(
            f"{key}.n: is {n}, but encoder {cell['encoder']} has positions for "
            f"{encoder.max_tokens} tokens; allowed: at most {encoder.max_tokens}"
        )
    names = {name: cell[name] for name in ("dataset", "encoder", "weights", "n")}
    stream = Stream(cell["seed"], "layers", **names)
    # The same texts whatever the weights, so that the two are compared on one sample.
    texts = Stream(cell["seed"], "layers", dataset=cell["dataset"], n=n)
    ids, indices = draw_tokens(inputs["data"], n, trials, texts, special=n - words, key=key)
    layers = chosen_layers(cell["layers"], encoder.layers)
    sets = chosen_sets(cell["positions"], 1, words, texts.child("positions"))
    tokens = torch.from_numpy(ids.astype(np.int64))
    random = cell["weights"] == "random"
    groups = [[trial] for trial in range(trials)] if random else [list(range(trials))]
    found: list[LayerSensitivity] = []
    audits: list[Audit] = []
    judged = audited_trials(trials, cell["audit"], stream)
    seconds: list[float] = []
    for group in groups:
        began = time.perf_counter()
        model = LayeredEncoder.load(
            encoder,
            cell["weights"],
            stream=stream.child("weights", trial=group[0]),
            perturb=cell["perturb"],
            device=device,
        )
        streams = [stream.child("trial", trial=trial) for trial in group]
        layered = partial(
            search_layers, model, sets=sets, layers=layers, special_tokens=cell["special_tokens"]
        )
        with stage(len(group) / trials):
            effort = {"starts": cell["starts"], "steps": cell["steps"]}
            found.append(layered(tokens[group], streams=streams, **effort))
        if judged:
            chosen = [i for i, trial in enumerate(group) if trial in judged]
            audits.append(_audit(layered, tokens[group], streams, found[-1].sup, cell, chosen))
        seconds += [(time.perf_counter() - began) / len(group)] * len(group)

    def gather(name: str) -> np.ndarray:
        return torch.cat([getattr(result, name) for result in found]).numpy()

    arrays: dict[str, Any] = {
        name: gather(name).astype(np.float64) for name in ("sup", "norm", "spread")
    }
    arrays |= {name: gather(name) for name in ("position", "steps")}
    arrays["start"] = np.array([row for result in found for row in result.start], dtype=object)
    arrays["sup_by_position"] = gather("by_position").astype(np.float64)
    arrays["positions"] = np.tile(sets[:, 0].numpy(), (trials, 1))
    arrays |= {"sample": indices, "seconds": np.array(seconds)}
    for name in ("audited", "excess") if audits else ():
        arrays[name] = torch.cat([getattr(each, name) for each in audits]).numpy()
    attributes = {key: value for key, value in cell.items() if key not in ("steps", "layers")}
    attributes |= {"steps_allowed": cell["steps"], "depth": encoder.layers, "searched": layers}
    return arrays, attributes


def _audit(
    search: Callable[..., LayerSensitivity],
    tokens: torch.Tensor,
    streams: Sequence[Stream],
    found: torch.Tensor,
    cell: Mapping[str, Any],
    chosen: Sequence[int],
) -> Audit:
    """The chosen trials of a group, searched again with ten times the effort."""

    def again(some: list[int]) -> torch.Tensor:
        fresh = [streams[i].child("audit") for i in some]
        effort = {"starts": STARTS * cell["starts"], "steps": STEPS * cell["steps"]}
        return search(tokens[some], streams=fresh, **effort).sup

    return compared(found, chosen, again)
