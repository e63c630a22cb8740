"""The volume of classes of functions in parameter space, counted over random transformers."""

from __future__ import annotations

from wordsens.studies.boolean import BooleanStudy


class BooleanVolume(BooleanStudy):
    kind, section, folder = "boolean_volume", "boolean_volume", "boolean_volume"
    axes = {"init": str, "N": int}
    figures = {"boolean_volume": "plots the share of random transformers in classes of functions"}
    minutes = 240
    samples = False
