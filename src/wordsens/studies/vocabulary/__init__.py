"""Discrete words: what any word of an encoder's vocabulary does in a word's place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, VOCABULARY
from wordsens.studies.checks import Checks
from wordsens.studies.maps import MapStudy


class Vocabulary(MapStudy):
    kind, section, folder = "vocabulary", "vocabulary", "vocabulary"
    axes = {"d": int, "n": int}
    category = "Discrete words"
    figures = {"vocabulary": "plots discrete words beside the ball of continuous changes"}
    minutes = 120
    pages = {
        "words": "results/tables/substitutions/{}.csv",
        "page": "results/tables/substitutions/{}.md",
    }

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        encoder = config.datasets[self.dataset].settings["encoder"]
        return {"data": EMBEDDINGS.format(self.dataset), "vocabulary": VOCABULARY.format(encoder)}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """The vocabulary's vectors, score matrices, and a block of features."""
        d, n = point["d"], point["n"]
        wide = self.map.vocabulary_bytes(n, d, self.options_at(point))
        return min(60000, 2500 + (8 * 8 * n * n + wide) // 10**6)

    def check(self, checks: Checks) -> None:
        super().check(checks)
        key, study = (self.section, self.name), self.settings
        checks.positions(key, study)
        if not checks.texts(key, self.dataset):
            return
        checks.lengths(key, study)
        layer = checks.filled["datasets"][self.dataset]["layer"]
        if study["vectors"] == "layer0" and layer != 0:
            checks.say(
                (*key, "vectors"),
                f"is layer0, but datasets.{self.dataset}.layer is {layer}; allowed: static, or a "
                "dataset of layer: 0",
            )
