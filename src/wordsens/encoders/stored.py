"""An explanation as JSON: what its page and its tables show, and no more."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np

from wordsens.encoders.explanation import Explanation

FLIPS = 50  # words kept that change the verdict, of each position, the clearest


def compact(found: Explanation) -> Explanation:
    """The same with the ``top`` words of every target and the clearest flips alone."""
    changes = [found.changes(target) for target in found.targets]
    kept, flipped = [], 0
    for at, part in enumerate(found.replaced):
        chosen = {int(i) for each in changes for i in _largest(each[at], found.top)}
        if found.logits is not None:
            flips = np.flatnonzero(part["verdict"] != int(found.logits.argmax()))
            flipped += len(flips)
            lead = part["new_after"][flips] - part["old_after"][flips]
            chosen |= {int(i) for i in flips[_largest(lead, FLIPS)]}
        rows = np.array(sorted(chosen), dtype=int)
        kept.append({name: values[rows] for name, values in part.items()})
    words = {int(word) for part in kept for word in part["word"]}
    named = {word: name for word, name in found.named.items() if word in words}
    return _labelled(replace(found, replaced=kept, named=named, flipped=flipped))


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-values, kind="stable")[:count]


def _labelled(found: Explanation) -> Explanation:
    """Of a vocabulary of labels, those that are used."""
    if found.kind != "next_token" or found.logits is None:
        return found
    used = {int(found.logits.argmax())}
    used |= {int(i) for part in found.replaced for i in part["verdict"]}
    order = sorted(used)
    place = {label: number for number, label in enumerate(order)}
    parts = [
        part | {"verdict": np.array([place[int(i)] for i in part["verdict"]], dtype=int)}
        for part in found.replaced
    ]
    labels = [found.labels[i] for i in order]
    return replace(found, replaced=parts, labels=labels, logits=found.logits[order])


def to_json(found: Explanation) -> str:
    """The explanation as text; numbers keep all their digits."""
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    values["named"] = list(map(list, found.named.items()))  # keys of JSON are strings
    return json.dumps(values, default=_plain, ensure_ascii=False)


def from_json(text: str) -> Explanation:
    """What ``to_json`` wrote."""
    values: dict[str, Any] = json.loads(text)
    values["named"] = {int(word): name for word, name in values["named"]}
    values["sup"] = {name: np.array(found) for name, found in values["sup"].items()}
    values["logits"] = None if values["logits"] is None else np.array(values["logits"])
    depth = values["depth"]
    values["replaced"] = [
        {
            name: np.array(each, dtype=int if name in ("word", "verdict") else float).reshape(
                (-1, depth + 1) if name == "change" else -1
            )
            for name, each in part.items()
        }
        for part in values["replaced"]
    ]
    return Explanation(**values)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
