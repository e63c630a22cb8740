"""Gradient flow of small networks, against the rate of their tangent kernel."""

from __future__ import annotations

from wordsens.studies.base import Study


class Flow(Study):
    kind, section, folder = "flow", "flows", "flows"
    axes = {"width": int}
    category, target = "Robustness", "robustness"
    figures = {"flow": "plots the loss along gradient flow against time"}
    group = "robustness"
    gpu = False
