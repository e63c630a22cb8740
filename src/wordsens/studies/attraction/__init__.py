"""A Δ that attracts the attention of an encoder's first block, against noise of its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, ENCODER, Study
from wordsens.studies.checks import Checks


class Attraction(Study):
    kind, section = "attraction", "attraction"
    category = "Trained models"
    figures = {"attraction": "shows what a Δ that attracts attention does"}

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        encoder = {"encoder": ENCODER.format(self.settings["encoder"])}
        data = {"data": EMBEDDINGS.format(self.dataset)} if "dataset" in self.settings else {}
        return encoder | data

    def check(self, checks: Checks) -> None:
        key, study = (self.section, self.name), self.settings
        checks.known((*key, "encoder"), study["encoder"], "encoders")
        if ("text" in study) == ("dataset" in study):
            checks.say((*key, "text"), "it needs either a text or a dataset")
        elif "dataset" in study and checks.texts(key, self.dataset):
            encoder = checks.filled["datasets"][self.dataset]["encoder"]
            if encoder != study["encoder"]:
                checks.say(
                    (*key, "dataset"),
                    f"is {self.dataset!r}, of encoder {encoder}; allowed: a dataset of "
                    f"{study['encoder']}",
                )
