"""A report on a user's own encoder and texts, and studies of trained models, in real Snakemake."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{number}" for number in range(40)]


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    return subprocess.run(
        [*command, "--cores", "2", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path, tiny_chat: Path) -> Path:
    """A directory with an encoder, a chat model and texts of the user's own."""
    path = tmp_path_factory.mktemp("report") / "my run"
    path.mkdir()
    (path / "my-encoder").symlink_to(tiny_bert)
    (path / "my-chat").symlink_to(tiny_chat)
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(60)]
    (path / "my texts.txt").write_text("\n".join(lines))
    return path


def test_report_on_an_encoder_of_ones_own(folder: Path) -> None:
    (folder / "small.yaml").write_text(
        "report: {n: [8, 16], steps: 3, starts: 2, texts: 2, windows: 1}\n"
    )
    arguments = ["model_report", "--config", "encoder=my-encoder", "texts=my texts.txt"]
    arguments += ["--configfile", "small.yaml"]
    done = snakemake(folder, *arguments)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    report = folder / "results" / "model_report" / "own_my_encoder"
    page = (report / "report.md").read_text(encoding="utf-8")
    for heading in ("Layer by layer", "Real words", "Attracted attention", "Any word"):
        assert f" {heading}" in page
    whole = (report / "report.html").read_text(encoding="utf-8")
    assert whole.count("data:image/png;base64,") == 5, "every figure is in the page"
    first = (folder / "my texts.txt").read_text().splitlines()[0].split()
    assert re.findall(r"--share: [\d.]+\">(.*?)</button>", whole)[: len(first)] == first
    assert {
        path.name for path in (folder / "results/pages/own_my_encoder_explanation").iterdir()
    } >= {
        "index.html",
        "text-1.html",
        "text-2.html",
    }
    for kind in ("explanation", "layers", "attraction", "attention", "vocabulary"):
        assert f"(own_my_encoder_{kind}.png)" in page
        for ending in ("png", "pdf", "csv"):
            assert (report / f"own_my_encoder_{kind}.{ending}").stat().st_size > 100
    layers = pd.read_csv(report / "own_my_encoder_layers.csv")
    assert len(layers) == 2 * 2 * 2 * 4
    words = pd.read_csv(report / "own_my_encoder_words.csv")
    assert set(words["layer"]) == {1, 3}
    assert (words["change"] > 0).all()
    # The discrete change is that of the text on which trial 0 was searched.
    own = layers.query("weights == 'pretrained' and trial == 0").set_index(["n", "layer"])["sup"]
    for row in words[words["distance"] <= 1].itertuples():
        assert row.change <= 1.5 * own[row.n, row.layer], "a word inside the ball beats the search"
    again = snakemake(folder, "-n", *arguments)
    assert "Nothing to be done" in again.stdout + again.stderr


def test_report_on_a_decoder(folder: Path) -> None:
    """By position, with next tokens, and without what makes no sense for it."""
    arguments = ["model_report", "--config", "encoder=my-chat", "texts=my texts.txt"]
    (folder / "chat.yaml").write_text(
        "report: {n: [16], steps: 2, starts: 1, texts: 1, windows: 1, trials: 1}\n"
    )
    done = snakemake(folder, *arguments, "--configfile", "chat.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    report = folder / "results" / "model_report" / "own_my_chat"
    page = (report / "report.md").read_text(encoding="utf-8")
    for said in ("## By position", "when word 8 moves", "are left out: the first block"):
        assert said in page
    whole = (report / "report.html").read_text(encoding="utf-8")
    assert "most likely next token" in whole
    assert whole.count("data:image/png;base64,") == 6
    positions = pd.read_csv(report / "own_my_chat_positions.csv")
    assert positions["position_tried"].nunique() == 8
    last = positions[positions["layer"] == 2].groupby("position_tried")["sup_at_position"].max()
    assert last.iloc[-1] < last.iloc[0], "the last word reaches least"


def test_studies_of_trained_models_become_figures(folder: Path) -> None:
    encoder = {"encoder": "mine"}
    config = {
        "encoders": {"mine": {"source": "file", "path": "my-encoder"}},
        "models": {"mine": {"source": "file", "path": "my-chat"}},
        "attention": {"t_love": {**encoder, "sentences": ["w1 w2 w3", "w1 w2 w4"]}},
        "attraction": {"t_text": {**encoder, "text": "w1 w2 w3 w4 w5", "position": 2, "draws": 3}},
        "prompts": {"t_film": {"model": "mine", "prompts": ["w1 w2", "w1 w3"], "tokens": 4}},
        "figures": {
            "t_attention": {"kind": "attention", "sweeps": ["t_love"]},
            "t_attraction": {"kind": "attraction", "sweeps": ["t_text"]},
            "t_prompts": {"kind": "prompts", "sweeps": ["t_film"]},
        },
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(config))
    done = snakemake(folder, *config["figures"], "--configfile", "mine.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    for name in config["figures"]:
        assert (folder / "results" / "figures" / f"{name}.png").stat().st_size > 1000
    table = pd.read_csv(folder / "results" / "tables" / "t_film.csv")
    assert table["difference"].nunique() == 2


def test_mistakes_that_show_in_a_job_are_one_line(folder: Path) -> None:
    config = {
        "encoders": {"mine": {"source": "file", "path": "my-encoder"}},
        "attraction": {"t_far": {"encoder": "mine", "text": "w1 w2", "position": 2}},
    }
    (folder / "far.yaml").write_text(yaml.safe_dump(config))
    done = snakemake(folder, "results/tables/t_far.csv", "--configfile", "far.yaml")
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert lines == [
        "error: attraction.t_far.position: is 2, but the text has 2 word pieces; allowed: 0 to 1"
    ]
    assert "Traceback" not in done.stdout + done.stderr
    done = snakemake(folder, "-n", "model_report", "--config", "encoder=my texts.txt")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "--config: encoder: " in line]
    assert "a file; allowed: a folder in transformers format" in line
