"""The checked configuration as typed objects."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from wordsens.studies import Study, kinds
from wordsens.yamls import Plain

# What names the entries of model_report.
PREFIX = "own_"


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
    studies: dict[str, dict[str, Study]]  # by kind, then by name
    figures: dict[str, Figure]
    report: str | None  # the name of what model_report reports on

    @property
    def kinds(self) -> dict[str, type[Study]]:
        """The kinds of study that there are, plugins included."""
        return kinds()

    def study(self, name: str) -> Study:
        """The entry of that name, of whatever kind; each names a table, so there is one."""
        return next(found[name] for found in self.studies.values() if name in found)


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
    """A configuration that passed every check, as objects."""
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
        studies={
            kind: {name: study(name, entry) for name, entry in filled[study.section].items()}
            for kind, study in kinds().items()
        },
        figures=figures,
        report=report_name(filled["encoder"]) if "encoder" in filled else None,
    )
