"""The table of the GPU check, and what did not agree."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import wordsens
from wordsens import kernels

CARD = torch.cuda.is_available()
FIELDS = ["date", "device", "what", "size", "ms", "plain_ms", "gb", "gb_per_s", "share", "note"]


@dataclass
class Report:
    """Rows of the table, and what did not agree."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    copy: float = float("nan")  # bytes per second, read and written

    def check(self, what: str, got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
        scale = wanted.abs().max().clamp_min(1e-30)
        error = float((got - wanted).abs().max() / scale)
        good = error <= tolerance  # a NaN is no agreement
        print(f"  {'ok ' if good else 'BAD'} {what}: relative error {error:.1e}", flush=True)
        if not good:
            self.failures.append(f"{what}: relative error {error:.1e}, allowed {tolerance:.0e}")
        return good

    def add(
        self, what: str, size: str, seconds: float, plain: float = float("nan"),
        moved: float = float("nan"), note: str = "",
    ) -> None:  # fmt: skip
        """``moved`` bytes from and to memory; no figure of speed is given without a card."""
        row: dict[str, Any] = dict.fromkeys(FIELDS, "")
        row |= {"what": what, "size": size, "note": note}
        if CARD:
            row |= {"ms": f"{1e3 * seconds:.3f}"}
            if plain == plain:
                row |= {"plain_ms": f"{1e3 * plain:.3f}"}
            if moved == moved:
                row |= {
                    "gb": f"{moved / 1e9:.3f}",
                    "gb_per_s": f"{moved / seconds / 1e9:.0f}",
                    "share": f"{moved / seconds / self.copy:.0%}",
                }
        self.rows.append(row)


def triton_version() -> str:
    if not kernels.has_triton():
        return "no triton"
    import triton

    return f"triton {triton.__version__}"


def write(report: Report, name: str, folder: Path) -> None:
    """Append to gpu.csv what was measured on a card."""
    if not CARD:
        return
    path = folder / "gpu.csv"
    versions = f"torch {torch.__version__}, {triton_version()}, wordsens {wordsens.__version__}"
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        for row in report.rows:
            writer.writerow(row | {"date": date, "device": f"{name}, {versions}"})


def print_table(rows: list[dict[str, Any]]) -> None:
    shown = FIELDS[2:]
    widths = {k: max(len(k), *(len(str(row[k])) for row in rows)) for k in shown}
    for row in [dict(zip(shown, shown, strict=True)), *rows]:
        print("  ".join(str(row[k]).ljust(widths[k]) for k in shown).rstrip())
