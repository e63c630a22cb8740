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
        times, power = self.settings["d_times"], self.settings["d_power"]
        return [round(times * N**power) for N in self.many("N")]

    def check(self, checks: Checks) -> None:
        key = (self.section, self.name)
        given = [name for name in ("d", "d_times", "d_power") if name in self.settings]
        if given not in (["d"], ["d_times", "d_power"]):
            checks.say((*key, "d"), "give either d, or d_times and d_power, and not both")
            return
        if min(self.dimensions()) < 1:
            checks.say((*key, "d_times"), "gives a d of 0 at the smallest N; raise it")
            return
        super().check(checks)
