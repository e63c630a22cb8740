"""What the three kinds of study of Boolean functions ask of their entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.boolean import MOST_BITS
from wordsens.studies.base import Plain, Study
from wordsens.studies.checks import Checks


class BooleanStudy(Study):
    """Transformers whose shapes are drawn from the entry's lists (Appendix F.1)."""

    category = "Boolean functions"
    target = "boolean"
    samples = True  # whether it can profile sampled strings

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        """A cell's trials are its models."""
        kept = super().cell(config, point)
        several = kept.get("datasets", 1) * kept.get("draws", 1)
        return {**kept, "trials": kept["models"] * several}

    def check(self, checks: Checks) -> None:
        """Heads of real size, and strings short enough for the profile that is asked for."""
        lengths = self.settings["N"]
        longest = max(lengths) if isinstance(lengths, list) else lengths
        if self.settings.get("strings") is None and longest > MOST_BITS:
            checks.say(
                (self.section, self.name, "N"),
                f"is {longest}, but an exact profile goes up to {MOST_BITS} bits; allowed: at most "
                f"{MOST_BITS}" + (", or give strings" if self.samples else ""),
            )
        if self.settings["heads"] and 1 in [
            heads * size for heads in self.settings["heads"] for size in self.settings["head_size"]
        ]:
            checks.say(
                (self.section, self.name, "head_size"),
                "1 with one head leaves nothing after the layer norm; allowed: at least 2",
            )

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """Weights of the largest model, and activations of a bounded size."""
        widest = max(self.settings["heads"]) * max(self.settings["head_size"])
        layer = widest**2 * (3 + 2 * max(self.settings["feedforward"]))
        return 2000 + 12 * max(self.settings["depth"]) * layer // 10**6
