"""Input sensitivity of random and tangent features, against parameters and samples."""

from __future__ import annotations

from wordsens.studies.checks import Checks
from wordsens.studies.vectors import VectorStudy


class Robustness(VectorStudy):
    kind, section, folder = "robustness", "robustness", "robustness"
    axes = {"activation": str}
    figures = {
        "robust_width": "plots input sensitivity against the number of parameters",
        "robust_samples": "plots it against the number of samples",
    }
    pages = {"fits": "results/tables/{}_fits.csv"}
    group = "robustness"

    def dimensions(self) -> list[int]:
        if "d" in self.settings:
            return self.many("d")
        rule = self.settings["d_rule"]
        return [round(rule["times"] * N ** rule["power"]) for N in self.many("N")]

    def check(self, checks: Checks) -> None:
        key = (self.section, self.name)
        if ("d" in self.settings) == ("d_rule" in self.settings):
            checks.say((*key, "d"), "missing, or d_rule is there too; give one of the two")
            return
        if "d_rule" in self.settings and min(self.dimensions()) < 1:
            checks.say((*key, "d_rule"), "gives a d of 0 at the smallest N; raise times")
            return
        super().check(checks)
