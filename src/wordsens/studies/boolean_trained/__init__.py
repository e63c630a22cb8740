"""Sensitivity profiles of transformers trained on languages (Figures 3 right and 5 to 7)."""

from __future__ import annotations

from wordsens.boolean.names import check_language
from wordsens.errors import UserError
from wordsens.studies.boolean import BooleanStudy
from wordsens.studies.checks import Checks


class BooleanTrained(BooleanStudy):
    kind, section, folder = "boolean_trained", "boolean_trained", "boolean_trained"
    axes = {"language": str}
    figures = {"boolean_trained": "plots spectra and average sensitivities of trained transformers"}
    minutes = 720

    def check(self, checks: Checks) -> None:
        super().check(checks)
        for name in self.settings["language"]:
            try:
                check_language(name, self.settings["N"])
            except UserError as error:
                checks.say(
                    (self.section, self.name, "language"), str(error).removeprefix("language: ")
                )
        for name in ("batch", "rate"):
            low, high = self.settings[name]
            if low > high:
                checks.say((self.section, self.name, name), f"is [{low}, {high}]; allowed: rising")
