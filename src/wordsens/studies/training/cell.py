"""One cell: classifiers trained at one weight of word sensitivity, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from wordsens.data.antonyms import pairs_of
from wordsens.data.embeddings import open_embeddings
from wordsens.data.vocabulary import open_vocabulary
from wordsens.errors import UserError
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.studies.training.learning import measured, right, train
from wordsens.studies.training.model import Classifiers

NAMES = ("dataset", "n", "d", "width", "depth", "heads", "mlp")  # of what a cell draws
LEAST = 10  # texts with a decisive word, to say anything of them


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Train ``trials`` models with ``weight`` · S in their losses.

    Texts, initial weights and orders are the same whatever the weight.  A text is *decided* by a
    word where of all words of ``data.antonyms`` it holds this one alone, and the word says what
    the label says; with the word's opposite in its place it is taken to have the other label.
    Arrays by model (T,): accuracy and accuracy_trained of all texts judged and trained on;
    accuracy_decided of texts decided by a word, accuracy_changed of these with the opposite,
    flipped, the share of verdicts that changed; decided, their number; by model and text
    (T, K): sup_before and sup, the word sensitivity of texts judged.
    """
    key = f"trainings.{cell['study']}"
    data, vocabulary = open_embeddings(inputs["data"]), open_vocabulary(inputs["vocabulary"])
    n, trials = cell["n"], cell["trials"]
    usable = np.flatnonzero(data.usable >= n)
    tokens, labels = data.token_ids[usable, :n].astype(np.int64), data.labels[usable]
    N, K = cell["examples"], cell["measured"]
    if len(usable) < N + K + LEAST:
        raise UserError(
            f"{key}.examples: is {N}, but {data.path} has {len(usable)} samples of {n} tokens; "
            f"allowed: at most {max(1, len(usable) - K - LEAST)}, to leave some to judge"
        )
    names = {name: cell[name] for name in NAMES}
    stream = Stream(cell["seed"], "training", **names)
    streams = [stream.child("trial", trial=t) for t in range(trials)]
    orders = np.stack([s.child("texts").generator().permutation(len(usable)) for s in streams])
    ids, y = torch.from_numpy(tokens[orders]), torch.from_numpy(labels[orders]).float()
    vectors = vocabulary.static(np.arange(len(vocabulary)), cell["d"], torch.float32)
    models = Classifiers.draw(cell, streams)
    judged, own = ids[:, N:], y[:, N:]
    searching = [s.child("measured") for s in streams]
    with stage(0.1):
        before = measured(models, judged[:, :K], vectors, searching)
    with stage(0.8):
        train(models, ids[:, :N], y[:, :N], vectors, streams, cell)
    with stage(0.1):
        after = measured(models, judged[:, :K], vectors, searching)
    models = models.detached()
    arrays: dict[str, Any] = {
        "accuracy": right(models, judged, own, vectors).double().mean(1),
        "accuracy_trained": right(models, ids[:, :N], y[:, :N], vectors).double().mean(1),
        "sup_before": before.double(),
        "sup": after.double(),
    }
    pairs = pairs_of(vocabulary.pieces)
    rows = [_decided(models.only(t), judged[t], own[t], vectors, pairs) for t in range(trials)]
    if min(row["decided"] for row in rows) < LEAST:
        raise UserError(
            f"{key}.dataset: {cell['dataset']} has fewer than {LEAST} texts to judge that one word "
            "decides; allowed: a larger dataset of judgements in English, or fewer examples"
        )
    arrays |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
    attributes = {name: value for name, value in cell.items() if name != "measured"}
    return {name: np.asarray(array) for name, array in arrays.items()}, attributes


def _decided(
    models: Classifiers,
    ids: torch.Tensor,
    y: torch.Tensor,
    vectors: torch.Tensor,
    pairs: Mapping[int, int],
) -> dict[str, float]:
    """One model on the texts ids (K, n) that a word decides, and on their opposites."""
    opposite, says = torch.arange(len(vectors)), torch.zeros(len(vectors))
    for good, bad in pairs.items():
        opposite[good], opposite[bad] = bad, good
        says[good], says[bad] = 1, -1
    found = says[ids] != 0
    alone = found.sum(1) == 1
    decided = alone & (says[ids].sum(1) == y)
    texts, own = ids[decided], y[decided]
    changed = torch.where(found[decided], opposite[texts], texts)
    if not len(texts):
        return dict.fromkeys(("decided", "accuracy_decided", "accuracy_changed", "flipped"), 0)
    plain = right(models, texts[None], own[None], vectors)[0]
    moved = right(models, changed[None], -own[None], vectors)[0]
    return {
        "decided": len(texts),
        "accuracy_decided": plain.double().mean().item(),
        "accuracy_changed": moved.double().mean().item(),
        "flipped": (plain == moved).double().mean().item(),
    }
