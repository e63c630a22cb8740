"""Word sensitivity (4) of a feature map, against d, n, depth and the number of changed words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, Plain
from wordsens.studies.checks import Checks
from wordsens.studies.maps import MapStudy


class Sensitivity(MapStudy):
    kind, section, folder, role = "sensitivity", "sweeps", "sensitivity", "sweep"
    axes = {"d": int, "n": int, "depth": int, "words": int}
    category = "Word sensitivity"
    figures = {
        "context_length": "plots word sensitivity against n",
        "words": "plots it against √(m/n)",
        "positions": "plots the supremum over positions and its distribution",
    }

    def values(self, axis: str) -> list[Any]:
        return list(self.settings.get(axis, [1]))  # maps without layers have depth 1

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        embedded = config.datasets[self.dataset].embedded
        return {"data": EMBEDDINGS.format(self.dataset)} if embedded else {}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """Samples and score matrices of all trials, and bases of wide layers."""
        d, n = point["d"], point["n"]
        batch = self.settings["trials"] * 8 * (8 * n * d + 8 * n * n)
        wide = self.map.sensitivity_bytes(n, d, self.options_at(point))
        return min(20000, 1500 + (batch + wide) // 10**6)

    def check(self, checks: Checks) -> None:
        key, sweep = (self.section, self.name), self.settings
        super().check(checks)
        for needed in self.map.needs:
            if needed not in sweep:
                self._missing(checks, (*key, needed))
        for only in ("starts", "steps"):
            if only in checks.given(key) and sweep["search"] == "published":
                checks.say((*key, only), "only with search: power; leave it out")
        if checks.known((*key, "dataset"), self.dataset, "datasets"):
            checks.lengths(key, sweep)
            checks.fits(key, sweep)
        shortest = min(sweep["n"])
        if max(sweep["words"]) > shortest:
            checks.say(
                (*key, "words"),
                f"is {sweep['words']}, but n goes down to {shortest}; allowed: at most {shortest}",
            )
        if isinstance(sweep["positions"], list) and max(sweep["words"]) > 1:
            checks.say(
                (*key, "positions"),
                f"is {sweep['positions']}, single words, but words is {sweep['words']}; allowed "
                "with several words: first, all, random:m",
            )
        checks.positions(key, sweep)

    def _missing(self, checks: Checks, key: tuple[str, ...]) -> None:
        example = ", for example [2, 4, 8]" if self.axes.get(key[-1]) is int else ""
        checks.say(key, f"missing, and map {self.settings['map']} needs it{example}")

    def check_figure(self, checks: Checks, name: str, figure: Plain) -> None:
        if figure["kind"] == "positions" and self.settings["positions"] == "first":
            checks.say(
                ("figures", name, "sweeps"),
                f"kind positions needs sweeps of several positions, and sweeps.{self.name}."
                "positions is first; allowed there: all, random:m or a list",
            )
