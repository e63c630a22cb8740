"""A small run of everything, from a user's own texts and encoder to figures, in real Snakemake."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wordsens.results import read_cell

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{number}" for number in range(40)]


def configuration(tmp: Path, encoder: Path) -> dict:
    """Short texts of the tiny encoder's words, and sweeps of every map on them."""
    rng = random.Random(0)
    rows = [
        {"words": " ".join(rng.choices(WORDS, k=25)), "mood": rng.choice(["up", "down"])}
        for _ in range(40)
    ]
    pd.DataFrame(rows).to_csv(tmp / "texts.csv", index=False)
    sweep = {"dataset": "mine", "d": [8, 16], "n": [4, 8], "trials": 3}
    return {
        "corpora": {
            "mine": {
                "source": "file",
                "path": str(tmp / "texts.csv"),
                "text": "words",
                "label": "mood",
                "labels": {"up": 1, "down": -1},
            }
        },
        "encoders": {"mine": {"source": "file", "path": str(encoder)}},
        "datasets": {
            "mine": {
                "source": "text",
                "corpus": "mine",
                "encoder": "mine",
                "layer": 1,
                "tokens": 10,
            },
            "mine_0": {"source": "text", "corpus": "mine", "encoder": "mine", "tokens": 10},
        },
        "sweeps": {
            "t_rf": {"map": "rf", **sweep},
            "t_drf": {"map": "drf", **sweep, "d": [8], "depth": [2]},
            "t_raf": {"map": "raf", **sweep},
            "t_relu": {"map": "relu_raf", **sweep},
            "t_qkv": {"map": "qkv", **sweep, "heads": 2, "head_dim": 4},
            "t_words": {"map": "raf", **sweep, "d": [8], "n": [8], "words": [1, 2]},
            "t_positions": {"map": "raf", **sweep, "d": [8], "positions": "all"},
        },
        "vocabulary": {
            "t_discrete": {
                "map": "raf",
                "dataset": "mine_0",
                "d": [8, 16],
                "n": [4, 8],
                "trials": 3,
            },
            "t_layer0": {
                **{"map": "relu_raf", "dataset": "mine_0", "d": [8], "n": [4, 8], "trials": 2},
                **{"vectors": "layer0", "candidates": "frequent:9", "positions": "random:2"},
            },
        },
        "figures": {
            "t_figure2": {"kind": "context_length", "sweeps": ["t_rf", "t_drf"]},
            "t_figure3": {"kind": "context_length", "sweeps": ["t_raf", "t_relu", "t_qkv"]},
            "t_words": {"kind": "words", "sweeps": ["t_words"]},
            "t_positions": {"kind": "positions", "sweeps": ["t_positions"]},
            "t_vocabulary": {"kind": "vocabulary", "sweeps": ["t_discrete", "t_layer0"]},
        },
    }


FIGURES = ("t_figure2", "t_figure3", "t_words", "t_positions", "t_vocabulary")


def run(folder: Path, config: dict, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    done = subprocess.run(
        [
            *command,
            *arguments,
            "--directory",
            str(folder),
            "--configfile",
            str(folder / "mine.json"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    done.log = done.stdout + done.stderr  # type: ignore[attr-defined]
    return done


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path):
    tmp = tmp_path_factory.mktemp("end to end")
    config = configuration(tmp, tiny_bert)
    done = run(tmp / "a run", config, "--cores", "2", *FIGURES)
    assert done.returncode == 0, done.log[-4000:]
    return tmp / "a run", config


def numbers(folder: Path) -> dict[str, np.ndarray]:
    """sup of every cell, by its path."""
    cells = sorted((folder / "results" / "sensitivity").rglob("*.h5"))
    return {str(p.relative_to(folder)): read_cell(p)[0]["sup"] for p in cells}


def test_figures_and_tables_are_there(finished) -> None:
    folder, _ = finished
    for name in FIGURES:
        for ending in ("pdf", "png", "csv"):
            assert (folder / "results" / "figures" / f"{name}.{ending}").stat().st_size > 100
    table = pd.read_csv(folder / "results" / "tables" / "t_raf.csv")
    assert len(table) == 2 * 2 * 3
    assert (table["sup"] <= table["bound"]).all()
    assert (table.groupby(["d", "n"])["sample"].nunique() > 1).all()
    every = pd.read_csv(folder / "results" / "tables" / "t_positions.csv")
    assert len(every) == (4 + 8) * 3
    words = pd.read_csv(folder / "results" / "tables" / "substitutions" / "t_discrete.csv")
    assert set(words["new"]) <= set(WORDS)
    top = words[(words["list"] == "top") & (words["rank"] == 1)].set_index(["d", "n", "trial"])
    trials = pd.read_csv(folder / "results" / "tables" / "t_discrete.csv")
    trials = trials.set_index(["d", "n", "trial"])
    assert np.allclose(top["change"], trials["sup"])
    text = (folder / "results" / "tables" / "substitutions" / "t_layer0.md").read_text()
    assert "9 candidates" in text
    assert text.count("## n = ") == 2
    best = every.groupby(["n", "trial"])["sup_at_position"].max()
    assert np.allclose(best, every.groupby(["n", "trial"])["sup"].first())


def test_a_finished_run_has_nothing_to_do_and_a_new_point_runs_alone(finished) -> None:
    folder, config = finished
    again = run(folder, config, "-n", *FIGURES)
    assert "Nothing to be done" in again.log
    config["sweeps"]["t_rf"]["n"] = [4, 6, 8]
    more = run(folder, config, "-n", "t_figure2")
    config["sweeps"]["t_rf"]["n"] = [4, 8]
    jobs = more.log.split("Job stats:")[1]
    assert re.search(r"sensitivity_cell +2\n", jobs)  # n = 6 at both d, and nothing else


def test_the_same_numbers_in_another_run(finished, tmp_path: Path) -> None:
    """One core instead of two, other cells beside them, a folder elsewhere."""
    folder, config = finished
    fewer = {**config, "sweeps": {**config["sweeps"]}}
    fewer["sweeps"]["t_raf"] = {**config["sweeps"]["t_raf"], "n": [8, 10]}
    fewer["figures"] = {"t_only": {"kind": "context_length", "sweeps": ["t_raf", "t_drf"]}}
    done = run(tmp_path / "else where", fewer, "--cores", "1", "t_only")
    assert done.returncode == 0, done.log[-4000:]
    before, after = numbers(folder), numbers(tmp_path / "else where")
    common = set(before) & set(after)
    assert len(common) == 4
    for path in common:
        assert np.array_equal(before[path], after[path]), path


def test_an_impossible_sample_is_one_line(finished, tmp_path: Path) -> None:
    _, config = finished
    wrong = {**config, "sweeps": {"t_raf": {**config["sweeps"]["t_raf"], "d": [17]}}}
    wrong["figures"] = {"t_only": {"kind": "context_length", "sweeps": ["t_raf"]}}
    done = run(tmp_path / "wrong", wrong, "--cores", "1", "t_only")
    assert done.returncode != 0
    (line,) = {line for line in done.log.splitlines() if "sweeps.t_raf.d: is " in line}
    assert "17" in line
    assert "at most 16" in line
    assert "Traceback" not in done.log
