"""A configuration against its schema: defaults filled in, every breach said in one line."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wordsens.config.surprises import surprises
from wordsens.written import as_written
from wordsens.yamls import Plain, read_yaml


class SchemaCheck:
    """Collects the lines that say what is wrong."""

    def __init__(self, config: Mapping[str, Any], files: Sequence[str | Path], schema: Plain):
        self.lines: list[str] = []
        self.config = config
        self.schema = schema
        self.files = [(Path(file).name, read_yaml(Path(file))) for file in files]
        for file in files:
            self.lines += [f"{Path(file).name}: {line}" for line in surprises(Path(file))]

    def say(self, key: Iterable[Any], message: str) -> None:
        path = tuple(key)
        dotted = _dotted(path)
        written = as_written(dotted)
        if written != dotted:  # an entry that model_report added
            path = tuple(written.split("."))
        line = f"{self._file(path)}: {written}: {as_written(message)}"
        self.lines.append(" ".join(line.split()))

    def _file(self, key: tuple[Any, ...]) -> str:
        """Where the key's value comes from: the last file that has it, or --config.

        A key that is missing belongs to the last file that holds the longest part of it.
        """
        value = _at(self.config, key)
        for length in range(len(key), -1, -1):
            for name, content in reversed(self.files):
                found = _at(content, key[:length])
                if found is not _NOTHING and (length < len(key) or _same(found, value)):
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
                    + nearest(str(name), properties),
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
                f"is {_shown(source)}; allowed: {', '.join(known)}" + nearest(str(source), known),
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
                + (nearest(str(value), schema["enum"]) if "enum" in schema else ""),
            )

    def _allowed(self, schema: Plain, items: Plain | None) -> str:
        if "allowed" in schema:
            return str(schema["allowed"])
        if "enum" in schema:
            return ", ".join(map(str, schema["enum"]))
        kind = schema.get("type")
        if kind in ("integer", "number"):
            return f"{'an integer' if kind == 'integer' else 'a number'}{_range(schema)}"
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


def _range(schema: Plain) -> str:
    """The bounds of a number, in words."""
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    start = f" from {low}" if low is not None else f" above {above}" if above is not None else ""
    end = f" to {high}" if high is not None else f" below {below}" if below is not None else ""
    return start + end


def _valid(value: Any, schema: Plain) -> bool:
    return bool(_validator()(schema).is_valid(value))


@cache
def _validator() -> Any:
    """Draft 2020-12, but 10.0 is no integer, for it would spell another path than 10, and nan is no
    number, for it lies within every bound."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    def number(_: Any, value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": lambda _, value: number(_, value) and isinstance(value, int), "number": number}
    )
    return extend(Draft202012Validator, type_checker=types)


def _same(one: Any, other: Any) -> bool:
    """Equal, or both nan."""
    return bool(one == other or (one != one and other != other))


def nearest(name: str, known: Iterable[Any]) -> str:
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
