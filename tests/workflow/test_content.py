"""What made a result is the content of the files that matter, and nothing else about them."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wordsens.config.model import report_name
from wordsens.data.content import content

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["results/assets/corpora/mine/texts.jsonl", "results/assets/encoders/mine"]
CONFIG = {
    "corpora": {"mine": {"source": "file", "path": "mine.txt", "labelled": False}},
    "encoders": {"mine": {"source": "file", "path": "encoder"}},
}


def planned(folder: Path, *arguments: str) -> set[str]:
    """The rules that a run would start, or starts."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    done = subprocess.run(
        [*command, *arguments, *TARGETS, "--configfile", "mine.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    said = done.stdout + done.stderr
    return {rule for rule in ("fetch_corpus", "fetch_encoder") if f"rule {rule}:" in said}


@pytest.fixture
def folder(tmp_path: Path, tiny_bert: Path) -> Path:
    path = tmp_path / "a run"
    shutil.copytree(tiny_bert, path / "encoder")
    (path / "mine.txt").write_text("w1 w2 w3\n" * 3)
    (path / "mine.json").write_text(json.dumps(CONFIG))
    return path


def test_content_decides(folder: Path) -> None:
    older = folder / "older.txt"
    older.write_text("w4 w5 w6\n" * 3)
    os.utime(older, (1, 1))
    assert planned(folder, "--cores", "2") == {"fetch_corpus", "fetch_encoder"}
    assert planned(folder, "-n") == set()
    for name in (".DS_Store", "README.md", "training_args.bin", "notes~"):
        (folder / "encoder" / name).write_text(str(random.random()))
    for file in [folder / "mine.txt", *(folder / "encoder").iterdir()]:
        os.utime(file)  # a new date
    assert planned(folder, "-n") == set()
    copied = folder / "copied.txt"
    shutil.copyfile(folder / "mine.txt", copied)
    copied.rename(folder / "mine.txt")
    assert planned(folder, "-n") == set(), "the same text in another file"
    older.rename(folder / "mine.txt")
    assert planned(folder, "-n") == {"fetch_corpus"}
    config = folder / "encoder" / "config.json"
    date = config.stat().st_mtime_ns
    config.write_text(config.read_text() + "\n")
    os.utime(config, ns=(date, date))
    assert planned(folder, "--cores", "2") == {"fetch_corpus", "fetch_encoder"}
    assert "w4" in (folder / TARGETS[0]).read_text()
    assert planned(folder, "-n") == set()


def test_the_digest_is_of_names_and_contents(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    (tmp_path / "b").mkdir()
    one, two = tmp_path / "a.txt", tmp_path / "b" / "a.txt"
    one.write_text("x")
    two.write_text("x")
    first = content([one])
    assert content([two]) == first
    assert content([]) == ""
    two.write_text("y")
    os.utime(two, (1, 1))
    assert content([two]) != first
    other = one.with_name("c.txt")
    other.write_text("y")
    os.utime(other, ns=(one.stat().st_mtime_ns,) * 2)
    other.rename(one)
    assert content([one]) == content([two])
    (tmp_path / ".snakemake" / "wordsens-content.json").write_text("{cut")
    assert content([one]) == content([two])


def test_two_folders_are_two_reports(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = ["my-encoder", "my_encoder", "my.encoder", "a/my-encoder", "a_my-encoder", "m" * 50]
    paths += ["a-my-encoder", "b/my-encoder", "a__my-encoder", "a-_my-encoder", "my--encoder"]
    paths += ["m" * 51, "日本", "中国", "../my-encoder"]
    names = [report_name(path) for path in paths]
    assert len(set(names)) == len(paths)
    assert all(name.isascii() and name.isidentifier() for name in names)
    assert names[0] == "own_my_encoder"
    assert names[3] == "own_a___my_encoder"
    assert report_name(str(tmp_path / "my-encoder")) == report_name("./my-encoder") == names[0]
