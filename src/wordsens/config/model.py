"""The checked configuration as typed objects."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

Plain = dict[str, Any]

# What names the entries of model_report.
PREFIX = "own_"

# Sweep keys that only some maps have.
MAP_KEYS = {
    "depth": ("drf",),
    "width": ("rf", "drf"),
    "activation": ("rf", "drf"),
    "heads": ("qkv",),
    "head_dim": ("qkv",),
}
AXES = ("d", "n", "depth", "words")
STUDY_AXES = ("d", "n", "N")
VOCABULARY_AXES = ("d", "n")
LAYERS_AXES = ("weights", "n")


@dataclass(frozen=True)
class Asset:
    """A corpus, an encoder or a language model and where it comes from."""

    name: str
    settings: Plain

    @property
    def files(self) -> list[str]:
        """The user's own files that the asset is made from; of a folder, those that are taken."""
        if self.settings["source"] != "file":
            return []
        path = Path(self.settings["path"])
        if path.is_dir():
            from wordsens.data.assets import ENCODER_FILES, MODEL_FILES

            taken = {file for name in (*ENCODER_FILES, *MODEL_FILES) for file in path.glob(name)}
            return sorted(str(file) for file in taken if file.is_file())
        return [str(path)]

    @property
    def inputs(self) -> list[str]:
        """The files as a rule's input; Snakemake would take a {name} in a path for a wildcard."""
        return [file for file in self.files if "{" not in file]

    @property
    def content(self) -> str:
        """A digest of what those files hold."""
        from wordsens.data.content import content

        return content(self.files)


@dataclass(frozen=True)
class Dataset:
    """Embedded texts (source "text") or synthetic tokens (source "gaussian")."""

    name: str
    settings: Plain

    @property
    def embedded(self) -> bool:
        return self.settings["source"] == "text"

    @property
    def longest(self) -> int | None:
        """The largest n that a sample can have; None where there is no limit."""
        if not self.embedded:
            return None
        if self.settings["policy"] == "windows":
            return int(self.settings["tokens"])
        if self.settings["use_padding"]:
            return int(self.settings["pad_to"])
        return int(self.settings["tokens"]) - 1


@dataclass(frozen=True)
class Grid:
    """Cells at every combination of the axes' values, and what all of them share."""

    kind: ClassVar[str]
    name: str
    axes: dict[str, list[Any]]
    shared: Plain

    @property
    def dataset(self) -> str:
        return str(self.shared["dataset"])

    def points(self) -> list[dict[str, Any]]:
        """The cells, as values of the axes."""
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    def cell(self, seed: int, **point: Any) -> Plain:
        """All parameters of one cell, flat, with width and head_dim as numbers."""
        return {self.kind: self.name, "seed": seed, **numbered(self.shared, point), **point}


class Sweep(Grid):
    """A word-sensitivity sweep over d, n, depth and words."""

    kind = "sweep"


class Study(Grid):
    """A generalization study over d, n and N."""

    kind = "study"


class VocabularyStudy(Grid):
    """A study of discrete words over d and n."""

    kind = "study"


class LayersStudy(Grid):
    """Word sensitivity of an encoder's layers over weights and n."""

    kind = "study"


def numbered(shared: Plain, point: Mapping[str, Any]) -> Plain:
    """A cell's shared parameters with width D and head_dim d as the numbers they stand for."""
    cell = dict(shared)
    if cell.get("width") == "D":
        cell["width"] = point["n"] * point["d"]
    if cell.get("head_dim") == "d":
        cell["head_dim"] = point["d"]
    return cell


@dataclass(frozen=True)
class Figure:
    """A figure: its kind, the sweeps or studies that it shows and its options."""

    name: str
    kind: str
    sweeps: list[str]
    default: bool
    options: Plain


@dataclass(frozen=True)
class Config:
    """A checked configuration with every default filled in."""

    seed: int
    device: str
    threads: int
    corpora: dict[str, Asset]
    encoders: dict[str, Asset]
    models: dict[str, Asset]
    datasets: dict[str, Dataset]
    sweeps: dict[str, Sweep]
    generalization: dict[str, Study]
    vocabulary: dict[str, VocabularyStudy]
    layers: dict[str, LayersStudy]
    attraction: dict[str, Plain]
    attention: dict[str, Plain]
    prompts: dict[str, Plain]
    figures: dict[str, Figure]
    report: str | None  # the name of what model_report reports on


# A path that a name can spell: its separators stand alone, so that no two paths share a name.
_SPELT = re.compile(r"[A-Za-z0-9]+([-_/][A-Za-z0-9]+)*")


def report_name(encoder: str) -> str:
    """The name under which an encoder's folder is reported on, another one for each folder.

    Below the working directory it is own_<the path>, with _ for -, __ for _ and ___ for /; for any
    other path, own_<its last part>_<the beginning of its sha256>.
    """
    path = os.path.abspath(encoder)
    inside = os.path.relpath(path)
    name = inside.replace("_", "__").replace("-", "_").replace("/", "___")
    if _SPELT.fullmatch(inside) and len(name) <= 44:
        return PREFIX + name
    plain = re.sub(r"[^A-Za-z0-9]+", "_", os.path.basename(path)).strip("_")[:30] or "encoder"
    return f"{PREFIX}{plain}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def typed(filled: Plain) -> Config:
    sweeps = {
        name: Sweep(name, {axis: list(sweep.get(axis, [1])) for axis in AXES}, _shared(sweep, AXES))
        for name, sweep in filled["sweeps"].items()
    }
    studies = {
        name: Study(
            name, {axis: list(study[axis]) for axis in STUDY_AXES}, _shared(study, STUDY_AXES)
        )
        for name, study in filled["generalization"].items()
    }
    vocabulary = {
        name: VocabularyStudy(
            name,
            {axis: list(study[axis]) for axis in VOCABULARY_AXES},
            _shared(study, VOCABULARY_AXES),
        )
        for name, study in filled["vocabulary"].items()
    }
    layers = {
        name: LayersStudy(
            name,
            {axis: list(study[axis]) for axis in LAYERS_AXES},
            {key: value for key, value in study.items() if key not in LAYERS_AXES},
        )
        for name, study in filled["layers"].items()
    }
    figures = {
        name: Figure(
            name,
            figure["kind"],
            figure["sweeps"],
            figure["default"],
            {key: value for key, value in figure.items() if key not in ("kind", "default")},
        )
        for name, figure in filled["figures"].items()
    }
    return Config(
        seed=filled["seed"],
        device=filled["device"],
        threads=filled["threads"],
        corpora={name: Asset(name, value) for name, value in filled["corpora"].items()},
        encoders={name: Asset(name, value) for name, value in filled["encoders"].items()},
        models={name: Asset(name, value) for name, value in filled["models"].items()},
        datasets={name: Dataset(name, value) for name, value in filled["datasets"].items()},
        sweeps=sweeps,
        generalization=studies,
        vocabulary=vocabulary,
        layers=layers,
        attraction=filled["attraction"],
        attention=filled["attention"],
        prompts=filled["prompts"],
        figures=figures,
        report=report_name(filled["encoder"]) if "encoder" in filled else None,
    )


def _shared(entry: Plain, axes: Sequence[str]) -> Plain:
    """What all cells share: the keys that are no axes and that the map has."""
    return {
        key: value
        for key, value in entry.items()
        if key not in axes and entry["map"] in MAP_KEYS.get(key, (entry["map"],))
    }
