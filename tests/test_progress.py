"""Progress is said at intervals, with rate and time left, in lines without control characters."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from wordsens import progress
from wordsens.progress import advance, stage, track

LINE = re.compile(r"raf: [\d.]+ of 8 trials, [\d.e+]+/(s|min), about \d+ s left")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_lines_with_rate_and_time_left_at_intervals(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with track("raf", 8, "trials"):
        for second in range(1, 31):
            clock.now += 1
            advance(second, 40)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4, "after 5, 15 and 25 s, and at the end"
    assert all(LINE.fullmatch(line) for line in lines[:-1])
    assert lines[0] == "raf: 1 of 8 trials, 0.2/s, about 35 s left"
    assert lines[-1] == "raf: 8 trials in 30 s"


def test_short_work_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with track("raf", 8, "trials"):
        clock.now += 4
        advance(1, 2)
    assert capsys.readouterr().err == ""


def test_parts_of_parts_add_up(clock: Clock) -> None:
    with track("raf", 8, "trials", done=2):
        work = progress._current.get()
        assert work is not None
        for start in (2, 5):
            with stage(0.5):
                for half in range(2):
                    with stage(0.5):
                        advance(1, 2)
                        assert work.position == pytest.approx(start + 1.5 * half + 0.75)
        assert work.position == pytest.approx(8)


def test_a_rate_counts_only_what_this_run_did(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with track("reviews", 100, "samples", done=80):
        clock.now += 10
        advance(1, 2)
    assert capsys.readouterr().err.startswith("reviews: 90 of 100 samples, 1/s, about 10 s left\n")


def test_nobody_listens_in_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    with stage(0.5):
        advance(1, 2)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_the_terminal_and_lines_in_the_log(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wordsens.scripting import job

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "FIRST", 0.0)
    log = tmp_path / "cell.log"
    with job(SimpleNamespace(threads=1, log=[log])), track("raf", 8, "trials"):
        for step in range(1, 9):
            clock.now += 11
            advance(step, 8)
    assert "\r" in terminal.getvalue()
    text = log.read_bytes().decode()  # as it is, "\r" and all
    assert not re.search(r"[^\n -~]", text), "no control characters"
    lines = text.splitlines()
    assert len(lines) >= 8
    assert "of 8 trials" in lines[3]


def test_a_long_search_speaks_and_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of cell reports from inside its search, up to exactly the whole."""
    code = """
import sys
from wordsens import progress
from wordsens.progress import track
progress.FIRST = progress.INTERVAL = 0.0
from wordsens.studies.generalization import cell as generalization
from wordsens.studies.sensitivity import cell as sensitivity
from tests.studies.cells import complete
common = {"dataset": "synthetic", "n": 4, "d": 6, "trials": 2, "seed": 1}
for run, cell in (
    (sensitivity, {"map": "raf", "depth": 1, "words": 1, "positions": "all", "steps": 5}),
    (sensitivity, {"map": "rf", "words": 1, "positions": "first", "search": "published"}),
    (generalization, {"map": "raf", "N": 6}),
    (generalization, {"map": "rf", "N": 6}),
):
    cell = complete(run.__name__.split(".")[-2], **common, **cell)
    plain = run.run(cell, {}, "cpu")[0]
    with track("cell", 2, "trials"):
        spoken = run.run(cell, {}, "cpu")[0]
        print(f"end {progress._current.get().position}", file=sys.stderr)
    same = all((plain[k] == spoken[k]).all() for k in ("sup", "value") if k in plain)
    print(f"same {same}", file=sys.stderr)
"""
    root = Path(__file__).resolve().parents[1]  # from which tests.… is imported
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    parts = re.split(r"same (\w+)\n", done.stderr)
    assert parts[1::2] == ["True"] * 4
    for said in parts[:-1:2]:
        values = [float(value) for value in re.findall(r"cell: ([\d.e-]+) of 2", said)]
        assert len(values) > 10
        assert values == sorted(values), "it never goes back"
        assert float(re.search(r"end ([\d.]+)", said)[1]) == pytest.approx(2)
