"""A classifier, and how often it is right as a tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from wordsens.data.corpora import read_texts
from wordsens.data.encoders import Encoder
from wordsens.encoders.classifier import train_classifier
from wordsens.progress import track


def tables(cell: Mapping[str, Any], inputs: Mapping[str, str], device: str) -> dict[str, Any]:
    """The shares of windows that are classified right, of those trained on and held out."""
    encoder = Encoder.open(inputs["encoder"], f"encoders.{cell['encoder']}")
    texts = list(read_texts(inputs["texts"]))
    names = dict(zip((-1, 1), cell["names"], strict=True))
    with track(f"classifier {cell['study']}", 1, "encoder"):
        found = train_classifier(
            encoder,
            [text["text"] for text in texts],
            [names[text["label"]] for text in texts],
            tokens=cell["tokens"],
            held_out=cell["held_out"],
            most=cell["windows"],
            seed=cell["seed"],
            device=device,
        )
    shares = {"training": found.training_accuracy, "held out": found.accuracy}
    counts = {"training": found.trained, "held out": found.held_out}
    rows = [{"texts": of, "windows": counts[of], "accuracy": shares[of]} for of in shares]
    first = {key: cell[key] for key in ("study", "encoder", "corpus", "tokens")}
    return {"table": pd.DataFrame(rows).assign(**first), "model": found.to_json()}
