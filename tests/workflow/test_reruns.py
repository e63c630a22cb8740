"""An edit of the code re-runs what it can change, and old results can be accepted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GAUSSIAN = {"dataset": "synthetic", "d": [4], "trials": 1}
CONFIG = {
    "sweeps": {
        "t_rf": {"map": "rf", **GAUSSIAN, "n": [2, 3], "steps": 1},
        "t_raf": {"map": "raf", **GAUSSIAN, "n": [2, 3, 4], "steps": 1},
    },
    "generalization": {"t_study": {"map": "raf", **GAUSSIAN, "n": [3], "N": [5]}},
    "figures": {
        "t_lengths": {"kind": "context_length", "sweeps": ["t_rf", "t_raf"]},
        "t_errors": {"kind": "generalization", "sweeps": ["t_study"], "penalties": [0]},
    },
}


class Copy:
    """A clone of the project whose code may be edited, with a finished small run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Snakefile", "config.yaml"):
            shutil.copy(ROOT / name, folder)
        for name in ("workflow", "scripts", "envs", "profiles", "src"):
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        (folder / "mine.json").write_text(json.dumps(CONFIG))

    def snakemake(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "snakemake", *CONFIG["figures"], *arguments]
        done = subprocess.run(
            [*command, "--configfile", "mine.json"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout + done.stderr

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs per rule, the figures' own targets aside."""
        said = self.snakemake("-n", *arguments)
        if "Nothing to be done" in said:
            return {}
        table = said.split("Job stats:")[1].split("total")[0]
        counts = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", table, re.M)}
        return {name: n for name, n in counts.items() if name not in CONFIG["figures"]}

    def planned_after(self, path: str) -> dict[str, int]:
        """Jobs once a line that changes nothing was added to a source; the source is put back."""
        file = self.folder / path
        before = file.read_bytes()
        file.write_bytes(before + b"\n_edited = True\n")
        try:
            return self.planned()
        finally:
            file.write_bytes(before)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("a clone"))
    copy.snakemake("--cores", "2")
    assert copy.planned() == {}
    return copy


ERRORS = {"generalization_cell": 1, "generalization_table": 1, "draw_figure": 1}
LENGTHS = {"sensitivity_cell": 5, "sensitivity_table": 2, "draw_figure": 1}
ALL = {**LENGTHS, **ERRORS, "draw_figure": 2}


@pytest.mark.parametrize(
    ("edited", "jobs"),
    [
        ("src/wordsens/figures/style.py", {"draw_figure": 2}),
        ("src/wordsens/search/ascent.py", ALL),
        ("src/wordsens/search/losses.py", ERRORS),
        ("src/wordsens/studies/sensitivity/cell.py", LENGTHS),
        ("src/wordsens/maps/attention/view.py", ALL | {"sensitivity_cell": 3, "sensitivity_table": 1}),
        ("src/wordsens/maps/qkv.py", {}),
        ("src/wordsens/studies/generalization/figures/tradeoff.py", {}),
        ("src/wordsens/studies/sensitivity/figures/context_length.py", {"draw_figure": 1}),
        ("src/wordsens/studies/sensitivity/__init__.py", {}),
        ("src/wordsens/progress.py", {}),
        ("scripts/embed.py", {}),
    ],
)
def test_an_edit_reruns_what_it_can_change(copy: Copy, edited: str, jobs: dict) -> None:
    assert copy.planned_after(edited) == jobs


def test_a_new_date_reruns_nothing(copy: Copy) -> None:
    for file in (*copy.folder.glob("scripts/*.py"), *copy.folder.rglob("src/**/*.py")):
        file.touch()
    assert copy.planned() == {}


def test_old_results_can_be_accepted(copy: Copy) -> None:
    """As the documentation says: for one run, or for good."""
    edited = copy.folder / "src" / "wordsens" / "search" / "ascent.py"
    before = edited.read_bytes()
    cell = next((copy.folder / "results" / "sensitivity").rglob("*.h5"))
    old = cell.read_bytes()
    edited.write_bytes(before + b"\n_edited = True\n")
    try:
        assert copy.planned("--rerun-triggers", "mtime") == {}
        assert copy.planned()["sensitivity_cell"] == 5
        copy.snakemake("--touch", "--cores", "1")
        assert copy.planned() == {}
        assert cell.read_bytes() == old
    finally:
        edited.write_bytes(before)
