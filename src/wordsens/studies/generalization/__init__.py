"""Test error on a changed word of linear models on a map's features (Section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, Plain
from wordsens.studies.checks import Checks
from wordsens.studies.maps import MapStudy


class Generalization(MapStudy):
    kind, section, folder = "generalization", "generalization", "generalization"
    axes = {"d": int, "n": int, "N": int}
    category = "Generalization on a changed word"
    figures = {
        "generalization": "plots test error against γ",
        "tradeoff": "plots the smallest error under a limit on γ",
        "change": "plots Appendix E against √(N/n)",
        "control": "plots the smallest error against word sensitivity, a point an entry",
    }
    targets = {"control": "control"}
    group = "studies"

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        embedded = config.datasets[self.dataset].embedded
        return {"data": EMBEDDINGS.format(self.dataset)} if embedded else {}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """Samples and features of one trial, functionals of all, Gram matrix."""
        d, n, N = point["d"], point["n"], point["N"]
        size = 8 if self.settings["precision"] == "float64" else 4
        width = self.shared.get("width") or "D"
        p = n * d if width == "D" else width
        floats = (N + 1) * (n * d + p) * size + 40 * self.settings["trials"] * p + 48 * N * N
        floats += self.map.generalization_bytes(n, d, self.options_at(point), size=size)
        return int(min(60000, 800 + 1.2 * floats // 10**6))

    def check(self, checks: Checks) -> None:
        super().check(checks)
        key, heads = (self.section, self.name), self.settings["heads"]
        if "residual" in self.map.options and any(d % heads for d in self.settings["d"]):
            checks.say((*key, "heads"), f"is {heads}, which must divide d, {self.settings['d']}")
        if checks.known((*key, "dataset"), self.dataset, "datasets"):
            checks.lengths(key, self.settings)
            checks.fits(key, self.settings)

    def check_figure(self, checks: Checks, name: str, figure: Plain) -> None:
        """A figure shows only what the study searched for."""
        key, study = ("figures", name), self.settings
        place, losses = f"generalization.{self.name}", set(study["losses"])
        if figure["kind"] == "control" and not study.get("sensitivity"):
            checks.say(
                (*key, "sweeps"), f"{place} measures no sensitivity; set {place}.sensitivity: true"
            )
        if figure["kind"] in ("tradeoff", "control") and not study.get("tradeoff"):
            checks.say(
                (*key, "sweeps"), f"{place} has no curve; add limits on γ as {place}.tradeoff"
            )
        if figure["kind"] == "change" and "change" not in losses:
            checks.say(
                (*key, "sweeps"), f"{place} does not search it; add change to {place}.losses"
            )
        if figure["kind"] == "generalization" and losses <= {"change"}:
            checks.say((*key, "sweeps"), f"{place} searches no error; add one to {place}.losses")
        if figure.get("swapped") and not {"features", "alignment"} <= losses:
            checks.say((*key, "swapped"), f"it needs features and alignment in {place}.losses")
        for option in ("n", "N", "penalties", "losses"):
            if option in figure and not set(figure[option]) & set(study[option]):
                checks.say(
                    (*key, option),
                    f"is {figure[option]}, of which {place} has none; allowed: "
                    f"{', '.join(map(str, study[option]))}",
                )
