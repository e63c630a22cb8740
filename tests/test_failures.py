"""A failed run's reasons, each once, from what Snakemake and its jobs logged."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from wordsens.failures import what_failed


def entry(log: Path) -> str:
    return f"Error in rule x:\n    log: {log} (check log file(s) for error details)\n"


def test_each_reason_once_and_a_silent_job_by_its_log(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "a.log": "reads\nerror: a.h5: damaged; delete it\n",
        "b.log": "error: a.h5: damaged; delete it\n",
        "a silent.log": "",
        "bug.log": "Traceback (most recent call last):\n  File x\nKeyError: 'y'\n",
    }.items():
        Path(name).write_text(text)
    logs = ["a.log", "b.log", "a silent.log", "bug.log", "gone.log"]
    Path("snakemake.log").write_text("".join(entry(Path(name)) for name in logs))
    said = what_failed(["snakemake.log", "not there"])
    assert said.splitlines() == [
        "",
        "What failed:",
        "  a.h5: damaged; delete it",
        "  a job stopped without a message; see a silent.log",
        "  KeyError: 'y'  (a fault of wordsens; the whole traceback is in bug.log)",
        "  a job stopped without a message; see gone.log",
    ]


def test_a_quiet_snakemake_names_no_log_but_the_reason_is_found(tmp_path: Path, monkeypatch):
    """What jobs wrote since the run started, which is in the name of Snakemake's log."""
    monkeypatch.chdir(tmp_path)
    logs = Path("results/logs/cells")
    logs.mkdir(parents=True)
    for name, text in {"old": "error: old\n", "new": "error: new\n", "fine": "done\n"}.items():
        (logs / f"{name}.log").write_text(text)
    start = datetime.now() - timedelta(minutes=1)
    long_ago = (start - timedelta(hours=1)).timestamp()
    os.utime(logs / "old.log", (long_ago, long_ago))
    quiet = Path(start.strftime("%Y-%m-%dT%H%M%S.%f") + ".snakemake.log")
    quiet.write_text("Error in rule x, jobid: 4\n")
    assert what_failed([quiet]).splitlines() == ["", "What failed:", "  new"]
