"""docs/configuration.md is what the schema says."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "docs" / "generate_configuration.py"
    spec = importlib.util.spec_from_file_location("generate_configuration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def schema(generator: ModuleType) -> dict:
    return generator.assembled(generator.SCHEMA)


def test_page_is_up_to_date(generator: ModuleType, schema: dict) -> None:
    assert generator.PAGE.read_text("utf-8") == generator.page(schema), "run `make docs`"


def properties(part: object) -> set[str]:
    """Every key that any object of the schema has."""
    if isinstance(part, list):
        return set().union(*map(properties, part)) if part else set()
    if not isinstance(part, dict):
        return set()
    own = part.get("properties")
    found = set(own) if isinstance(own, dict) else set()
    return found.union(*(properties(value) for value in part.values()))


def test_every_key_has_a_row(generator: ModuleType, schema: dict) -> None:
    text = generator.page(schema)
    for key in properties(schema):
        assert f"| `{key}` |" in text or f"## `{key}`" in text, key


def test_a_change_of_the_schema_changes_the_page(generator: ModuleType, schema: dict) -> None:
    before = generator.page(schema)
    other = copy.deepcopy(schema)
    other["properties"]["seed"]["default"] = 41
    after = generator.page(other)
    assert after != before
    assert "`41`" in after
