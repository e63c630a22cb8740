"""The workflow is planned without running anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def snakemake(*arguments: str, cwd: Path, copy: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(copy / "Snakefile")]
    return subprocess.run(
        [*command, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def planned(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Jobs per rule, as a dry run counts them."""
    assert done.returncode == 0, done.stdout + done.stderr
    table = (done.stdout + done.stderr).split("Job stats:")[1].split("total")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty working directory with a space in its name."""
    path = tmp_path_factory.mktemp("runs") / "a folder"
    path.mkdir()
    return path


def test_default_run_from_another_directory(folder: Path) -> None:
    jobs = planned(snakemake("-n", cwd=folder))
    assert jobs["fetch_corpus"] == jobs["fetch_encoder"] == 1
    assert jobs["embed"] == 2
    assert jobs["draw_figure"] == 19, "long_context is not part of the default run"
    assert list(folder.iterdir()) == [folder / ".snakemake"] or not list(folder.iterdir())


def test_one_figure_runs_only_what_it_needs(folder: Path) -> None:
    jobs = planned(snakemake("-n", "figure2_rf", cwd=folder))
    assert jobs["sensitivity_cell"] == 18
    assert jobs["sensitivity_table"] == jobs["draw_figure"] == 1


def test_discrete_words_run_one_cell_per_length(folder: Path) -> None:
    jobs = planned(snakemake("-n", "vocabulary", cwd=folder))
    assert jobs["vocabulary_cell"] == 2 * 3
    assert jobs["vocabulary_table"] == 2
    assert jobs["word_pieces"] == jobs["embed"] == jobs["fetch_encoder"] == 1
    assert "sensitivity_cell" not in jobs


def test_trained_figures_plan_a_cell_per_weights_and_length(folder: Path) -> None:
    jobs = planned(snakemake("-n", "layers", "figure1_prompts", cwd=folder))
    assert jobs["layers_cell"] == 2 * 4
    assert jobs["layers_table"] == jobs["prompts_table"] == jobs["fetch_model"] == 1
    jobs = planned(snakemake("-n", "figure1_attention", cwd=folder))
    assert set(jobs) == {"fetch_encoder", "attention_table", "draw_figure", "figure1_attention"}


def test_the_target_of_boolean_functions_makes_all_their_figures(folder: Path) -> None:
    jobs = planned(snakemake("-n", "boolean", cwd=folder))
    assert jobs["draw_figure"] == 5
    assert jobs["boolean_random_cell"] == 4 + 3 * 5 * 2
    assert jobs["boolean_volume_cell"] == 2 * 5
    assert jobs["boolean_trained_cell"] == 5
    assert "embed" not in jobs
    assert "boolean_random_cell" not in planned(snakemake("-n", cwd=folder))


def test_a_report_without_an_encoder_says_how(folder: Path) -> None:
    done = snakemake("-n", "model_report", cwd=folder)
    assert done.returncode == 1
    assert "model_report needs --config encoder=PATH" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_synthetic_figures_need_no_asset(folder: Path) -> None:
    jobs = planned(snakemake("-n", "long_context", cwd=folder))
    assert not {"embed", "fetch_corpus", "fetch_encoder"} & set(jobs)


@pytest.mark.parametrize(
    ("device", "cap", "wanted"),
    [
        ("auto", [], False),
        ("auto", ["--resources", "gpu=2"], True),
        ("auto", ["--resources", "gpu=0"], False),
        ("cuda", [], True),
        ("cpu", ["--resources", "gpu=2"], False),
    ],
)
def test_jobs_ask_for_a_card(folder: Path, device: str, cap: list[str], wanted: bool) -> None:
    config = folder / f"{device}.yaml"
    config.write_text(f"device: {device}\n")
    done = snakemake("-n", "figure3_raf", *cap, "--configfile", str(config), cwd=folder)
    assert done.returncode == 0, done.stderr
    config.unlink()
    assert ("gpu=1" in done.stdout + done.stderr) is wanted


def test_copy_in_a_path_with_a_space(tmp_path: Path) -> None:
    copy = tmp_path / "a copy"
    copy.mkdir()
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, copy)
    for name in ("workflow", "scripts", "envs", "profiles"):
        shutil.copytree(ROOT / name, copy / name)
    assert planned(snakemake("-n", "tables", cwd=copy, copy=copy))["sensitivity_table"] == 11
    elsewhere = tmp_path / "else where"
    jobs = planned(
        snakemake("-n", "--directory", str(elsewhere), "tables", cwd=tmp_path, copy=copy)
    )
    assert jobs["sensitivity_table"] == 11


@pytest.mark.parametrize("preset", ["paper", "paper-synthetic"])
def test_presets(folder: Path, preset: str) -> None:
    path = ROOT / "workflow" / "presets" / f"{preset}.yaml"
    jobs = planned(snakemake("-n", "--configfile", str(path), cwd=folder))
    assert jobs["sensitivity_cell"] == 21 + 12 + 21 + 21
    assert jobs.get("embed", 0) == (preset == "paper")


def test_mistakes_are_lines_without_traceback(folder: Path) -> None:
    (folder / "mine.yaml").write_text("sweeps: {rf: {trails: 3, trials: 0}}\nsede: 1\n")
    done = snakemake("-n", "--configfile", "mine.yaml", cwd=folder)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("mine.yaml: ")]
    assert len(lines) == 3
    assert "Traceback" not in done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr


def test_nothing_heavy_is_imported_at_parse_time() -> None:
    code = (
        "import sys, runpy; sys.argv = ['snakemake', '-n', '-q', '-s', sys.argv[1]]\n"
        "try:\n    runpy.run_module('snakemake', run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'h5py', 'seaborn', 'matplotlib', 'datasets', 'scipy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(ROOT / "Snakefile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


OWN = """
corpora:
  mine: {source: file, path: mine.csv, labels: {good: 1, bad: -1}}
