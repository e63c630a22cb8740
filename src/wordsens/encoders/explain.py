"""Which word of a text matters to a model, and which single word changes its answer.

For every word of the text two questions are asked.  Any Δ: how far can a layer, or the output,
be moved by ‖Δ‖ ≤ ‖x_i‖, equation (4), searched by gradient.  Real words: what do the words of the
vocabulary do in its place; every change is that of the model on the changed text.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wordsens.encoders.classifier import Classifier
from wordsens.encoders.explainer import Explainer
from wordsens.encoders.explanation import Explanation
from wordsens.encoders.explanations import Explanations
from wordsens.encoders.layered import Measurable
from wordsens.errors import UserError
from wordsens.progress import stage, tracked
from wordsens.randomness import Stream
from wordsens.search.sensitivity import chosen_sets


def explain(
    model: Measurable,
    text: str | Sequence[int] | Sequence[str],
    *,
    tokenizer: Any = None,
    classifier: Classifier | str | Path | None = None,
    positions: str | Sequence[int] = "all",
    tokens: int | None = None,
    effort: str = "page",
    delta: bool = True,
    candidates: str | Sequence[str | int] = "shortlist",
    top: int = 5,
    seed: int = 0,
    device: str = "cpu",
) -> Explanation | Explanations:
    """What each word of a text can do to the layers and to the output of a model.

    ``model`` is a path, a hub name with a pinned commit (owner/name@…), an ``Encoder``, or a loaded
    model of transformers with its ``tokenizer``; a sequence classifier's output is its class
    logits, a causal model's the distribution of the next token, and any other model, a regression
    among them, has layers only, or the logits of a ``classifier`` on its states
    (``train_classifier``).

    A list of texts, and a text longer than the model's positions or than ``tokens``, gives
    ``Explanations``, one per window of a text.  ``positions`` counts each text's own tokens.
    ``candidates`` are "shortlist" (chosen at random and by gradient), "all" the words of the
    vocabulary, or a list of words or token ids, all of which run.  ``effort`` "quick" searches
    less than "page"; ``delta=False`` leaves the search of the ball out.  The ``top`` replacements
    of each word are kept for every layer and the output.

    Raises UserError for an empty text, for words that are not in the vocabulary, and where memory
    is too small for one text.
    """
    explainer = Explainer(
        model,
        tokenizer=tokenizer,
        classifier=classifier,
        effort=effort,
        delta=delta,
        candidates=candidates,
        top=top,
        seed=seed,
        device=device,
    )
    texts = _texts(text)
    planned = []
    for number, each in enumerate(texts):
        ids = explainer.tokens(each)
        parts = explainer.windows(ids, tokens)
        if len(parts) > 1 and (tokens is None or tokens > explainer.room):
            warnings.warn(
                f"{explainer.encoder.key}: text {number + 1} has {len(ids)} tokens and there is "
                f"room for {explainer.room}; it is cut into {len(parts)} windows",
                stacklevel=2,
            )
        wanted = _rows(positions, len(ids), seed)
        for part in parts:
            rows = [row - part.start for row in wanted if part.start <= row < part.stop]
            if rows:
                planned.append((ids, part, rows, number))
    found = []
    # A window's cost grows with its positions times its length.
    costs = [len(rows) * (part.stop - part.start) for _, part, rows, _ in planned]
    with tracked("explain", sum(len(rows) for _, _, rows, _ in planned), "words"):
        for plan, cost in zip(planned, costs, strict=True):
            with stage(cost / sum(costs)):
                found.append(explainer.explain(*plan))
    return found[0] if len(found) == 1 and len(texts) == 1 else Explanations(tuple(found))


def _texts(text: Any) -> list[str | Sequence[int]]:
    """One text, its token ids, or several texts."""
    if isinstance(text, str):
        return [text]
    if not isinstance(text, Iterable):
        raise UserError(f"a {type(text).__name__} is no text; allowed: a text, token ids, texts")
    listed = list(text)
    if any(isinstance(each, str) for each in listed):
        return listed
    return [listed]


def _rows(positions: str | Sequence[int], n: int, seed: int) -> list[int]:
    rows: list[int] = chosen_sets(positions, 1, n, Stream(seed, "positions"))[:, 0].tolist()
    return sorted(rows)
