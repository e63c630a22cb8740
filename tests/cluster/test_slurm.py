"""The workflow on a real Slurm: cancelled, drained, resumed, and equal to a local run.

One story is played in a fixture, through workflow/profiles/slurm as it stands:

1. a small workflow is submitted; while a group of cells runs, the node is drained and the job
   cancelled; Snakemake submits it again and it waits; the user gives up with Ctrl-C;
2. on the drained node, a sweep of 100 cells is submitted and counted in the queue;
3. the node is resumed, and the small workflow submitted once more goes on and finishes.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.cluster.slurm import Slurm, end_with_parent
from tests.docs.test_extending import CELLS, TARGETS, Folder
from tests.workflow.test_end_to_end import configuration
from wordsens.results import read_cell

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[2]
PROFILE = str(ROOT / "workflow" / "profiles" / "slurm")
SUBMITTED = "has been submitted with SLURM jobid"


def small(tmp: Path, encoder: Path) -> dict:
    """Six cells of a sweep and one of a study on the user's own texts, and their figures."""
    config = configuration(tmp, encoder)
    sweep = {"map": "raf", "dataset": "mine", "d": [8, 16], "n": [3, 5, 8], "trials": 2}
    study = {"map": "raf", "dataset": "mine", "d": [8], "n": [4], "N": [10], "trials": 2}
    config["sweeps"] = {"t_raf": sweep}
    config["generalization"] = {"t_study": study}
    config["figures"] = {
        "t_lengths": {"kind": "context_length", "sweeps": ["t_raf"]},
        "t_errors": {"kind": "generalization", "sweeps": ["t_study"], "penalties": [0]},
    }
    return config


