"""First-block attention of sentences that differ in a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import ENCODER, Study
from wordsens.studies.checks import Checks


class Attention(Study):
    kind, section = "attention", "attention"
    category = "Trained models"
    figures = {"attention": "shows the scores of every sentence"}
    minutes = 30
    gpu = False

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        return {"encoder": ENCODER.format(self.settings["encoder"])}

    def check(self, checks: Checks) -> None:
        key = (self.section, self.name, "encoder")
        checks.known(key, self.settings["encoder"], "encoders")
