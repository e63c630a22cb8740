"""Attacks on interpolators of vectors, along the gradient and by projected gradient."""

from __future__ import annotations

from wordsens.studies.vectors import VectorStudy


class Attack(VectorStudy):
    kind, section, folder = "attack", "attacks", "attacks"
    axes = {"activation": str}
    figures = {"attack": "plots the change of output and the share of flipped labels against δ"}
    group = "robustness"
