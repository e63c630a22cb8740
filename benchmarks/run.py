"""Measure wordsens against the published procedure and write the tables.

    python -m benchmarks.run --preset small|full [--threads N] [--only TEXT]

Every measurement runs in a process of its own.  ``benchmarks/results.md`` holds the last run;
``benchmarks/results.csv`` grows by one row per measurement, with the machine and the versions.
This process imports neither Torch nor NumPy: on Linux a child's peak memory is at least that of
the parent it was started from.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.settings import PRESETS, Setting

QUIET = 0.05  # share of the machine that others may take before a time is no longer trusted
SAME_WEIGHTS = ("raf", "relu_raf")  # only there a ratio of two values says which search is better
HERE = Path(__file__).resolve().parent
FIELDS = [
    *("date", "who", "map", "n", "d", "depth", "positions", "seeds", "seconds", "peak_mib"),
    *("value", "bound", "spread", "steps", "steps_timed", "others", "threads", "cores", "machine"),
    *("python", "torch", "numpy", "wordsens"),
]
HEADER = [
    *("setting", "published: time", "memory", "value", "steps timed"),
    *("ours: time", "memory", "value", "bound", "faster", "value ratio"),
]


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

    rows, known = [], {}
    for setting in settings:
        key = (setting.map, setting.n, setting.d, setting.depth)
        if setting.baseline is not None and key not in known:
            known[key] = _measured("published", setting, options)
        mine = _measured("ours", setting, options)
        rows.append((setting, known.get(key), mine))
    path = options.folder / "results.md"
    path.write_text(markdown(rows, options.preset), encoding="utf-8")
    print(f"\nwrote {path}")
    return 0


def _measured(who: str, setting: Setting, options: argparse.Namespace) -> dict[str, Any]:
    """One measurement in a child process, printed and appended to the CSV at once."""
    print(f"{setting.label:<44} {who:<10}", end="", flush=True)
    request = {"who": who, "setting": asdict(setting), "threads": options.threads}
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", json.dumps({**request, "seed": options.seed})],
        cwd=HERE.parent,
        env={**os.environ, "OMP_NUM_THREADS": str(options.threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        raise SystemExit(f"\n{setting.label}: the {who} measurement ended with {child.returncode}")
    result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    took = f"{duration(result['seconds']):>10} {memory(result['peak_mib'] * 2**20):>9}"
    note = f"  disturbed: others took {result['others']:.0%}" if disturbed(result) else ""
    print(took + note, flush=True)
    append(options.folder / "results.csv", row(who, setting, result))
    return result


def disturbed(result: dict[str, Any]) -> bool:
    """Whether other processes took so much of the machine that the time means nothing."""
    return (result["others"] or 0) > QUIET


def row(who: str, setting: Setting, result: dict[str, Any]) -> dict[str, Any]:
    """A measurement as a row of the CSV."""
    fields = {
        **asdict(setting),
        **result,
        **result["versions"],
        "who": who,
        "positions": setting.positions if who == "ours" else "first",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "cores": os.cpu_count(),
        "machine": processor(),
        "python": platform.python_version(),
    }
    return {name: fields.get(name) for name in FIELDS}


def append(path: Path, values: dict[str, Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(values)


Row = tuple[Setting, dict[str, Any] | None, dict[str, Any]]


def markdown(rows: Sequence[Row], preset: str) -> str:
    """The measurements as one table, with what a reader must know to read it."""
    versions = rows[0][2]["versions"]
    lines = [
        f"# Benchmark, preset {preset}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, {os.cpu_count()} cores, "
        f"{rows[0][2]['threads']} threads, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        "Every line is one trial on one Gaussian sample with k = n·d, both sides in float64. "
        "Attention maps share their weights W; for rf and drf the two sides draw matrices of the "
        "same law, so that their values differ by chance and no ratio is formed. The published "
        "procedure works on the first position only, whatever ours "
        "searches. Time includes drawing the weights; memory is the peak of the whole process, "
        "about 0.25 GB of which is PyTorch itself. In parentheses: what the matrices alone would "
        "take in float32 where the procedure was not run. A time marked * was disturbed by other "
        f"processes (they took over {QUIET:.0%} of the machine); no ratio is formed from it.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "|---" + "|--:" * (len(HEADER) - 1) + "|",
    ]
    lines += ["| " + " | ".join(_cells(*line)) + " |" for line in rows if line[0].seeds == 1]
    repeated = [line for line in rows if line[0].seeds > 1]
    if repeated:
        lines += [
            "",
            "Runs that differ only in their starts, on one map and one sample:",
            "",
            "| setting | runs | largest value | bound | (max − min)/max | time of a run (median) |",
            "|---|--:|--:|--:|--:|--:|",
        ]
        lines += [
            f"| {setting.label} | {setting.seeds} | {mine['value']:.4g} | {_bound(mine)} "
            f"| {mine['spread']:.2%} | {_time(mine)} |"
            for setting, _, mine in repeated
        ]
    return "\n".join(lines) + "\n"


def _cells(setting: Setting, theirs: dict[str, Any] | None, mine: dict[str, Any]) -> list[str]:
    own = [_time(mine), memory(mine["peak_mib"] * 2**20), f"{mine['value']:.4g}"]
    if theirs is None:
        needed = f"({memory(needed_bytes(setting))})"
        return [setting.label, "", needed, "", "", *own, _bound(mine), "", ""]
    comparable = setting.map in SAME_WEIGHTS and setting.positions == "first"
    whole = theirs["steps_timed"] == theirs["steps"]
    value = f"{theirs['value']:.4g}" if whole else ""
    return [
        setting.label,
        _time(theirs) + ("" if whole else " (extrapolated)"),
        memory(theirs["peak_mib"] * 2**20),
        value,
        f"{theirs['steps_timed']} of {theirs['steps']}",
        *own,
        _bound(mine),
        "" if disturbed(theirs) or disturbed(mine) else f"{_ratio(theirs, mine):,.3g}×",
        f"{mine['value'] / theirs['value']:.3f}" if whole and comparable else "",
    ]


def needed_bytes(setting: Setting) -> int:
    """What the stored matrices of the published procedure take in float32."""
    D, d = setting.n * setting.d, setting.d
    return 4 * (setting.depth * D * D if setting.map in ("rf", "drf") else d * d)


def _time(result: dict[str, Any]) -> str:
    return duration(result["seconds"]) + ("*" if disturbed(result) else "")


def _ratio(theirs: dict[str, Any], mine: dict[str, Any]) -> float:
    return float(theirs["seconds"]) / float(mine["seconds"])


def _bound(mine: dict[str, Any]) -> str:
    return "" if mine["bound"] != mine["bound"] else f"{mine['bound']:.4g}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: 0.012 s, 8.4 s, 7.1 min, 3.5 h, 12 days."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return (
                f"{seconds / size:.2g} {unit}" if seconds < 10 else f"{seconds / size:.3g} {unit}"
            )
    return f"{seconds / 86400:.3g} days"


def memory(size: float) -> str:
    """Bytes in GB (10⁹), as the papers count them."""
    return f"{size / 1e9:.2g} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
