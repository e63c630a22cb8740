"""The map and the kind of study of docs/extending.md, in a folder of their own, run for real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from wordsens.results import read_cell

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extending.md"
CELLS = 6
TARGETS = ("cold", "spread")


def files() -> dict[str, str]:
    """The files that the page shows, by their names."""
    blocks = re.findall(r"(?ms)^```\w+ title=(\S+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"))
    return dict(blocks)


class Folder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    def snakemake(
        self, *arguments: str, configured: tuple[str, ...] = ("mine.yaml",)
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        return subprocess.run(
            [*command, *arguments, "--configfile", *configured],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def planned(self) -> dict[str, int]:
        done = self.snakemake("-n", *TARGETS)
        assert done.returncode == 0, done.stdout + done.stderr
        said = done.stdout + done.stderr
        if "Nothing to be done" in said:
            return {}
        table = said.split("Job stats:")[1].split("total")[0]
        return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}

    def planned_after(self, name: str) -> dict[str, int]:
        file = self.folder / name
        before = file.read_text()
        file.write_text(before + "\n# a remark\n")
        try:
            return {rule: n for rule, n in self.planned().items() if rule.endswith("_cell")}
        finally:
            file.write_text(before)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("outside") / "a folder")
    done = folder.snakemake("--cores", "2", *TARGETS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return folder


def test_cells_lie_where_their_point_says(mine: Folder) -> None:
    cells = sorted((mine.folder / "results" / "scales" / "spread").rglob("*.h5"))
    assert len(cells) == CELLS
    path = mine.folder / "results/scales/spread/rho~0.25/init~uniform.h5"
    arrays, attributes = read_cell(path)
    assert (attributes["rho"], attributes["init"], attributes["trials"]) == (0.25, "uniform", 3)
    assert (arrays["sup"] > 0).all()


def test_the_figures_show_what_was_found(mine: Folder) -> None:
    numbers = pd.read_csv(mine.folder / "results" / "figures" / "spread.csv")
    assert sorted(set(numbers["rho"])) == [0.25, 1, 4]
    assert (numbers.groupby("init")["mean"].apply(list).map(len) == 3).all()
    for name in TARGETS:
        assert (mine.folder / "results" / "figures" / f"{name}.pdf").stat().st_size > 1000
    cold = pd.read_csv(mine.folder / "results" / "tables" / "cold.csv")
    assert set(cold["map"]) == {"cold_raf"}
    caption = (mine.folder / "results" / "figures" / "spread.rst").read_text()
    assert caption.startswith("Word sensitivity of attention against the scale of its weights")


def test_provenance_and_rules_carry_their_names(mine: Folder) -> None:
    assert "uniform" in (mine.folder / "results" / "provenance" / "spread.html").read_text()
    rules = mine.snakemake("--list").stdout.split()
    assert {"scales_cell", "scales_table", "sensitivity_cell", "prompts_table"} <= set(rules)
    resources = ("--set-resources", "scales_cell:mem_mb=77", "--forceall")
    assert "mem_mb=77" in mine.snakemake("-n", "spread", *resources).stdout


def test_an_edit_of_a_plugin_computes_its_own_cells(mine: Folder) -> None:
    assert mine.planned() == {}
    assert mine.planned_after("cold.py") == {"sensitivity_cell": 3}
    assert mine.planned_after("scales/cell.py") == {"scales_cell": CELLS}


def test_the_map_passes_the_suite_that_the_package_ships(mine: Folder) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cold.py"],
        cwd=mine.folder,
        env={**os.environ, "PYTHONPATH": f"{mine.folder}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"plugins": ["nowhere.py"]}, ["plugins", "'nowhere.py'", "neither"]),
        ({"plugins": ["broken.py"]}, ["plugins", "broken.py", "line 2"]),
        ({"plugins": ["failing.py"]}, ["plugins", "failing.py", "line 3", "no_such_module"]),
        ({"plugins": ["empty.py"]}, ["empty.py", "neither a feature map"]),
        ({"plugins": ["taken.py"]}, ["raf", "taken.py"]),
        ({"plugins": "cold.py"}, ["plugins: is 'cold.py'", "a list"]),
        ({"scales": {"spread": {"rho": [-1]}}}, ["scales.spread.rho[0]: is -1", "above 0"]),
        ({"scales": {"spread": {"init": ["gauss"]}}}, ["did you mean gaussian?"]),
        ({"scales": {"cold": {"rho": [1], "init": ["gaussian"], "d": 4, "n": 4}}}, ["also a name"]),
        ({"figures": {"spread": {"sweeps": ["cold"]}}}, ["which scales lacks"]),
        ({"figures": {"scales_cell": {"kind": "scales", "sweeps": ["spread"]}}}, ["of a rule"]),
    ],
)
def test_mistakes_are_one_line_before_any_job(mine: Folder, change: dict, says: list[str]) -> None:
    (mine.folder / "broken.py").write_text("x = 1\ndef f(:\n")
    (mine.folder / "failing.py").write_text("def f():\n    pass\nimport no_such_module\n")
    (mine.folder / "empty.py").write_text("x = 1\n")
    taken = files()["cold.py"].replace("cold_raf", "raf").replace("ColdAttention", "Taken")
    (mine.folder / "taken.py").write_text(taken)
    (mine.folder / "more.json").write_text(json.dumps(change))
    done = mine.snakemake("-n", "spread", configured=("mine.yaml", "more.json"))
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "Traceback" not in said
    assert any(all(part in line for part in says) for line in said.splitlines()), said[-2000:]
