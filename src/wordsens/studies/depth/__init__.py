"""Word sensitivity (4) against depth, length and the temperature of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.maps import declared
from wordsens.studies.base import EMBEDDINGS
from wordsens.studies.checks import Checks
from wordsens.studies.maps import MapStudy

SETTINGS = ("depth", "temperature")


class Depth(MapStudy):
    """A cell holds every depth and temperature of one d and n, of the same texts and weights."""

    kind, section, folder = "depth", "depths", "depth"
    axes = {"d": int, "n": int}
    category, target = "Depth and temperature", "depth"
    figures = {
        "depth": "plots word sensitivity against the number of layers",
        "depth_length": "plots it against n, a curve for every depth",
        "temperature": "plots it against the temperature",
    }

    @classmethod
    def allowed_maps(cls) -> list[str]:
        able = super().allowed_maps()
        return [name for name in able if "temperature" in declared()[name].options]

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        embedded = config.datasets[self.dataset].embedded
        return {"data": EMBEDDINGS.format(self.dataset)} if embedded else {}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        d, n = point["d"], point["n"]
        deepest = {"depth": max(self.settings.get("depth", [1]))}
        options = self.options_at({**point, **deepest, "temperature": 1})
        batch = self.settings["trials"] * 8 * (8 * n * d + 8 * n * n)
        return int(1500 + (batch + self.map.sensitivity_bytes(n, d, options)) // 10**6)

    def check(self, checks: Checks) -> None:
        super().check(checks)
        key = (self.section, self.name)
        if "depth" in self.map.options and "depth" not in self.settings:
            checks.say((*key, "depth"), f"missing, and map {self.settings['map']} needs it")
        if checks.known((*key, "dataset"), self.dataset, "datasets"):
            checks.lengths(key, self.settings)
            checks.fits(key, self.settings)
        heads = self.settings["heads"]
        if "residual" in self.map.options and any(d % heads for d in self.settings["d"]):
            checks.say((*key, "heads"), f"is {heads}, which must divide d, {self.settings['d']}")

    def check_figure(self, checks: Checks, name: str, figure: dict[str, Any]) -> None:
        wanted = "temperature" if figure["kind"] == "temperature" else "depth"
        if len(self.settings.get(wanted, [])) < 2:
            checks.say(
                ("figures", name, "sweeps"),
                f"kind {figure['kind']} needs several values of {wanted}, and {self.section}."
                f"{self.name} has not; add some to {self.section}.{self.name}.{wanted}",
            )
