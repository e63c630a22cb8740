"""Names and paths as people give them on Snakemake's command line and in their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wordsens.config import results_or_exit, targets

ROOT = Path(__file__).resolve().parents[2]


def snakemake(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("figure2_r", "figure2_r: no figure or rule has this name; did you mean figure2_rf?"),
        ("modelreport", "modelreport: no figure or rule has this name; did you mean model_report?"),
        ("zzz", "zzz: no figure or rule has this name; see snakemake --list"),
    ],
)
def test_a_misspelt_target_gets_a_suggestion(tmp_path: Path, target: str, says: str) -> None:
    done = snakemake(tmp_path, "-n", target)
    assert done.returncode == 1
    assert says in done.stderr.splitlines()
    assert "Traceback" not in done.stdout + done.stderr
    assert "MissingRuleException" not in done.stdout + done.stderr


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("seed: 1\nreport:\n  n: [8]\n  n: [16]\nseed: 2\n")
    done = snakemake(tmp_path, "-n", "figure2_rf", "--configfile", "mine.yaml")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("mine.yaml")]
    assert lines == [
        "mine.yaml: line 5: the key seed is there twice, first in line 1; keep one of them",
        "mine.yaml: line 4: the key n is there twice, first in line 3; keep one of them",
    ]


@pytest.mark.parametrize(("written", "number"), [("010", 8), ("1:30", 90), ("-007", -7)])
def test_numbers_that_are_not_what_they_look_like(tmp_path: Path, written, number) -> None:
    from wordsens.config.surprises import surprises

    file = tmp_path / "mine.yaml"
    file.write_text(f"seed: 1\nn: [10, {written}]\nname: '{written}'\nzero: 0\nlong: 1_000\n")
    says = f"line 2: {written} is {number} in YAML; write that, or quote what is a text"
    assert list(surprises(file)) == [says]


def test_labels_that_are_truth_values_in_yaml(tmp_path: Path) -> None:
    from wordsens.config.surprises import surprises

    file = tmp_path / "mine.yaml"
    file.write_text('labels: {yes: 1, "no": -1}\nn: 3\n')
    assert list(surprises(file)) == [
        'line 1: the key yes is a truth value in YAML and no text; write "yes"'
    ]


def test_braces_and_home_in_paths(tmp_path: Path) -> None:
    """And an ending in capitals."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "my {x} texts.TXT").write_text("w1 w2 w3\n")
    corpus = {"source": "file", "path": "~/my {x} texts.TXT", "labelled": False}
    (tmp_path / "mine.json").write_text(json.dumps({"corpora": {"mine": corpus}}))
    target = "results/assets/corpora/mine/texts.jsonl"
    arguments = ("--cores", "1", target, "--configfile", "mine.json")
    done = snakemake(tmp_path, *arguments, HOME=str(home))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "w1 w2 w3" in (tmp_path / target).read_text()
    (home / "my {x} texts.TXT").write_text("w4 w5 w6\n")
    assert snakemake(tmp_path, *arguments, HOME=str(home)).returncode == 0
    assert "w4 w5 w6" in (tmp_path / target).read_text()


@contextmanager
def somebody() -> Iterator[None]:
    """Not root, who may write everywhere."""
    root = os.getuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "ends"), [("-n", True), ("--cores 1 figure2_rf", True), ("--list", False)]
)
def test_a_folder_in_which_nothing_can_be_written(monkeypatch, capsys, arguments, ends) -> None:
    """Snakemake keeps notes there even in a dry run, and shows its own failure as a traceback."""
    import snakemake.cli  # noqa: F401

    monkeypatch.setattr(sys, "argv", ["snakemake", *arguments.split()])
    given = targets._given()  # now: somebody else may not read where Snakemake is installed
    monkeypatch.setattr(targets, "_given", lambda: given)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        Path(folder).chmod(0o555)
        with somebody():
            if ends:
                with pytest.raises(SystemExit):
                    results_or_exit("results", write=False)
            else:
                results_or_exit("results", write=False)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "no files can be written here; make the folder writable" in said[0]
        Path(folder).chmod(0o777)
        with somebody():
            results_or_exit("results", write=True)
        assert not capsys.readouterr().err
        monkeypatch.chdir("/")
