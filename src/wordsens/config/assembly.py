"""The whole schema: the core in workflow/schemas, and what every kind of study adds to it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from wordsens.maps import declared
from wordsens.studies import Study, figure_kinds, kinds
from wordsens.studies.maps import MapStudy
from wordsens.yamls import Plain, read_yaml


def assembled(core: Path) -> Plain:
    """The core schema with a section for every kind, its maps, and the options of its figures.

    A kind's schema.yaml holds a ``description`` of the section, the schema of an ``entry``, the
    options that its ``figure`` kinds add, and definitions as ``$defs``.
    """
    schema = read_yaml(core)
    top, definitions = schema["properties"], schema["$defs"]
    after = {name: top.pop(name) for name in ("figures",)}
    figure = definitions["figure"]["properties"]
    options = {name: figure.pop(name) for name in ("title", "default")}
    for kind, study in kinds().items():
        part = copy.deepcopy(study.schema())
        definitions |= part.get("$defs", {})
        definitions[f"{kind}_entry"] = _with_maps(study, part["entry"], definitions)
        top[study.section] = {
            "description": part["description"],
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": {"$ref": f"#/$defs/{kind}_entry"},
            "default": {},
        }
        for name, option in part.get("figure", {}).items():
            figure.setdefault(name, option)
    figure |= options
    top |= after
    figure["kind"] |= {"enum": list(figure_kinds()), "description": _figures()}
    return schema


def figure_options() -> dict[str, list[str]]:
    """The kinds of figure that have an option, for options that not every kind has."""
    found: dict[str, list[str]] = {}
    for study in kinds().values():
        for option in study.schema().get("figure", {}):
            found.setdefault(option, []).extend(study.figures)
    return found


def _figures() -> str:
    """What the kinds of figure show, section by section."""
    return " ".join(
        f"Of {study.section}, "
        + ", ".join(f"{name} {does}" for name, does in study.figures.items())
        + "."
        for study in kinds().values()
        if study.figures
    )


def _with_maps(study: type[Study], entry: Plain, definitions: Plain) -> Plain:
    """An entry's schema with the maps that the kind allows, and their options after its own keys.

    An option that only some of the maps have says which.
    """
    if not issubclass(study, MapStudy):
        return entry
    maps = study.allowed_maps()
    properties = entry["properties"]
    properties["map"]["enum"] = maps
    last = properties.pop("precision", None)
    for name in maps:
        for option, rule in _options(declared()[name].options, definitions).items():
            properties.setdefault(option, rule)
    for option, rule in properties.items():
        having = [name for name in maps if option in declared()[name].options]
        if having and len(having) < len(maps):
            rule = {**_followed(rule, definitions)}
            only = f"Only for {' and '.join(having)}."
            rule["description"] = f"{rule.get('description', '').strip()} {only}".strip()
            properties[option] = rule
    if last:
        properties["precision"] = last
    return entry


def _options(options: Any, definitions: Plain) -> dict[str, Plain]:
    """Options by name: with a schema of their own, or named among the core's definitions."""
    if isinstance(options, dict):
        return {k: v if isinstance(v, dict) else definitions[k] for k, v in options.items()}
    return {name: {"$ref": f"#/$defs/{name}"} for name in options if name in definitions}


def _followed(rule: Plain, definitions: Plain) -> Plain:
    if "$ref" not in rule:
        return rule
    target = definitions[rule["$ref"].rsplit("/", 1)[1]]
    return {**_followed(target, definitions), **{k: v for k, v in rule.items() if k != "$ref"}}
