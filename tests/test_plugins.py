"""Kinds of study and maps from plugin files and from installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KIND = """
from wordsens.studies import Study

class Counts(Study):
    kind, section, folder = "counts", "counts", "counts"
    axes = {"n": int}
    figures = {"counts": "counts"}
"""


def run(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT / 'src'}"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=path)


def install(path: Path, value: str) -> None:
    """A package that offers a kind of study, as pip would leave it."""
    (path / "counting.py").write_text(KIND)
    info = path / "counting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[wordsens.studies]\ncounts = {value}\n")


def test_an_installed_package_offers_a_kind(tmp_path: Path) -> None:
    install(tmp_path, "counting:Counts")
    code = "from wordsens.studies import kinds, figure_kinds; print(list(kinds()), figure_kinds())"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'counts'] " in done.stdout, "after those of the library"
    assert "'counts': <class 'counting.Counts'>" in done.stdout


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    install(tmp_path, "counting:Nothing")
    done = run("from wordsens.studies import kinds; kinds()", tmp_path)
    assert "UserError: counting offers the kind of study counting:Nothing" in done.stderr


def test_a_plugin_is_read_once_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "counting.py").write_text(KIND)
    code = """
from wordsens.plugins import load_plugins, source
from wordsens.studies import kinds
load_plugins(["a/counting.py", "a/counting.py"])
print(source(kinds()["counts"]).parent.name, source(kinds()["layers"]))
load_plugins(["b/counting.py"])
"""
    done = run(code, tmp_path)
    assert done.stdout.split() == ["a", "None"]
    assert "have the same name" in done.stderr


def test_names_that_are_taken_are_refused(tmp_path: Path) -> None:
    (tmp_path / "taking.py").write_text(KIND.replace('"counts", "counts",', '"mine", "layers",'))
    done = run("from wordsens.plugins import load_plugins; load_plugins(['taking.py'])", tmp_path)
    assert "section 'layers' is already that of wordsens.studies.layers" in done.stderr
