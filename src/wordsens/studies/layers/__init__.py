"""Word sensitivity of every layer of an encoder, with its own weights and with random ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.studies.base import EMBEDDINGS, ENCODER, Plain, Study
from wordsens.studies.checks import Checks


class Layers(Study):
    kind, section, folder = "layers", "layers", "layers"
    axes = {"weights": str, "n": int}
    category = "Trained models"
    figures = {
        "layers": "plots a model's layers against n",
        "layer_positions": "plots them against the word's position, where several were searched",
        "tasks": "plots them for several kinds of text",
    }
    minutes = 120

    def encoder(self, config: Any) -> str:
        """The name of the encoder that is searched, which is the dataset's."""
        return str(config.datasets[self.dataset].settings["encoder"])

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        return {**super().cell(config, point), "encoder": self.encoder(config)}

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        return {
            "data": EMBEDDINGS.format(self.dataset),
            "encoder": ENCODER.format(self.encoder(config)),
        }

    def check_figure(self, checks: Checks, name: str, figure: Plain) -> None:
        if figure["kind"] == "layer_positions" and self.settings["positions"] == "first":
            checks.say(
                ("figures", name, "sweeps"),
                f"{self.name} searches one position; set {self.section}.{self.name}.positions",
            )

    def check(self, checks: Checks) -> None:
        key = (self.section, self.name)
        checks.positions(key, self.settings)
        if checks.texts(key, self.dataset):
            checks.layers(key, self.settings)
