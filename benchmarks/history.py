"""The history of every measurement: ``results.csv``, a row per setting, commit and machine.

A time is compared with the last one of the same setting on the same kind of machine, and only where
neither was disturbed and the change is larger than what the timings of one commit differ by.
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.tables import QUIET

FIELDS = [
    *("date", "who", "map", "n", "d", "depth", "N", "vocabulary", "positions", "seeds"),
    *("seconds", "peak_mib", "value", "bound", "spread", "deviation", "steps", "steps_timed"),
    *("others", "threads", "cores", "machine", "python", "torch", "numpy", "wordsens"),
    *("precision", "noise", "commit"),
]
SETTING = ("who", "map", "n", "d", "depth", "N", "vocabulary", "positions", "seeds", "precision")
MACHINE = ("machine", "cores", "threads")
# What two quiet runs of one commit may differ by: the clock of a machine is not constant.
NOISE = 0.1


def commit(folder: Path) -> str:
    """The commit that is measured, with a + where files differ from it; "" outside of git."""
    asked = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    found = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def append(path: Path, values: Mapping[str, Any]) -> None:
    """Add a row; a file with fewer columns gets the new ones, empty in its old rows."""
    rows = read(path)
    if not rows or list(rows[0]) != FIELDS:
        _write(path, rows)
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, FIELDS, lineterminator="\n").writerow(values)


def read(path: Path) -> list[dict[str, str]]:
    """All rows, oldest first; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def last(path: Path, values: Mapping[str, Any]) -> dict[str, str] | None:
    """The newest row of the same setting on the same kind of machine."""
    for row in reversed(read(path)):
        if all((row.get(name) or "") == _text(values.get(name)) for name in (*SETTING, *MACHINE)):
            return row
    return None


def change(before: Mapping[str, str] | None, now: Mapping[str, Any]) -> str:
    """What to print of a time beside the one before it."""
    if before is None:
        return "no earlier row"
    since = f"{before['date']}" + (f" ({before['commit']})" if before.get("commit") else "")
    for name, row in (("that", before), ("this", now)):
        if float(row.get("others") or 0) > QUIET:
            return f"not compared with {since}: others disturbed {name} run"
    ratio = float(now["seconds"]) / float(before["seconds"])
    noise = max(NOISE, *(float(row.get("noise") or 0) for row in (before, now)))
    if 1 / (1 + noise) <= ratio <= 1 + noise:
        return f"as on {since} within noise of {noise:.0%}"
    return f"{abs(ratio - 1):.0%} {'slower' if ratio > 1 else 'faster'} than on {since}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
