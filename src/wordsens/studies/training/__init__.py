"""Small transformers trained on texts with their word sensitivity in the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, VOCABULARY, Study
from wordsens.studies.checks import Checks


class Training(Study):
    kind, section, folder = "training", "trainings", "trainings"
    axes = {"weight": float}
    category, target = "Control", "control"
    figures = {"training": "plots accuracy against the sensitivity that training left"}
    minutes = 120

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        encoder = config.datasets[self.dataset].settings["encoder"]
        return {"data": EMBEDDINGS.format(self.dataset), "vocabulary": VOCABULARY.format(encoder)}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        return 2500 + 16 * self.settings["trials"] * self.settings["width"] ** 2 // 10**4

    def check(self, checks: Checks) -> None:
        key, study = (self.section, self.name), self.settings
        if checks.texts(key, self.dataset):
            checks.lengths(key, {**study, "n": [study["n"]]})
        if study["width"] % study["heads"]:
            checks.say((*key, "heads"), f"is {study['heads']}, which must divide {study['width']}")
