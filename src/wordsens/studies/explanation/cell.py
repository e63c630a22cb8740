"""One cell of an explanations entry: one window of one text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from wordsens.data.corpora import read_texts
from wordsens.data.encoders import Encoder
from wordsens.encoders.explainer import Explainer
from wordsens.encoders.stored import compact, to_json
from wordsens.encoders.windows import room, windows

NOTED = ("study", "encoder", "model", "corpus", "classifier", "text", "window", "effort", "seed")


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The explanation as JSON, one string; "" where the text, or the corpus, has no such window."""
    named = cell.get("encoder") or cell["model"]
    section = "encoders" if "encoder" in cell else "models"
    encoder = Encoder.open(inputs["model"], f"{section}.{named}")
    ids = _ids(encoder, cell, inputs)
    parts = windows(encoder.pieces(ids), min(cell["tokens"], room(encoder))) if ids else []
    known = {name: cell[name] for name in NOTED if cell.get(name) is not None}
    attributes = known | {
        "tokens": len(ids),
        "windows": len(parts),
        "window_tokens": cell["tokens"],
    }
    if cell["window"] >= len(parts):
        return {"explanation": np.array([""], dtype=object)}, attributes
    explainer = Explainer(
        encoder,
        classifier=inputs.get("classifier"),
        effort=cell["effort"],
        delta=cell["delta"],
        candidates=cell["candidates"],
        top=cell["top"],
        seed=cell["seed"],
        device=device,
        name=named,
    )
    part = parts[cell["window"]]
    found = explainer.explain(ids, part, range(part.stop - part.start), cell["text"])
    return {"explanation": np.array([to_json(compact(found))], dtype=object)}, attributes


def _ids(encoder: Encoder, cell: Mapping[str, Any], inputs: Mapping[str, str]) -> list[int]:
    """The token ids of the cell's text; [] where the corpus has fewer texts."""
    if "own" in cell:
        return encoder.tokenize([cell["own"]])[0]
    found = list(islice(read_texts(inputs["texts"]), cell["text"], cell["text"] + 1))
    return encoder.tokenize([found[0]["text"]])[0] if found else []