class Run:
    """Snakemake in a folder of its own, its output in a file."""

    def __init__(self, folder: Path, config: dict, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.json").write_text(json.dumps(config))
        self.log = folder / "snakemake.log"
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *arguments, "--configfile", "mine.json"],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )

    def text(self) -> str:
        return self.log.read_text()

    def finish(self, seconds: float = 600) -> str:
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
        return self.text()

    def interrupt(self) -> None:
        """Ctrl-C, upon which Snakemake cancels its jobs; it ends when next it would look at them.

        Its looks grow apart by 10 s each, up to 180 s.
        """
        self.process.send_signal(signal.SIGINT)
        self.process.wait(300)

    def until(self, ready: Callable[[], object], what: str, seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            assert self.process.poll() is None, f"ended before {what}:\n{self.text()[-3000:]}"
            assert time.monotonic() < deadline, f"no {what}:\n{self.text()[-3000:]}"
            time.sleep(0.2)


def cells(folder: Path) -> dict[str, str]:
    """sha256 of every cell that is there."""
    found = sorted((folder / "results").glob("*/*/**/*.h5"))
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with Slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def story(
    slurm: Slurm, tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path
) -> SimpleNamespace:
    tmp = tmp_path_factory.mktemp("runs")
    config = small(tmp, tiny_bert)
    targets = list(config["figures"])
    folder = tmp / "on the cluster"
    remote = [*targets, "--workflow-profile", PROFILE]
    seen = SimpleNamespace(folder=folder, local=tmp / "here", tmp=tmp, config=config)

    first = Run(folder, config, *remote)
    logs = folder / "results" / "logs" / "sensitivity"
    first.until(lambda: len(list(logs.rglob("*.log"))) > 2, "running cells")
    running = [job for job, (state, _) in slurm.jobs().items() if state == "RUNNING"]
    slurm.ask("scontrol", "update", "nodename=localhost", "state=drain", "reason=test")
    slurm.ask("scancel", *running)
    first.until(lambda: "Trying to restart" in first.text(), "second attempt")
    waiting = lambda: [job for job, (state, _) in slurm.jobs().items() if state == "PENDING"]  # noqa: E731
    first.until(waiting, "second attempt in the queue")
    seen.cancelled, seen.waiting = running, waiting()
    seen.states = {state for state, _ in slurm.jobs().values()}
    first.interrupt()
    seen.first = first.text()
    seen.left = slurm.jobs()
    seen.before = cells(folder)

    axes = {"d": list(range(7, 17)), "n": list(range(3, 13)), "trials": 1}
    many = {"sweeps": {"t_many": {"map": "raf", "dataset": "synthetic", **axes}}}
    many["figures"] = {"t_many": {"kind": "context_length", "sweeps": ["t_many"]}}
    hundred = Run(tmp / "hundred", many, "t_many", "--workflow-profile", PROFILE)
    hundred.until(lambda: hundred.text().count(SUBMITTED) >= 10, "ten submissions")
    time.sleep(2)  # in which any others would follow
    seen.hundred = slurm.jobs()
    hundred.interrupt()
    seen.hundred_log = hundred.text()

    slurm.ask("scontrol", "update", "nodename=localhost", "state=resume")
    seen.second = Run(folder, config, *remote).finish()
    seen.after = cells(folder)
    here = Run(seen.local, config, *targets, "--cores", "2")
    seen.here = here.finish()
    assert here.process.returncode == 0, seen.here[-3000:]
    return seen


def test_a_cancelled_job_is_submitted_again_and_waits_for_the_node(story) -> None:
    assert story.cancelled
    assert story.waiting
    assert set(story.waiting).isdisjoint(story.cancelled)
    assert story.states == {"PENDING"}, "nothing starts on a drained node"


def test_ctrl_c_leaves_nothing_in_the_queue(story) -> None:
    assert not story.left


def test_a_hundred_cells_are_ten_submissions(story) -> None:
    assert story.hundred_log.count("rule sensitivity_cell:") == 100
    assert len(story.hundred) == story.hundred_log.count(SUBMITTED) == 10
    assert {comment.split("_")[1] for _, comment in story.hundred.values()} == {"cells"}


def test_after_the_drain_it_goes_on_and_finishes(story) -> None:
    assert "steps (100%) done" in story.second, story.second[-3000:]
    finished = set(story.before) & set(story.after)
    assert finished, "some cells were finished when the job was cancelled"
    for path in finished:
        assert story.before[path] == story.after[path], f"{path} was computed again"
    # embed is done; what is left of 6 cells, one study and two figures with their tables
    assert story.second.count(SUBMITTED) <= 1 + 1 + 2


def test_numbers_are_those_of_a_local_run(story) -> None:
    assert set(story.after) == set(cells(story.local))
    assert len(story.after) == 6 + 1
    for path in story.after:
        (remote, _), (local, _) = read_cell(story.folder / path), read_cell(story.local / path)
        assert set(remote) == set(local)
        for name in set(remote) - {"seconds"}:
            assert np.array_equal(
                remote[name], local[name], equal_nan=remote[name].dtype.kind == "f"
            )
    for table in ("t_raf", "t_study"):
        where = [
            folder / "results" / "tables" / f"{table}.csv" for folder in (story.folder, story.local)
        ]
        remote, local = (
            pd.read_csv(path).drop(columns="seconds", errors="ignore") for path in where
        )
        pd.testing.assert_frame_equal(remote, local, check_exact=True)
    for figure in ("t_lengths", "t_errors"):
        assert (story.folder / "results" / "figures" / f"{figure}.pdf").stat().st_size > 100


def test_a_job_for_a_gpu_gets_one(story, slurm: Slurm) -> None:
    """Slurm gives the job a (stand-in) card; that torch finds none on it is one plain line.

    The profile's commented lines are put into effect: partition, account and constraint.
    """
    profile = story.tmp / "profile"
    profile.mkdir()
    settings = (Path(PROFILE) / "config.yaml").read_text().replace("  # - ", "  - ")
    (profile / "config.yaml").write_text(settings.replace("partition=cpu", "partition=gpu"))
    config = {**story.config, "device": "cuda"}
    config["sweeps"] = {"t_raf": {**config["sweeps"]["t_raf"], "dataset": "synthetic", "n": [3, 4]}}
    config["sweeps"]["t_raf"]["d"] = [8]
    config["figures"] = {"t_lengths": config["figures"]["t_lengths"]}
    config["generalization"] = {}
    folder = story.tmp / "with a card"
    options = ["--workflow-profile", str(profile), "--retries", "0"]
    log = Run(folder, config, "t_lengths", *options).finish()
    (job,) = re.findall(rf"{SUBMITTED} (\d+)", log)
    shown = slurm.ask("scontrol", "show", "job", job)
    assert "gpu:1" in shown, "two cells of a group share one"
    for asked in (
        "Partition=gpu",
        "Account=mygroup",
        "Features=big",
        "NumCPUs=1",
        "TimeLimit=02:00:00",
    ):
        assert asked in shown, shown
    # The cell that fails first ends the group, so that the other may not have come to speak.
    logs = (folder / "results" / "logs" / "sensitivity").rglob("*.log")
    said = "".join(log.read_text() for log in logs)
    assert "device: cuda, but torch finds no CUDA device" in said


def test_a_map_and_a_kind_of_study_of_ones_own_run_there(story) -> None:
    """Those of docs/extending.md, whose files only the user's folder has."""
    folder = story.tmp / "of my own"
    folder.mkdir()
    config = yaml.safe_load(Folder(folder).folder.joinpath("mine.yaml").read_text())
    log = Run(folder, config, *TARGETS, "--workflow-profile", PROFILE).finish()
    assert "steps (100%) done" in log, log[-3000:]
    assert log.count(SUBMITTED) >= 2
    assert len(cells(folder)) == 3 + CELLS
    for figure in TARGETS:
        assert (folder / "results" / "figures" / f"{figure}.pdf").stat().st_size > 100
