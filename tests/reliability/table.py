"""The table of docs/reliability.md: written by the tests, never by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BEGIN = "<!-- written by pytest tests/reliability --record-reliability -->"
END = "<!-- end -->"
HEAD = [
    "| injected | times | finished results lost or computed again | seen |",
    "|---|---|---|---|",
]


@dataclass(frozen=True)
class Row:
    """What was injected, how often, the finished results that it cost, and what was seen."""

    what: str
    times: int
    lost: int
    seen: str

    def __str__(self) -> str:
        return f"| {self.what} | {self.times} | {self.lost} | {self.seen} |"


def rewritten(text: str, record: Mapping[str, Row]) -> str:
    """The document with the record as its table."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    lines = [BEGIN, *HEAD, *map(str, record.values()), END]
    return before + "\n".join(lines) + after


def rows(text: str) -> list[str]:
    """The rows of the document's table as they stand."""
    lines = text.split(BEGIN)[1].split(END)[0].strip().splitlines()
    assert lines[:2] == HEAD
    return lines[2:]
