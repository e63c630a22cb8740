"""Complete parameters of a cell, as the workflow hands them over, with the schema's defaults."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from wordsens.config.assembly import assembled
from wordsens.maps import declared
from wordsens.studies import kind_named
from wordsens.studies.maps import numbered

SCHEMA = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"


@cache
def defaults(kind: str) -> dict[str, Any]:
    schema = assembled(SCHEMA)
    found = {}
    for key, rule in schema["$defs"][f"{kind}_entry"]["properties"].items():
        named = schema["$defs"].get(str(rule.get("$ref", "")).rsplit("/", 1)[-1], {})
        if "default" in {**named, **rule} and key not in kind_named(kind).axes:
            found[key] = {**named, **rule}["default"]
    return found


def complete(kind: str, **cell: Any) -> dict[str, Any]:
    """A cell with what it does not say, and of the maps' options those of its own map."""
    whole = {**defaults(kind), kind_named(kind).role: "t", **cell}
    if "map" in cell:
        own = declared()[cell["map"]].options
        every = set().union(*(each.options for each in declared().values()))
        foreign = every - set(own) - set(kind_named(kind).axes)
        whole = {key: value for key, value in whole.items() if key not in foreign or key in cell}
        return numbered(whole, whole)
    return whole
