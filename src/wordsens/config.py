"""The configuration: checked against its schema, cross-checked, and given types.

``load`` finds every mistake before any work starts and says each in one line.  Nothing here imports
more than jsonschema, because every Snakemake job parses the configuration again.
"""

from __future__ import annotations

import copy
import difflib
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from wordsens.errors import UserError

Plain = dict[str, Any]
Key = tuple[str, ...]

# Sweep keys that only some maps have.
MAP_KEYS = {
    "depth": ("drf",),
    "width": ("rf", "drf"),
    "activation": ("rf", "drf"),
    "heads": ("qkv",),
    "head_dim": ("qkv",),
}
# Dataset keys that only one policy has.
DOCUMENT_KEYS = ("pad_to", "use_padding")
AXES = ("d", "n", "depth", "words")
STUDY_AXES = ("d", "n", "N")
STUDY_KINDS = ("generalization", "tradeoff", "change")
# Figure keys that only figures of studies have.
STUDY_OPTIONS = ("n", "N", "losses", "penalties", "swapped")
# Names of the workflow's own rules, which a figure's target may not take.
RESERVED = (
    "all",
    "tables",
    "fetch_corpus",
    "fetch_encoder",
    "embed",
    "sensitivity_cell",
    "sweep_table",
    "generalization_cell",
    "generalization_table",
    "draw_figure",
)


class ConfigError(UserError):
    """All mistakes of a configuration, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        ValueError.__init__(self, "\n".join(lines))
        self.lines = list(lines)


@dataclass(frozen=True)
class Asset:
    """A corpus or an encoder and where it comes from."""

    name: str
    settings: Plain

    @property
    def files(self) -> list[str]:
        """The user's own files that the asset is made from."""
        if self.settings["source"] != "file":
            return []
        path = Path(self.settings["path"])
        if path.is_dir():
            return sorted(str(file) for file in path.iterdir() if file.is_file())
        return [str(path)]


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
    axes: dict[str, list[int]]
    shared: Plain

    @property
    def dataset(self) -> str:
        return str(self.shared["dataset"])

    def points(self) -> list[dict[str, int]]:
        """The cells, as values of the axes."""
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    def cell(self, seed: int, **point: int) -> Plain:
        """All parameters of one cell, flat, with width and head_dim as numbers."""
        return {self.kind: self.name, "seed": seed, **_numbered(self.shared, point), **point}


class Sweep(Grid):
    """A word-sensitivity sweep over d, n, depth and words."""

    kind = "sweep"

    @property
    def many_positions(self) -> bool:
        """Whether its cells measure more than the first position."""
        return bool(self.shared["positions"] != "first")


class Study(Grid):
    """A generalization study over d, n and N."""

    kind = "study"


def _numbered(shared: Plain, point: Mapping[str, int]) -> Plain:
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
    datasets: dict[str, Dataset]
    sweeps: dict[str, Sweep]
    generalization: dict[str, Study]
    figures: dict[str, Figure]


def load(config: Mapping[str, Any], files: Sequence[str | Path], schema: str | Path) -> Config:
    """Check a merged configuration and return it typed, defaults filled in.

    ``files`` are the YAML files it was merged from, the last one winning; they are read again only
    to say which of them holds a mistake.  Raises ConfigError with one line per mistake: file, key,
    value, what is allowed, and the nearest valid name for a typo.
    """
    check = _Check(config, files, _read_yaml(Path(schema)))
    filled = check.against_schema()
    if not check.lines:
        check.cross(filled)
    if check.lines:
        raise ConfigError(list(dict.fromkeys(check.lines)))
    return _typed(filled)


def load_or_exit(
    config: Mapping[str, Any], files: Sequence[str | Path], schema: str | Path
) -> Config:
    """As ``load``; mistakes are printed, one line each, and the process ends with code 1.

    For the Snakefile, where any exception but SystemExit is printed with its traceback.
    """
    try:
        return load(config, files, schema)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


def _typed(filled: Plain) -> Config:
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
        datasets={name: Dataset(name, value) for name, value in filled["datasets"].items()},
        sweeps=sweeps,
        generalization=studies,
        figures=figures,
    )


