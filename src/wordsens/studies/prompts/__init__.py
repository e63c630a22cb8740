"""Prompts that differ in a word, put to a causal language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import MODEL, Study
from wordsens.studies.checks import Checks


class Prompts(Study):
    kind, section = "prompts", "prompts"
    category = "Trained models"
    figures = {"prompts": "shows the answers as a table"}
    minutes = 120

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        return {"model": MODEL.format(self.settings["model"])}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        return 8000

    def check(self, checks: Checks) -> None:
        checks.known((self.section, self.name, "model"), self.settings["model"], "models")
