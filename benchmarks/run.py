"""Measure wordsens against the published procedure and write the tables.

    python -m benchmarks.run --preset small|full [--threads N] [--only TEXT]

Every measurement runs in a process of its own.  ``benchmarks/results.md`` holds the last run;
``benchmarks/results.csv`` grows by one row per measurement, with the commit, the machine and the
versions, and each is compared with the last row of its kind (``history``).
This process imports neither Torch nor NumPy: on Linux a child's peak memory is at least that of
the parent it was started from.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.history import FIELDS, append, change, commit, last
from benchmarks.settings import PRESETS, Fit, Measured, Setting, Words
from benchmarks.tables import Result, Row, disturbed, duration, markdown, memory, processor

HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="settings whose label contains this text")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the tables are written")
    options = parser.parse_args(arguments)
    settings = [s for s in PRESETS[options.preset] if options.only in s.label]
    if not settings:
        parser.error(f"no setting of preset {options.preset} contains {options.only!r}")

    options.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    known: dict[Any, Result | None] = {}
    path = options.folder / "results.md"
    for setting in settings:
        key = replace(setting, positions="first") if isinstance(setting, Setting) else setting
        if setting.baseline is not None and key not in known:
            known[key] = _measured("published", setting, options)
        rows.append((setting, known.get(key), _measured("ours", setting, options)))
        path.write_text(markdown(rows, options.preset), encoding="utf-8")
    print(f"\nwrote {path}")
    failed = [setting.label for setting, _, mine in rows if mine is None]
    if failed:
        print(f"no result for: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measured(who: str, setting: Measured, options: argparse.Namespace) -> Result | None:
    """One measurement in a child process, printed and appended to the CSV at once.

    None where the child died (of memory, say): the other settings are still worth having.
    """
    print(f"{setting.label:<44} {who:<10}", end="", flush=True)
    request = {"who": who, "kind": type(setting).__name__, "setting": asdict(setting)}
    request |= {"threads": options.threads, "seed": options.seed}
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", json.dumps(request)],
        cwd=HERE.parent,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        print(f"ended with {child.returncode}", flush=True)
        return None
    result: Result = json.loads(child.stdout.splitlines()[-1])
    took = f"{duration(result['seconds']):>10} {memory(result['peak_mib'] * 2**20):>9}"
    note = f"  disturbed: others took {result['others']:.0%}" if disturbed(result) else ""
    path, values = options.folder / "results.csv", row(who, setting, result)
    print(f"{took}{note}  {change(last(path, values), values)}", flush=True)
    append(path, values)
    return result


def row(who: str, setting: Measured, result: Result) -> dict[str, Any]:
    """A measurement as a row of the CSV."""
    fields = {
        **asdict(setting),
        **result,
        **result["versions"],
        "who": who,
        "positions": _positions(setting) if who == "ours" else "first",
        "commit": commit(HERE),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "cores": os.cpu_count(),
        "machine": processor(),
        "python": platform.python_version(),
    }
    return {name: fields.get(name) for name in FIELDS}


def _positions(setting: Measured) -> str:
    if isinstance(setting, Words | Fit):
        return "all" if isinstance(setting, Words) else "none"
    return getattr(setting, "positions", "first")


if __name__ == "__main__":
    sys.exit(main())
