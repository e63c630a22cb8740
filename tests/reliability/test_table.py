"""The table in docs/reliability.md is what the tests of this folder recorded."""

from __future__ import annotations

import pytest

from tests.reliability import runs
from tests.reliability.table import BEGIN, END, Row, rewritten, rows


def test_the_table_has_what_was_recorded(
    record: dict[str, Row], pytestconfig: pytest.Config
) -> None:
    """Runs last in this folder.  Some tests alone record only their rows."""
    document = (runs.ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    if pytestconfig.getoption("--record-reliability", default=False):
        document = rewritten(document, record)
    committed = rows(document)
    missing = [str(row) for row in record.values() if str(row) not in committed]
    assert not missing, "run pytest tests/reliability --record-reliability"
    assert not any(row.lost for row in record.values())
    # With every test run, nothing stands in the table that none recorded.
    if len(record) >= len(committed):
        assert sorted(committed) == sorted(map(str, record.values()))


def test_rewriting_keeps_the_rest_of_the_document() -> None:
    row = Row("a kill", 3, 0, "resumed")
    text = rewritten(f"before\n{BEGIN}\nold\n{END}\nafter\n", {row.what: row})
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert rows(text) == ["| a kill | 3 | 0 | resumed |"]