encoders:
  mine: {source: file, path: encoder}
datasets:
  mine: {source: text, corpus: mine, encoder: mine, tokens: 6, layer: 1}
"""


def test_own_texts_and_encoder_become_embeddings_once(tmp_path: Path, tiny_bert: Path) -> None:
    """For real: fetch and embed the user's own files, and nothing more the second time."""
    folder = tmp_path / "my data"
    folder.mkdir()
    shutil.copytree(tiny_bert, folder / "encoder")
    rows = [
        " ".join(f"w{(7 * row + 3 * word * word) % 40}" for word in range(6))
        + f",{'good' if row % 2 else 'bad'}"
        for row in range(20)
    ]
    (folder / "mine.csv").write_text("\n".join(["text,label", *rows, ""]))
    (folder / "mine.yaml").write_text(OWN)
    target = "results/embeddings/mine.h5"
    # A target after --configfile would be read as one more file.
    arguments = [target, "--cores", "1", "--configfile", "mine.yaml"]
    done = snakemake(*arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    from wordsens.data.embeddings import open_embeddings

    assert open_embeddings(folder / target).samples == 20
    assert "20 samples" in (folder / "results/logs/embed/mine.log").read_text()
    assert (folder / "results/benchmarks/embed/mine.tsv").is_file()
    again = snakemake("-n", *arguments, cwd=folder)
    assert "Nothing to be done" in again.stdout + again.stderr
    # A row less in the user's file remakes what is made from it.
    (folder / "mine.csv").write_text("\n".join(["text,label", *rows[:-1], ""]))
    assert set(planned(snakemake("-n", *arguments, cwd=folder))) == {"fetch_corpus", "embed"}
    # A mistake in the user's own file is one line, before any job.
    (folder / "mine.csv").write_text("text,lable\nw1,good\n")
    failed = snakemake(*arguments, cwd=folder)
    said = failed.stdout + failed.stderr
    assert failed.returncode != 0
    (line,) = (line for line in said.splitlines() if "corpora.mine.label: " in line)
    assert "did you mean lable?" in line
    assert "Traceback" not in said
    assert "rule fetch_corpus" not in said
