"""A kind of study is a class; an entry of its section of the configuration is an instance.

A kind lives in a folder of its own:

    __init__.py   the declaration, a subclass of ``Study``; read at every parse, so it imports
                  nothing heavy
    schema.yaml   the keys of an entry, their types, defaults and descriptions
    cell.py       run(cell, inputs, device) -> arrays, attributes      (a study with axes)
    table.py      tables(cells) -> what the table rule writes          (a study with axes)
                  tables(cell, inputs, device) -> the same             (a study without)
    figures/      one module per kind of figure

Everything else (rules, paths, schema, provenance, report) is made from the declaration.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from wordsens.studies.axes import spell

if TYPE_CHECKING:
    from wordsens.studies.checks import Checks

Plain = dict[str, Any]
TEXTS = "results/assets/corpora/{}/texts.jsonl"
EMBEDDINGS = "results/embeddings/{}.h5"
ENCODER = "results/assets/encoders/{}"
VOCABULARY = "results/assets/vocabularies/{}.h5"
MODEL = "results/assets/models/{}"


class Study:
    """An entry of a section: a cell at every combination of its axes' values.

    Class attributes declare the kind:

    kind       its name; the rules are ``<kind>_cell`` and ``<kind>_table``
    section    the section of the configuration that holds its entries
    folder     cells lie in results/<folder>/<entry>/<axis>~<value>/….h5
    axes       name -> int, float or str; empty for a study that is a single table
    role       the key under which a cell names its entry
    category   the heading of its figures in the report
    figures    kinds of figure, each a module of the folder ``figures``: name -> what it does
    pages      what its table rule writes beside the CSV: name -> path, {} being the entry
    target     a rule that makes all figures of its kinds, those marked default: false too
    targets    kinds of figure that another such rule makes: name -> rule
    minutes    running time to ask a cluster for, of a cell or of the single table
    group      what the cells' Slurm group is called, if any
    gpu        whether a card helps
    """

    kind: ClassVar[str] = ""
    section: ClassVar[str] = ""
    folder: ClassVar[str] = ""
    axes: ClassVar[Mapping[str, type]] = {}
    role: ClassVar[str] = "study"
    category: ClassVar[str] = ""
    figures: ClassVar[Mapping[str, str]] = {}
    pages: ClassVar[Mapping[str, str]] = {}
    target: ClassVar[str | None] = None
    targets: ClassVar[Mapping[str, str]] = {}
    minutes: ClassVar[int] = 60
    group: ClassVar[str | None] = "cells"
    gpu: ClassVar[bool] = True

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, dict(settings)

    # What an entry is made of

    @property
    def dataset(self) -> str:
        return str(self.settings["dataset"])

    def values(self, axis: str) -> list[Any]:
        """The values of an axis, of the axis' own type."""
        return [self.axes[axis](value) for value in self.settings[axis]]

    def points(self) -> list[Plain]:
        """The cells, as values of the axes."""
        grid = itertools.product(*(self.values(axis) for axis in self.axes))
        return [dict(zip(self.axes, values, strict=True)) for values in grid]

    @property
    def shared(self) -> Plain:
        """What all cells share: the settings that are no axes."""
        return {key: value for key, value in self.settings.items() if key not in self.axes}

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        """All parameters of one cell, flat and complete; ``config`` is the whole configuration."""
        return {self.role: self.name, "seed": config.seed, **self.shared, **point}

    @classmethod
    def pattern(cls) -> str:
        """The path of a cell file, its entry and axes as wildcards."""
        axes = "/".join(f"{axis}~{{{axis}}}" for axis in cls.axes)
        return f"{cls.folder}/{{{cls.role}}}/{axes}"

    def paths(self) -> list[str]:
        """The cell files of the entry."""
        pattern = self.pattern()
        return [
            f"results/{pattern}.h5".format(
                **{self.role: self.name}, **{axis: spell(value) for axis, value in point.items()}
            )
            for point in self.points()
        ]

    # What a job needs

    def inputs(self, config: Any, point: Mapping[str, Any]) -> dict[str, str]:
        """The files that a cell, or the single table, reads besides its parameters, by name."""
        return {}

    def mem_mb(self, point: Mapping[str, Any]) -> int:
        """Rough memory of a cell, or of the single table, in megabytes."""
        return 4000

    # What one key asks of another

    def check(self, checks: Checks) -> None:
        """Say what is wrong with the entry that the schema cannot see."""

    def check_figure(self, checks: Checks, name: str, figure: Plain) -> None:
        """Say why a figure cannot show this entry."""

    @classmethod
    def target_of(cls, figure: str) -> str | None:
        """The rule that makes all figures of a kind of figure and of others, if there is one."""
        return cls.targets.get(figure, cls.target)

    # The parts, imported when they are needed

    @classmethod
    def part(cls, name: str) -> ModuleType:
        """A module of the kind's folder: "cell", "table" or "figures.<kind of figure>"."""
        return import_module(f"{cls.__module__}.{name}")

    @classmethod
    def home(cls) -> Path:
        """The folder of the kind."""
        return Path(str(sys.modules[cls.__module__].__file__)).parent

    @classmethod
    def schema(cls) -> Plain:
        """schema.yaml: ``description``, ``entry`` and, where figures have options, ``figure``."""
        return _schema(cls.home() / "schema.yaml")


@cache
def _schema(path: Path) -> Plain:
    from wordsens.yamls import read_yaml

    return read_yaml(path)