def _shared(entry: Plain, axes: Sequence[str]) -> Plain:
    """What all cells share: the keys that are no axes and that the map has."""
    return {
        key: value
        for key, value in entry.items()
        if key not in axes and entry["map"] in MAP_KEYS.get(key, (entry["map"],))
    }


class _Check:
    """Collects the lines that say what is wrong."""

    def __init__(self, config: Mapping[str, Any], files: Sequence[str | Path], schema: Plain):
        self.lines: list[str] = []
        self.config = config
        self.schema = schema
        self.files = [(Path(file).name, _read_yaml(Path(file))) for file in files]

    def say(self, key: Iterable[Any], message: str) -> None:
        path = tuple(key)
        self.lines.append(" ".join(f"{self._file(path)}: {_dotted(path)}: {message}".split()))

    def _file(self, key: tuple[Any, ...]) -> str:
        """Where the key's value comes from: the last file that has it, or --config.

        A key that is missing belongs to the last file that holds the longest part of it.
        """
        value = _at(self.config, key)
        for length in range(len(key), -1, -1):
            for name, content in reversed(self.files):
                found = _at(content, key[:length])
                if found is not _NOTHING and (length < len(key) or found == value):
                    return name
            if length == len(key) and value is not _NOTHING and not isinstance(value, Mapping):
                return "--config"
        return "config"

    # Against the schema

    def against_schema(self) -> Plain:
        filled = copy.deepcopy(dict(self.config))
        self._node(filled, self.schema, ())
        return filled

    def _node(self, value: Any, schema: Plain, key: tuple[Any, ...]) -> None:
        """Fill in defaults below ``value`` and report what breaks the schema."""
        schema = self._resolve(schema)
        if "oneOf" in schema:
            chosen = self._variant(value, schema["oneOf"], key)
            if chosen is not None:
                self._node(value, chosen, key)
            return
        if not isinstance(value, dict) or schema.get("type") != "object":
            self._leaf(value, schema, key)
            return
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        if schema.get("propertyNames"):
            self._names(value, schema["propertyNames"], key)
        for name, child in list(value.items()):
            if name in properties:
                self._node(child, properties[name], (*key, name))
            elif others is False:
                self.say(
                    (*key, name),
                    f"there is no such key; allowed: {', '.join(properties)}"
                    + _nearest(str(name), properties),
                )
            elif isinstance(others, dict):
                self._node(child, others, (*key, name))
        for name in schema.get("required", ()):
            if name not in value:
                meaning = self._resolve(properties[name]).get("description", "")
                self.say((*key, name), f"missing, and needed. {meaning}")
        if len(value) < schema.get("minProperties", 0):
            self.say(key, "empty; at least one entry is needed")
        for name, child in properties.items():
            child = self._resolve(child)
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])

    def _names(self, value: Plain, schema: Plain, key: tuple[Any, ...]) -> None:
        names = self._resolve(schema)
        for name in value:
            if not isinstance(name, str) or not _valid(name, names):
                self.say((*key, name), f"{name!r} cannot be a name; allowed: {names['allowed']}")

    def _variant(self, value: Any, variants: list[Plain], key: tuple[Any, ...]) -> Plain | None:
        """The variant that ``source`` names."""
        known = {variant["properties"]["source"]["const"]: variant for variant in variants}
        if not isinstance(value, dict):
            self.say(key, f"is {_shown(value)}; allowed: keys and values, the first being source")
            return None
        if "source" not in value:
            self.say((*key, "source"), f"missing, and needed; allowed: {', '.join(known)}")
            return None
        source = value["source"]
        if not isinstance(source, str) or source not in known:
            self.say(
                (*key, "source"),
                f"is {_shown(source)}; allowed: {', '.join(known)}" + _nearest(str(source), known),
            )
            return None
        return known[source]

    def _leaf(self, value: Any, schema: Plain, key: tuple[Any, ...]) -> None:
        """A value that is not a mapping, or should not be one."""
        items = schema.get("items")
        if isinstance(value, list) and schema.get("type") == "array" and items:
            for index, item in enumerate(value):
                self._node(item, items, (*key, index))
            schema = {name: rule for name, rule in schema.items() if name != "items"}
        if not _valid(value, schema):
            self.say(
                key,
                f"is {_shown(value)}; allowed: {self._allowed(schema, items)}"
                + (_nearest(str(value), schema["enum"]) if "enum" in schema else ""),
            )

    def _allowed(self, schema: Plain, items: Plain | None) -> str:
        if "allowed" in schema:
            return str(schema["allowed"])
        if "enum" in schema:
            return ", ".join(map(str, schema["enum"]))
        kind = schema.get("type")
        if kind == "integer":
            low, high = schema.get("minimum"), schema.get("maximum")
            return f"an integer from {low} to {high}"
        if kind == "array":
            item = self._allowed(self._resolve(items or {}), None)
            unique = ", all different" if schema.get("uniqueItems") else ""
            return f"a list{' (not empty)' if schema.get('minItems') else ''}, each {item}{unique}"
        if kind == "boolean":
            return "true or false"
        if kind == "object":
            return "keys and values"
        return "a text that is not empty" if schema.get("minLength") else "a text"

    def _resolve(self, schema: Plain) -> Plain:
        if "$ref" not in schema:
            return schema
        target = self.schema["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        return {**target, **{name: rule for name, rule in schema.items() if name != "$ref"}}

    # Between keys

    def cross(self, filled: Plain) -> None:
        for kind in ("corpora", "encoders"):
            for name, asset in filled[kind].items():
                self._own_file(asset, (kind, name, "path"))
        for name, dataset in filled["datasets"].items():
            if dataset["source"] == "text":
                self._dataset(name, dataset, filled)
        if not self.lines:
            for name, sweep in filled["sweeps"].items():
                self._sweep(name, sweep, filled)
            for name, study in filled["generalization"].items():
                self._study(name, study, filled)
        for name, figure in filled["figures"].items():
            self._figure(name, figure, filled)

    def _known(self, key: Key, value: str, section: str, filled: Plain) -> bool:
        if value in filled[section]:
            return True
        names = ", ".join(filled[section]) or f"nothing yet; add {section}.{value}"
        self.say(
            key,
            f"is {value!r}, which {section} lacks; allowed: {names}"
            + _nearest(value, filled[section]),
        )
        return False

    def _own_file(self, asset: Plain, key: Key) -> None:
        if asset["source"] != "file":
            return
        path = Path(asset["path"])
        if not path.exists():
            self.say(key, f"is {asset['path']!r}, and {path.absolute()} does not exist")
        elif key[0] == "corpora" and not path.is_file():
            self.say(key, f"is {asset['path']!r}, a folder; allowed: a CSV or JSONL file")
        elif key[0] == "encoders" and not path.is_dir():
            self.say(key, f"is {asset['path']!r}, a file; allowed: a folder in transformers format")

    def _dataset(self, name: str, dataset: Plain, filled: Plain) -> None:
        key = ("datasets", name)
        self._known((*key, "corpus"), dataset["corpus"], "corpora", filled)
        self._known((*key, "encoder"), dataset["encoder"], "encoders", filled)
        if dataset["policy"] == "windows":
            given = self.config["datasets"][name]
            for only in DOCUMENT_KEYS:
                if only in given:
                    self.say((*key, only), "only with policy: documents; leave it out")
                dataset.pop(only, None)
            return
        dataset.setdefault("pad_to", dataset["tokens"])
        if dataset["pad_to"] < dataset["tokens"] - 1:
            self.say(
                (*key, "pad_to"),
                f"is {dataset['pad_to']}, shorter than texts of up to {dataset['tokens'] - 1} "
                f"tokens; allowed: tokens - 1 = {dataset['tokens'] - 1} or more",
            )

    def _map_keys(self, key: Key, name: str) -> None:
        given = self.config[key[0]][key[1]]
        for only, maps in MAP_KEYS.items():
            if only in given and name not in maps:
                self.say(
                    (*key, only),
                    f"map {name} has none; only for {' and '.join(maps)}; leave it out",
                )

    def _study(self, name: str, study: Plain, filled: Plain) -> None:
        key = ("generalization", name)
        self._map_keys(key, study["map"])
        if name in filled["sweeps"]:
            self.say(key, "is also the name of a sweep, and both name a table; choose another name")
        if self._known((*key, "dataset"), study["dataset"], "datasets", filled):
            self._lengths(key, study, filled["datasets"][study["dataset"]])

    def _sweep(self, name: str, sweep: Plain, filled: Plain) -> None:
        key = ("sweeps", name)
        given = self.config["sweeps"][name]
        self._map_keys(key, sweep["map"])
        if sweep["map"] == "drf" and "depth" not in sweep:
            self.say((*key, "depth"), "missing, and map drf needs it, for example [2, 4, 8]")
        for only in ("starts", "steps"):
            if only in given and sweep["search"] == "published":
                self.say((*key, only), "only with search: power; leave it out")
        if self._known((*key, "dataset"), sweep["dataset"], "datasets", filled):
            self._lengths(key, sweep, filled["datasets"][sweep["dataset"]])
        shortest = min(sweep["n"])
        if max(sweep["words"]) > shortest:
            self.say(
                (*key, "words"),
                f"is {sweep['words']}, but n goes down to {shortest}; allowed: at most {shortest}",
            )
        positions = sweep["positions"]
        if isinstance(positions, list) and max(positions) >= shortest:
            self.say(
                (*key, "positions"),
                f"is {positions}, but n goes down to {shortest}; allowed: 0 to {shortest - 1}",
            )
        if isinstance(positions, str) and positions.startswith("random:"):
            count = int(positions.partition(":")[2])
            if count > shortest:
                self.say(
                    (*key, "positions"),
                    f"is {positions}, but n goes down to {shortest}; allowed: at most "
                    f"random:{shortest}",
                )

    def _lengths(self, key: Key, sweep: Plain, dataset: Plain) -> None:
        longest = Dataset(sweep["dataset"], dataset).longest
        if longest is not None and max(sweep["n"]) > longest:
            self.say(
                (*key, "n"),
                f"is {sweep['n']}, but dataset {sweep['dataset']} has samples of at most "
                f"{longest} tokens; allowed: at most {longest}, or raise "
                f"datasets.{sweep['dataset']}.tokens",
            )

    def _figure(self, name: str, figure: Plain, filled: Plain) -> None:
        key = ("figures", name)
        if name in RESERVED:
            self.say(key, f"{name} is the name of a rule; allowed: any other name")
        if figure["kind"] in STUDY_KINDS:
            for study in figure["sweeps"]:
                self._known((*key, "sweeps"), study, "generalization", filled)
            return
        for only in STUDY_OPTIONS:
            if only in figure:
                kinds = " and ".join(STUDY_KINDS)
                self.say((*key, only), f"kind {figure['kind']} has none; only for {kinds}")
        for sweep in figure["sweeps"]:
            if not self._known((*key, "sweeps"), sweep, "sweeps", filled):
                continue
            first = filled["sweeps"][sweep]["positions"] == "first"
            if figure["kind"] == "positions" and first:
                self.say(
                    (*key, "sweeps"),
                    f"kind positions needs sweeps of several positions, and sweeps.{sweep}."
                    "positions is first; allowed there: all, random:m or a list",
                )


def _valid(value: Any, schema: Plain) -> bool:
    return bool(_validator()(schema).is_valid(value))


@cache
def _validator() -> Any:
    """Draft 2020-12, but 10.0 is no integer: it would spell another path than 10."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return extend(Draft202012Validator, type_checker=types)


def _nearest(name: str, known: Iterable[Any]) -> str:
    near = difflib.get_close_matches(name, [str(word) for word in known], n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "empty"
    if isinstance(value, (dict, list)) and len(str(value)) > 60:
        return str(value)[:57] + "..."
    return repr(value)


def _dotted(key: tuple[Any, ...]) -> str:
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) and text else f".{part}" if text else str(part)
    return text or "top level"


_NOTHING = object()


def _at(content: Any, key: tuple[Any, ...]) -> Any:
    """The value at a key path, or _NOTHING."""
    for part in key:
        inside = isinstance(content, Mapping) and part in content
        if not inside and isinstance(content, list) and isinstance(part, int):
            inside = part < len(content)
        if not inside:
            return _NOTHING
        content = content[part]
    return content


def _read_yaml(path: Path) -> Plain:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return content if isinstance(content, dict) else {}
