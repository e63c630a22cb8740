"""What studies of interpolators of vectors x in R^d share: where samples come from, and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, Plain, Study
from wordsens.studies.checks import Checks

# What a dataset may be called that needs no entry of its own: samples without words.
SYNTHETIC, DIGITS = "gaussian", "digits"
IMAGES, PIXELS = 1797, 64  # scikit-learn's digits


class VectorStudy(Study):
    """An entry whose samples are vectors: ``dataset`` is gaussian, digits or one of texts."""

    category, target = "Robustness", "robustness"

    def many(self, key: str) -> list[int]:
        """The values of a key that is a number or a list of them."""
        value = self.settings[key]
        return value if isinstance(value, list) else [value]

    def dimensions(self) -> list[int]:
        """All d that cells need."""
        return self.many("d")

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        found = config.datasets.get(self.dataset)
        return {"data": EMBEDDINGS.format(self.dataset)} if found and found.embedded else {}

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        """All parameters of a cell; ``source`` says which kind of samples it draws."""
        found = config.datasets.get(self.dataset)
        source = "texts" if found and found.embedded else SYNTHETIC
        if found is None and self.dataset == DIGITS:
            source = DIGITS
        return {**super().cell(config, point), "source": source, "section": self.section}

    def check(self, checks: Checks) -> None:
        key, name = (self.section, self.name), self.dataset
        datasets = checks.filled["datasets"]
        if name not in datasets and name not in (SYNTHETIC, DIGITS):
            allowed = ", ".join([SYNTHETIC, DIGITS, *datasets])
            checks.say((*key, "dataset"), f"is {name!r}, which is not known; allowed: {allowed}")
            return
        texts = name in datasets and datasets[name]["source"] == "text"
        if "tokens" in checks.given(key) and not texts:
            checks.say((*key, "tokens"), f"dataset {name} has no texts; leave it out")
        if texts and self.settings["tokens"] > datasets[name]["tokens"]:
            most = datasets[name]["tokens"]
            checks.say(
                (*key, "tokens"),
                f"is {self.settings['tokens']}, but dataset {name} has samples of {most} tokens; "
                f"allowed: at most {most}",
            )
        if name == DIGITS and name not in datasets:
            if self.dimensions() != [PIXELS]:
                checks.say(
                    (*key, "d"), f"is {self.settings.get('d')}; images of digits have {PIXELS}"
                )
            most = IMAGES - self.settings["points"]
            if max(self.many("N")) > most:
                checks.say(
                    (*key, "N"),
                    f"is {self.settings['N']}, but there are {IMAGES} digits and {IMAGES - most} "
                    f"of them are points; allowed: at most {most}",
                )
        self.interpolates(checks)

    def interpolates(self, checks: Checks) -> None:
        """As many parameters as samples, or nothing is interpolated."""
        tangent = self.settings["features"] == "ntk"
        least = min(self.many("width"))
        parameters = least * (min(self.dimensions()) if tangent else 1)
        if parameters < max(self.many("N")):
            checks.say(
                (self.section, self.name, "width"),
                f"is {self.settings['width']}, which at {least} gives {parameters} parameters, too "
                f"few to interpolate N = {max(self.many('N'))} samples; allowed: as many or more",
            )

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """K and its factor, samples, and chunks of slopes."""
        N, d, k = (
            max(values) for values in (self.many("N"), self.dimensions(), self.many("width"))
        )
        return 1500 + 8 * (5 * N * N + 4 * N * d + min(N * k, 2**25) + 2 * d * d) // 10**6
