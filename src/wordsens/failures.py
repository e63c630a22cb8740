"""What a failed run was stopped by, without what Snakemake says around it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

# A disk with less than this is taken for full.
LITTLE = 1 << 20
_LOG = re.compile(r"^ *log: (\S.*?\.log)(?:, .*)? \(check log file", re.MULTILINE)


def what_failed(logs: Iterable[str | Path], results: str | Path = "results") -> str:
    """The lines by which jobs said why they failed, each once, from Snakemake's own logs.

    Where a job said nothing, its log is named; a full disk is named, too.  A quiet Snakemake
    (``-q``) names no log, and all that jobs wrote since it started are asked.
    """
    named: list[str] = []
    for log in map(Path, logs):
        with suppress(OSError):
            named += _LOG.findall(log.read_text(encoding="utf-8", errors="replace"))
        with suppress(OSError, ValueError):
            if not named:
                started = datetime.strptime(log.name[:24], "%Y-%m-%dT%H%M%S.%f").timestamp()
                written = sorted(Path(results, "logs").rglob("*.log"))
                recent = [path for path in written if path.stat().st_mtime >= started]
                named += [str(path) for path in recent if _said(path)]
    lines: dict[str, None] = {}
    for path in named:
        said = _said(Path(path))
        lines |= dict.fromkeys(said or [f"a job stopped without a message; see {path}"])
    for place in dict.fromkeys((str(results), ".")):
        if Path(place).exists() and (free := shutil.disk_usage(place).free) < LITTLE:
            lines[
                f"{Path(place).absolute()}: {free // 1024} kB of disk space are left; free some "
                "space and run snakemake again"
            ] = None
            break
    return "\n".join(["", "What failed:", *(f"  {line}" for line in lines)])


def _said(log: Path) -> list[str]:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    said = [line for line in text.splitlines() if line.startswith("error: ")]
    if said or "Traceback" not in text:
        return [line.removeprefix("error: ") for line in said]
    last = text.strip().splitlines()[-1]
    return [f"{last}  (a fault of wordsens; the whole traceback is in {log})"]
