"""The smallest eigenvalue of deep networks' tangent kernels, against their width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import Study
from wordsens.studies.checks import Checks


class Conditioning(Study):
    kind, section, folder = "conditioning", "conditioning", "conditioning"
    axes = {"depth": int}
    category, target = "Robustness", "robustness"
    figures = {"conditioning": "plots λ_min against width, and the width at which it leaves 0"}
    pages = {"fits": "results/tables/{}_fits.csv"}
    group = "robustness"

    def check(self, checks: Checks) -> None:
        key = (self.section, self.name)
        if "narrow" in checks.given(key) and self.settings["shape"] != "one_wide":
            checks.say((*key, "narrow"), "only with shape: one_wide; leave it out")
        if self.settings["shape"] != "constant" and min(self.settings["depth"]) < 3:
            checks.say(
                (*key, "depth"),
                f"is {self.settings['depth']}, but shape {self.settings['shape']} needs two hidden "
                "layers; allowed: 3 or more",
            )

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        n = max(self.settings["n"])
        widest = max(self.settings["multiples"]) * n**0.5
        return int(1500 + 8 * (5 * n * n + 4 * point["depth"] * n * widest) // 10**6)
