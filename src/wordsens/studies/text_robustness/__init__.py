"""Input sensitivity of interpolators of texts, beside the word sensitivity of their maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.maps import declared
from wordsens.studies.base import EMBEDDINGS
from wordsens.studies.checks import Checks
from wordsens.studies.maps import MapStudy


class TextRobustness(MapStudy):
    kind, section, folder = "text_robustness", "text_robustness", "text_robustness"
    axes = {"n": int}
    category, target = "Robustness", "robustness"
    figures = {"text_robustness": "plots input sensitivity of texts beside word sensitivity"}
    group = "robustness"

    @classmethod
    def allowed_maps(cls) -> list[str]:
        """Attention maps, and rf, whose interpolator has a kernel form."""
        known = declared()
        return [
            name
            for name in super().allowed_maps()
            if "n" not in known[name].sizes or known[name].kernel_form
        ]

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        embedded = config.datasets[self.dataset].embedded
        return {"data": EMBEDDINGS.format(self.dataset)} if embedded else {}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        n, d, N = point["n"], self.settings["d"], self.settings["N"]
        return int(1500 + 8 * (6 * N * n * d + 5 * N * N + 40 * n * (n + d)) // 10**6)

    def check(self, checks: Checks) -> None:
        super().check(checks)
        key = (self.section, self.name)
        if checks.known((*key, "dataset"), self.dataset, "datasets"):
            checks.lengths(key, self.settings)
            lists = {name: [self.settings[name]] for name in ("d", "N")}
            checks.fits(key, {**self.settings, **lists, "precision": "float64"})
