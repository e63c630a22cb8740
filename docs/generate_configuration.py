"""Write docs/configuration.md from the JSON schema that config.yaml is validated with.

    python docs/generate_configuration.py

The schema is the one place that says what a key means, allows and defaults to; a test keeps the
page equal to what this prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
PAGE = ROOT / "docs" / "configuration.md"
PREAMBLE = """\
# Configuration

<!-- Generated from workflow/schemas/config.schema.yaml by `make docs`; edit the schema instead. -->

Every key of `config.yaml`. A key that is not listed here is an error, and so is a value outside
what is allowed: the run ends before any work, with one line that names the file, the key and the
value. A key marked *required* has no default and must be given; one marked – may be left out.
"""

Schema = dict[str, Any]


def page(schema: Schema) -> str:
    """The whole page as Markdown."""
    top = schema["properties"]
    named = {key: _named_entries(schema, part) for key, part in top.items()}
    fixed = {key: part for key, part in top.items() if "properties" in _resolved(schema, part)}
    blocks = [PREAMBLE]
    plain = {key: part for key, part in top.items() if named[key] is None and key not in fixed}
    if plain:
        blocks.append("## Top level\n\n" + _table(schema, {"properties": plain}))
    for key, part in fixed.items():
        table = _table(schema, _resolved(schema, part))
        blocks.append(f"## `{key}`\n\n{_prose(part)}\n\n{table}")
    for key, entry in named.items():
        if entry is None:
            continue
        blocks.append(
            f"## `{key}`\n\n{_prose(top[key])} Each entry is `name: {{…}}`; a name is "
            f"{_allowed(schema, top[key].get('propertyNames', {'type': 'string'}))}.\n"
        )
        blocks += _entry(schema, entry)
    return "\n".join(blocks)


def _named_entries(schema: Schema, part: Schema) -> Schema | None:
    """What the entries of a section look like, where its keys are the user's own names."""
    entries = _resolved(schema, part).get("additionalProperties")
    return _resolved(schema, entries) if isinstance(entries, dict) else None


def _entry(schema: Schema, entry: Schema) -> Iterator[str]:
    if "oneOf" not in entry:
        yield _table(schema, entry)
        return
    for choice in entry["oneOf"]:
        source = choice["properties"]["source"]["const"]
        yield f"### `source: {source}`, {choice['title']}\n\n" + _table(schema, choice)


def _table(schema: Schema, part: Schema) -> str:
    required = part.get("required", [])
    rows = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for key, raw in part["properties"].items():
        value = _resolved(schema, raw)
        if "const" in value and key == "source":
            default = "*required*"
        elif "default" in value:
            default = f"`{_literal(value['default'])}`"
        else:
            default = "*required*" if key in required else "–"
        cells = [f"`{key}`", _allowed(schema, value), default, _prose(value)]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _resolved(schema: Schema, part: Schema) -> Schema:
    """The part with its reference followed; what stands beside the reference wins."""
    if "$ref" not in part:
        return part
    target: Any = schema
    for step in part["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**_resolved(schema, target), **{k: v for k, v in part.items() if k != "$ref"}}


def _allowed(schema: Schema, raw: Schema) -> str:
    """What a value may be, in words."""
    part = _resolved(schema, raw)
    if "allowed" in part:
        return str(part["allowed"])
    if "const" in part:
        return f"`{_literal(part['const'])}`"
    if "enum" in part:
        return ", ".join(f"`{_literal(value)}`" for value in part["enum"])
    kind = part.get("type")
    if kind == "array":
        return f"list of: {_allowed(schema, part['items'])}"
    if kind == "object":
        return f"names, each with: {_allowed(schema, part['additionalProperties'])}"
    if kind in ("integer", "number"):
        whole = "integer" if kind == "integer" else "number"
        return whole + _range(part)
    return {"boolean": "`true`, `false`", "string": "text"}[str(kind)]


def _range(part: Schema) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f", at least {low}" if low is not None else ""


def _literal(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


def _prose(part: Schema) -> str:
    return str(part.get("description", "")).strip()


def main() -> None:
    PAGE.write_text(page(yaml.safe_load(SCHEMA.read_text("utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
