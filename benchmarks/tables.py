"""The measurements of a benchmark as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.settings import PENALTIES, Fit, Measured, Setting, Training, Words

QUIET = 0.05  # share of the machine that others may take before a time is no longer trusted
SAME = 1e-6  # losses that differ by less are equal
SAME_WEIGHTS = ("raf", "relu_raf")  # only there a ratio of two values says which search is better
HEADER = [
    *("setting", "published: time", "memory", "value", "steps timed"),
    *("ours: time", "memory", "value", "bound", "faster", "value ratio"),
]
TRAINING_HEADER = [
    *("setting", "published: time", "memory", "steps timed", "ours: time", "memory", "faster"),
    *("losses above the published", "largest excess"),
]
TRAINED = (
    "Generalization, one trial: fit N samples, then minimise the losses features, alignment, "
    "error_finetuned and error_retrained over Δ, each with the penalties "
    f"{', '.join(f'{p:g}' for p in PENALTIES)}, on the same samples, labels and weights. The "
    "published procedure forms the p×p projector and minimises one loss at a time."
)
FITTED = (
    "Training alone, in float64. The published procedure's projector would take p² numbers. The "
    "residual is the largest distance of a training label from the model's answer."
)
WORDS_HEADER = [
    *("setting", "recomputing: time", "memory", "substitutions timed"),
    *("ours: time", "memory", "largest change", "faster", "largest deviation"),
]
WORDS = (
    "Discrete words: every word of a random vocabulary at every position of a sample, exactly. "
    "Recomputing evaluates the whole map in float64 for some of the substitutions, and is "
    "extrapolated to all. The deviation is that of our relative changes from the recomputed ones."
)

Result = dict[str, Any]
Row = tuple[Measured, Result | None, Result | None]


def disturbed(result: Result) -> bool:
    """Whether other processes took so much of the machine that the time means nothing."""
    return (result["others"] or 0) > QUIET


def markdown(rows: Sequence[Row], preset: str) -> str:
    """The measurements as tables, with what a reader must know to read them."""
    nothing: Result = {"versions": {}, "threads": "?"}
    measured = next((mine for _, _, mine in rows if mine), nothing)
    lines = [
        f"# Benchmark, preset {preset}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {processor()}, {os.cpu_count()} cores, "
        f"{measured['threads']} threads, Python {platform.python_version()}, "
        + ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
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
        _line(HEADER),
        "|---" + "|--:" * (len(HEADER) - 1) + "|",
    ]
    searches = [(s, t, m) for s, t, m in rows if isinstance(s, Setting)]
    lines += [_line(_cells(*line)) for line in searches if line[0].seeds == 1]
    repeated = [(s, mine) for s, _, mine in searches if s.seeds > 1 and mine]
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
            for setting, mine in repeated
        ]
    trained = [(s, t, m) for s, t, m in rows if isinstance(s, Training)]
    if trained:
        lines += ["", TRAINED, "", _line(TRAINING_HEADER)]
        lines.append("|---" + "|--:" * (len(TRAINING_HEADER) - 1) + "|")
        lines += [_line(_training_cells(*line)) for line in trained]
    fitted = [(s, m) for s, _, m in rows if isinstance(s, Fit)]
    if fitted:
        lines += ["", FITTED, "", "| setting | time | memory | residual |", "|---|--:|--:|--:|"]
        for setting, mine in fitted:
            residual = f"{mine['value']:.1e}" if mine else ""
            lines.append(_line([setting.label, *_ours(mine), residual]))
    discrete = [(s, t, m) for s, t, m in rows if isinstance(s, Words)]
    if discrete:
        lines += ["", WORDS, "", _line(WORDS_HEADER)]
        lines.append("|---" + "|--:" * (len(WORDS_HEADER) - 1) + "|")
        lines += [_line(_words_cells(*line)) for line in discrete]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _training_cells(setting: Training, theirs: Result | None, mine: Result | None) -> list[str]:
    cells = [setting.label, *_theirs(theirs), *_ours(mine)]
    losses = theirs["losses"] if theirs else None
    if theirs is None or mine is None:
        return [*cells, "", "", ""]
    cells.append(_faster(theirs, mine))
    if losses is None:
        return [*cells, "", ""]
    pairs = list(zip(mine["losses"], losses, strict=True))
    above = [a / b - 1 for a, b in pairs if a > b * (1 + SAME) + SAME]
    worst = f"{max(above):.2%}" if above else ""
    return [*cells, f"{len(above)} of {len(pairs)}", worst]


def _words_cells(setting: Words, theirs: Result | None, mine: Result | None) -> list[str]:
    cells = [setting.label, *_theirs(theirs), *_ours(mine)]
    if mine is None:
        return [*cells, "", "", ""]
    faster = _faster(theirs, mine) if theirs else ""
    return [*cells, f"{mine['value']:.4g}", faster, f"{mine['deviation']:.1e}"]


def _cells(setting: Setting, theirs: Result | None, mine: Result | None) -> list[str]:
    own = [*_ours(mine), f"{mine['value']:.4g}" if mine else "", _bound(mine) if mine else ""]
    if theirs is None:
        needed = f"({memory(needed_bytes(setting))})"
        return [setting.label, "", needed, "", "", *own, "", ""]
    whole = theirs["steps_timed"] == theirs["steps"]
    time, size, timed = _theirs(theirs)
    value = f"{theirs['value']:.4g}" if whole else ""
    cells = [setting.label, time, size, value, timed, *own]
    if mine is None:
        return [*cells, "", ""]
    comparable = whole and setting.map in SAME_WEIGHTS and setting.positions == "first"
    ratio = f"{mine['value'] / theirs['value']:.3f}" if comparable else ""
    return [*cells, _faster(theirs, mine), ratio]


def _theirs(result: Result | None) -> list[str]:
    """Time, memory, and how many of the steps were timed."""
    if result is None:
        return ["", "", ""]
    whole = result["steps_timed"] == result["steps"]
    return [
        _time(result) + ("" if whole else " (extrapolated)"),
        memory(result["peak_mib"] * 2**20),
        f"{result['steps_timed']} of {result['steps']}",
    ]


def _ours(result: Result | None) -> list[str]:
    return [_time(result), memory(result["peak_mib"] * 2**20)] if result else ["failed", ""]


def _faster(theirs: Result, mine: Result) -> str:
    if disturbed(theirs) or disturbed(mine):
        return ""
    return f"{theirs['seconds'] / mine['seconds']:,.3g}×"


def needed_bytes(setting: Setting) -> int:
    """What the stored matrices of the published procedure take in float32."""
    D, d = setting.n * setting.d, setting.d
    return 4 * (setting.depth * D * D if setting.map in ("rf", "drf") else d * d)


def _time(result: Result) -> str:
    return duration(result["seconds"]) + ("*" if disturbed(result) else "")


def _bound(mine: Result) -> str:
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
