"""Texts in colour: what each word can do to a model, window by window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import ENCODER, MODEL, TEXTS, Plain, Study
from wordsens.studies.checks import Checks

CLASSIFIER = "results/classifiers/{}.json"


class Explained(Study):
    kind, section, folder = "explanation", "explanations", "explanations"
    axes = {"text": int, "window": int}
    category = "Trained models"
    figures = {"explanation": "shows what each word of the texts does to every layer"}
    pages = {"pages": "results/pages/{}"}
    target = "explanations"
    minutes = 120

    def points(self) -> list[Plain]:
        texts = self.settings["texts"]
        count = len(texts) if isinstance(texts, list) else texts
        windows = range(self.settings["windows"])
        return [{"text": text, "window": window} for text in range(count) for window in windows]

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        """Of texts that stand in the entry, the cell has its own alone."""
        cell = super().cell(config, point)
        texts = cell.pop("texts")
        del cell["windows"]  # one more window leaves the others as they are
        own = {"own": texts[point["text"]]} if isinstance(texts, list) else {}
        return {**cell, **own}

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        entry = self.settings
        model = ENCODER.format(entry["encoder"]) if "encoder" in entry else None
        found = {"model": model or MODEL.format(entry["model"])}
        if "corpus" in entry:
            found["texts"] = TEXTS.format(entry["corpus"])
        if "classifier" in entry:
            found["classifier"] = CLASSIFIER.format(entry["classifier"])
        return found

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        return 6000

    def check(self, checks: Checks) -> None:
        key, entry = (self.section, self.name), self.settings
        if ("encoder" in entry) == ("model" in entry):
            checks.say((*key, "encoder"), "it needs either an encoder or a model")
        for name, section in (("encoder", "encoders"), ("model", "models")):
            if name in entry:
                checks.known((*key, name), entry[name], section)
        if isinstance(entry["texts"], list) == ("corpus" in entry):
            checks.say((*key, "texts"), "it needs either texts, or a corpus and how many of its")
        elif "corpus" in entry:
            checks.known((*key, "corpus"), entry["corpus"], "corpora")
        if "classifier" in entry and checks.known(
            (*key, "classifier"), entry["classifier"], "classifiers"
        ):
            other = checks.filled["classifiers"][entry["classifier"]]["encoder"]
            if entry.get("encoder") != other:
                checks.say(
                    (*key, "classifier"),
                    f"is {entry['classifier']}, of encoder {other}; allowed: a classifier of "
                    f"{entry.get('encoder', 'an encoder, which models have none of')}",
                )
