"""A classifier of a corpus' labels on an encoder's mean states, and how often it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import ENCODER, TEXTS, Plain, Study
from wordsens.studies.checks import Checks


class Classify(Study):
    kind, section = "classifier", "classifiers"
    category = "Trained models"
    pages = {"model": "results/classifiers/{}.json"}
    minutes = 120

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        labels = config.corpora[self.settings["corpus"]].settings.get("labels") or {}
        own = {sign: name for name, sign in labels.items()}
        found = [str(own.get(sign, sign)) for sign in (-1, 1)]
        return {**super().cell(config, point), "names": self.settings.get("names") or found}

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        return {
            "texts": TEXTS.format(self.settings["corpus"]),
            "encoder": ENCODER.format(self.settings["encoder"]),
        }

    def check(self, checks: Checks) -> None:
        key, entry = (self.section, self.name), self.settings
        checks.known((*key, "encoder"), entry["encoder"], "encoders")
        if checks.known((*key, "corpus"), entry["corpus"], "corpora"):
            corpus = checks.filled["corpora"][entry["corpus"]]
            if corpus.get("labelled", True) is False:
                checks.say(
                    (*key, "corpus"),
                    f"is {entry['corpus']}, whose texts have no labels; allowed: a labelled corpus",
                )
