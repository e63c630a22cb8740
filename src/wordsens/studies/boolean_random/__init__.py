"""Sensitivity profiles of random transformers (Figures 3 and 4), and their growth with N."""

from __future__ import annotations

from wordsens.studies.boolean import BooleanStudy
from wordsens.studies.checks import Checks


class BooleanRandom(BooleanStudy):
    kind, section, folder = "boolean_random", "boolean_random", "boolean_random"
    axes = {"init": str, "N": int, "epsilon": float}
    figures = {
        "boolean_spectra": "plots spectra and average sensitivities of random transformers",
        "boolean_zeros": "plots strings of sensitivity 0 and the influence of a flip against N",
    }
    pages = {"influence": "results/tables/{}_influence.csv"}
    minutes = 240

    def check(self, checks: Checks) -> None:
        super().check(checks)
        if self.settings.get("strings") is None and self.settings["datasets"] > 1:
            checks.say(
                (self.section, self.name, "datasets"),
                f"is {self.settings['datasets']}, but an exact profile has all strings; allowed: "
                "1, or give strings",
            )
