"""A run is killed more than twenty times, anywhere, and ends with the bits of one that was not."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import yaml

from tests.reliability import runs

STOPPING = Path(__file__).parent / "stopping"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
NAMES = {signal.SIGKILL: "SIGKILL", signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C (SIGINT)"}
# Where a writer is stopped: the script, what is counted, the highest count, and what to call it.
INSIDE = (
    ("embed.py", "hdf5", 40, "inside an HDF5 write of embeddings"),
    ("cell.py", "hdf5", 40, "inside an HDF5 write of a cell"),
    ("cell.py", "rename", 1, "between a cell's write and its rename"),
)
SOMEWHERE = 5  # kills at random moments, for each signal
SEED = 2024


class State:
    """One working folder, killed and resumed again and again."""

    def __init__(self, workflow: Path, folder: Path, expected: dict) -> None:
        self.workflow, self.folder, self.expected = workflow, folder, expected
        self.known: dict = {}
        self.ended = 0

    def start(self, **env: str) -> runs.Running:
        return runs.Running(self.workflow, self.folder, "--cores", "2", *runs.TARGETS, env=env)

    def after(self) -> int:
        """How many cells that were finished before are gone or were made again."""
        now = runs.finished_cells(self.folder)
        lost = sum(now.get(name) != cell for name, cell in self.known.items())
        self.known = now
        return lost

    def end(self) -> None:
        """A run came to its end: compare everything, and begin anew."""
        assert runs.differences(self.expected, runs.numbers(self.folder)) == []
        self.ended += 1
        self.known = {}
        shutil.rmtree(self.folder / "results")
        shutil.rmtree(self.folder / ".snakemake")

    def unlock(self) -> None:
        """As Snakemake's message says where a killed run could not give its lock back."""
        if any((self.folder / ".snakemake" / "locks").glob("*")):
            done = runs.run(self.workflow, self.folder, "--unlock")
            assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def state(workflow: Path, inputs: Path, reference: Path, tmp_path_factory) -> State:
    folder = runs.copy_of(inputs, tmp_path_factory.mktemp("interrupted") / "a run")
    return State(workflow, folder, runs.numbers(reference))


def kill(state: State, running: runs.Running, number: signal.Signals) -> bool:
    """Kill a run; false where it had already ended by itself, and well."""
    if running.process.poll() is not None:
        assert running.process.returncode == 0, running.log.read_text()[-4000:]
        state.end()
        return False
    running.send(number)
    return True


@pytest.mark.parametrize("number", SIGNALS, ids=NAMES.get)
def test_killed_at_random_moments(state: State, number: signal.Signals, injected) -> None:
    moments = random.Random(SEED + number)
    landed = lost = 0
    while landed < SOMEWHERE:
        state.unlock()
        running = state.start()
        end = time.monotonic() + moments.uniform(1.5, 7)
        while time.monotonic() < end and running.process.poll() is None:
            time.sleep(0.02)
        if kill(state, running, number):
            landed += 1
            lost += state.after()
    injected(f"{NAMES[number]} to the whole run at a random moment", landed, lost, "resumed")
    assert lost == 0


@pytest.mark.parametrize("number", SIGNALS, ids=NAMES.get)
@pytest.mark.parametrize("where", INSIDE, ids=lambda where: f"{where[0]} {where[1]}")
def test_killed_inside_a_write(state: State, where, number: signal.Signals, injected) -> None:
    script, step, most, name = where
    moments = random.Random(SEED + number)
    for _ in range(3):
        state.unlock()
        mark = state.folder / "stopped"
        mark.unlink(missing_ok=True)
        running = state.start(
            PYTHONPATH=f"{STOPPING}:{runs.environment()['PYTHONPATH']}",
            STOP_SCRIPT=script,
            STOP_STEP=step,
            STOP_AT=str(moments.randint(1, most)),
            STOP_MARK=str(mark),
        )
        while not mark.exists() and running.process.poll() is None:
            time.sleep(0.02)
        # A run with nothing of the kind left to write ends; the next one has everything to do.
        if kill(state, running, number):
            break
    else:
        pytest.fail(f"no run of three reached {step} in {script}")
    lost = state.after()
    injected(f"{NAMES[number]} {name}", 1, lost, "resumed")
    assert lost == 0


def test_the_interrupted_run_ends_with_the_same_bits(state: State) -> None:
    state.unlock()
    known = dict(state.known)
    done = runs.run(state.workflow, state.folder, "--cores", "2", *runs.TARGETS)
    assert done.returncode == 0, done.stdout[-4000:]
    now = runs.finished_cells(state.folder)
    assert all(now[name] == cell for name, cell in known.items())
    left = [path for path in (state.folder / "results").rglob(".*") if path.suffix == ".h5"]
    assert not left, "half-written files stay beside their results"
    state.end()


def test_every_profile_runs_incomplete_jobs_again() -> None:
    profiles = [*runs.ROOT.glob("profiles/*/config*.yaml")]
    profiles += runs.ROOT.glob("workflow/profiles/*/config*.yaml")
    assert len(profiles) >= 3
    for profile in profiles:
        settings = yaml.safe_load(profile.read_text())
        assert settings["rerun-incomplete"] is True, profile
        assert "keep-incomplete" not in settings, profile
