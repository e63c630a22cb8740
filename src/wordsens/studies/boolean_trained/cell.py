"""One cell: transformers trained on one language, and their sensitivity profiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wordsens.boolean.groups import batches
from wordsens.boolean.languages import Language, language
from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.sampling import recogniser_sensitivities, sample_strings
from wordsens.boolean.tables import profile_counts, table_profile, truth_table
from wordsens.boolean.training import Examples, Settings, judge, train
from wordsens.progress import portion
from wordsens.randomness import Stream


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Train ``models`` transformers on each draw of the language (Appendix F.2).

    Models of one shape are one batch.  A training that is stopped goes on from its last checkpoint
    under results/checkpoints; these are removed when all models are trained.  Arrays have one row
    per model: ``counts`` K_0 … K_N and the unclassified, ``accuracy``, ``learnt``, and how it got
    there.
    """
    N, models = cell["N"], cell["models"]
    total = cell["draws"] * models
    names = {"language": cell["language"], "N": N}
    streams = [
        Stream(cell["seed"], "boolean language", **names, draw=d) for d in range(cell["draws"])
    ]
    spoken = [language(cell["language"], N, streams[model // models]) for model in range(total)]
    folder = Path("results/checkpoints/boolean_trained") / cell["study"] / cell["language"]
    rows: list[dict[str, Any]] = [{} for _ in range(total)]
    files = []
    for batch, (places, of, own) in enumerate(batches(cell, range(total), device)):
        files.append(folder / f"{batch}.safetensors")
        known = [spoken[place] for place in places]
        # The language is part of what a model's training draws, though not of its weights.
        own = [stream.child("training", **names) for stream in own]
        found = _trained(cell, of, known, own, files[-1])
        for row, place in enumerate(places):
            rows[place] = {name: value[row] for name, value in found.items()}
    for file in files:
        file.unlink(missing_ok=True)
    arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    arrays["draw"] = np.arange(total) // models
    arrays["target"] = np.array([_average(known) for known in spoken])
    shapes = ("depth", "heads", "head_size", "feedforward")
    attributes = {f"{k}_list" if k in shapes else k: v for k, v in cell.items()}
    attributes["learnt_from"] = attributes.pop("learnt")
    return arrays, attributes


def _trained(
    cell: Mapping[str, Any],
    of: Recogniser,
    spoken: list[Language],
    streams: list[Stream],
    checkpoint: Path,
) -> dict[str, np.ndarray]:
    N = cell["N"]

    def examples(what: str, count: int) -> Examples:
        drawn = [sample_strings(stream.child(what), count, N) for stream in streams]
        labels = [known.accepts(bits) for known, bits in zip(spoken, drawn, strict=True)]
        return Examples(torch.stack(drawn), torch.stack(labels))

    training = examples("training", cell["examples"])
    memorised = cell["language"] == "random"
    validation = training if memorised else examples("validation", cell["judged"])
    low, high = (math.log(rate) for rate in cell["rate"])
    uniform = [stream.child("rate").generator().random() for stream in streams]
    rates = torch.tensor([math.exp(low + u * (high - low)) for u in uniform])
    sizes = streams[0].child("batch").generator()
    settings = Settings(
        batch=int(sizes.integers(cell["batch"][0], cell["batch"][1], endpoint=True)),
        epochs=cell["epochs"],
        enough=cell["enough"],
    )
    with portion(0.9):
        done = train(of, training, validation, rates, streams, settings, checkpoint=checkpoint)
    test = training if memorised else examples("test", cell["judged"])
    _, accuracy = judge(done.recogniser, test)
    if cell.get("strings"):
        strings = Stream(cell["seed"], "boolean strings", N=N, dataset=0)
        bits = sample_strings(strings, cell["strings"], N)
        counts = profile_counts(recogniser_sensitivities(done.recogniser, bits), N)
    else:
        counts = table_profile(truth_table(done.recogniser, N))
    sizes_of = ("depth", "width", "heads", "feedforward")
    return {
        "counts": counts.numpy(),
        "accuracy": accuracy.numpy(),
        "learnt": accuracy.numpy() >= cell["learnt"],
        "loss": done.loss.numpy(),
        "epochs_trained": done.epochs.numpy(),
        "first_rate": rates.double().numpy(),
        "batch_size": np.full(of.models, settings.batch),
    } | {name: np.full(of.models, getattr(of.shape, name)) for name in sizes_of}


def _average(known: Language) -> float:
    """The language's own average sensitivity; that of a random function in the mean."""
    if known.counts is None:
        return known.N / 2
    return sum(s * count for s, count in enumerate(known.counts)) / 2**known.N
