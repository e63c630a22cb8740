"""One cell of a vocabulary study: what any word of the vocabulary does in a word's place.

A trial has the sample and the map of the sensitivity sweep with the same seed, dataset, map, d and
n.  It evaluates every substitution at the chosen positions and, to compare, searches the ball of
(4) at the first of them.  With ``vectors: static`` the sample's tokens are themselves rows of the
vocabulary; with ``layer0`` tokens and candidates are layer-0 vectors at their positions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.data.embeddings import open_embeddings
from wordsens.data.samples import draw_samples
from wordsens.data.vocabulary import Vocabulary, open_vocabulary
from wordsens.maps import FeatureMap, MapOptions, map_class
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.auditing import audit, audited_trials
from wordsens.search.sensitivity import chosen_sets, summarise
from wordsens.search.supremum import search
from wordsens.search.vocabulary import (
    Substitutions,
    VocabularySensitivity,
    vocabulary_sensitivity,
)
from wordsens.studies.sensitivity.draws import cell_stream
from wordsens.studies.vocabulary.lists import LISTS

AROUND = 4  # word pieces of context shown on either side


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Measure ``trials`` samples; returns the per-trial arrays and the attributes of the cell file.

    ``cell`` holds the parameters that config.yaml gives a vocabulary study and its point; among
    the inputs ``data`` is the embeddings file and ``vocabulary`` the encoder's. Arrays
    (trials,): sup and sup_in_ball over all positions, first and first_in_ball at the first
    position, continuous and bound the supremum over the ball there as ``word_sensitivity``
    finds it, NaN without ``compare``; audited and excess where these searches are audited; the
    lists of substitutions (trials, top) as top_… and top_in_ball_…, padded with the word "".
    """
    key = f"vocabulary.{cell['study']}"
    n, d, trials = cell["n"], cell["d"], cell["trials"]
    dtype = getattr(torch, cell["precision"])
    stream = cell_stream(cell, depth=1, words=1)
    embeddings = open_embeddings(inputs["data"])
    known = open_vocabulary(inputs["vocabulary"])
    samples = draw_samples(embeddings, n, d, trials, stream, dtype=dtype, key=key)
    candidates = known.candidates(cell["candidates"], cell["special"], embeddings, key)
    positions = chosen_sets(cell["positions"], 1, n, stream.child("positions"))[:, 0]
    static = cell["vectors"] == "static"
    fixed = known.static(candidates, d, dtype) if static else None

    def words(position: int) -> torch.Tensor:
        return known.at(position, candidates, d, dtype)

    rows = []
    judged = audited_trials(trials, cell["audit"], stream) if cell["compare"] else []
    for trial, index in enumerate(samples.indices):
        began = time.perf_counter()
        ids = embeddings.token_ids[index, :n]
        X = known.static(ids, d, dtype) if static else samples.X[trial]
        X = X.to(device)
        own = stream.child("trial", trial=trial)
        layer = _draw(cell, X, own)
        with stage(1 / trials):
            found = vocabulary_sensitivity(
                layer, X, words if fixed is None else fixed, positions.tolist(), top=cell["top"]
            )
        row = _summary(found)
        if cell["compare"]:
            row |= _ball(layer, X, positions[:1].to(X.device), own, [0] if trial in judged else [])
            if not judged:
                del row["audited"], row["excess"]
        for name in LISTS:
            row |= _listed(name, getattr(found, name), cell["top"], candidates, ids, known)
        rows.append({**row, "seconds": time.perf_counter() - began})
    arrays = {name: _column([row[name] for row in rows]) for name in rows[0]}
    arrays |= {
        "sample": np.asarray(samples.indices),
        "positions_tried": np.tile(positions.numpy(), (trials, 1)),
    }
    attributes = {name: value for name, value in cell.items() if value is not None}
    if not isinstance(cell["candidates"], str):
        attributes["candidates"] = "listed"
    return arrays, {**attributes, "candidate_count": len(candidates)}


def _draw(cell: Mapping[str, Any], X: torch.Tensor, stream: Stream) -> FeatureMap:
    """The trial's map, as a sweep draws it."""
    cls, (n, d) = map_class(cell["map"]), X.shape
    options = MapOptions.of(cell, cls.options)
    drawn = cls.draw((n, d), [stream], options, dtype=X.dtype, device=X.device)
    drawn.batch = None  # one draw, one sample
    return drawn


def _ball(
    layer: FeatureMap, X: torch.Tensor, position: torch.Tensor, stream: Stream, judged: list[int]
) -> dict[str, Any]:
    """The search over the ball at one position, from the starts that a sweep would draw."""
    sets = position[:, None]
    n, d = X.shape
    effort = layer.effort_for(n, d, layer.chosen)
    asked = (layer, layer.view(X[None], sets), sets, [stream], effort, n)
    found = summarise([search(*asked)], sets, single=False)
    audited = audit(*asked, found=found.sup, chosen=judged)
    names = {"continuous": found.sup, "bound": found.bound}
    names |= {"audited": audited.audited, "excess": audited.excess}
    return {name: float(value) for name, value in names.items()}


def _summary(found: VocabularySensitivity) -> dict[str, Any]:
    return {
        "sup": found.sup,
        "sup_in_ball": found.sup_in_ball,
        "first": float(found.best.change[0]),
        "first_in_ball": float(found.best_in_ball.change[0]),
        "norm": found.norm,
        "continuous": float("nan"),
        "bound": float("nan"),
        "best_by_position": found.best.change.double().cpu().numpy(),
        "best_in_ball_by_position": found.best_in_ball.change.double().cpu().numpy(),
    }


def _listed(
    name: str,
    found: Substitutions,
    size: int,
    candidates: np.ndarray,
    ids: np.ndarray,
    known: Vocabulary,
) -> dict[str, Any]:
    """One list of substitutions, (size,) each, with the words themselves."""
    missing = size - len(found)

    def padded(values: torch.Tensor) -> np.ndarray:
        return np.pad(values.double().cpu().numpy(), (0, missing), constant_values=np.nan)

    at = found.position.cpu().numpy()
    new = candidates[found.word.cpu().numpy()]
    blank = [""] * missing
    return {
        f"{name}_change": padded(found.change),
        f"{name}_distance": padded(found.distance),
        f"{name}_position": np.pad(at, (0, missing), constant_values=-1),
        f"{name}_word": [known.shown[ids[i]] for i in at] + blank,
        f"{name}_new": [known.shown[v] for v in new] + blank,
        f"{name}_context": [context(known, ids, i) for i in at] + blank,
    }


def context(known: Vocabulary, ids: np.ndarray, position: int) -> str:
    """The words around a position, which stands in [[ ]]."""
    before = known.text(ids[max(0, position - AROUND) : position])
    after = known.text(ids[position + 1 : position + 1 + AROUND])
    return f"{before} [[{known.shown[ids[position]]}]] {after}".strip()


def _column(values: list[Any]) -> np.ndarray:
    """One value per trial, strings as objects."""
    strings = isinstance(values[0], list)
    return np.array(values, dtype=object) if strings else np.asarray(values)
