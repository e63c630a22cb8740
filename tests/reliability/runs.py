"""A small complete workflow from a user's own files, run by real Snakemake and, maybe, killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{number}" for number in range(40)]
# What differs between two runs of the same thing: how long it took, and the digest that covers it.
TIMES = ("seconds", "content_sha256")
TARGETS = ("f", "tables")


def texts(rows: int = 40, labels: tuple[str, ...] = ("up", "down")) -> str:
    """A CSV of random texts of the tiny encoder's words."""
    rng = random.Random(0)
    lines = [f"{' '.join(rng.choices(WORDS, k=25))},{labels[i % len(labels)]}" for i in range(rows)]
    return "\n".join(["text,label", *lines, ""])


def configuration() -> dict[str, Any]:
    """Two cells of a sweep, one of a study, their tables and a figure."""
    return {
        "corpora": {
            "mine": {"source": "file", "path": "texts.csv", "labels": {"up": 1, "down": -1}}
        },
        "encoders": {"mine": {"source": "file", "path": "encoder"}},
        "datasets": {
            "mine": {
                "source": "text",
                "corpus": "mine",
                "encoder": "mine",
                "tokens": 10,
                "layer": 1,
            }
        },
        "sweeps": {"s": {"map": "raf", "dataset": "mine", "d": [8], "n": [4, 8], "trials": 3}},
        "generalization": {
            "g": {"map": "rf", "dataset": "mine", "d": [8], "n": [4], "N": [6], "trials": 2}
        },
        "figures": {"f": {"kind": "context_length", "sweeps": ["s"]}},
    }


def only(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the sections that it does not have emptied."""
    return {"corpora": {}, "encoders": {}, "datasets": {}, "figures": {}, **config}


def copy_of(folder: Path, to: Path) -> Path:
    """A run's folder with its dates, links and Snakemake's notes."""
    shutil.copytree(folder, to, symlinks=True)
    return to


def product(to: Path) -> Path:
    """A copy of the workflow whose config.yaml holds nothing, so that a run has its own only."""
    to.mkdir(parents=True)
    for name in ("workflow", "scripts", "envs", "profiles"):
        shutil.copytree(ROOT / name, to / name)
    shutil.copy(ROOT / "Snakefile", to)
    (to / "config.yaml").write_text("device: cpu\n")
    return to


def command(product: Path, *arguments: str, config: str = "mine.json") -> list[str]:
    snakemake = [sys.executable, "-m", "snakemake", "--snakefile", str(product / "Snakefile")]
    return [*snakemake, *arguments, "--configfile", config]


def environment(**more: str) -> dict[str, str]:
    """This process's, with the library of this checkout also in the jobs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOP_")}
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [kept.get("PYTHONPATH")])])
    return kept | {"PYTHONPATH": path} | more


def run(
    product: Path,
    folder: Path,
    *arguments: str,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    inside: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Snakemake to its end; ``inside`` is shell text around it, "$@" being the command."""
    if config is not None:
        (folder / "mine.json").write_text(json.dumps(config))
    whole = command(product, *arguments)
    if inside is not None:
        whole = [*NAMESPACE, "bash", "-euc", inside, "run", *whole]
    return subprocess.run(
        whole,
        cwd=folder,
        env=environment(**(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )


def started_jobs(output: str) -> int:
    """How many jobs Snakemake began."""
    return output.count("    jobid: ") - output.count("Error in rule ")


# A mount name space of our own, so that no mount outlives the test; root or not.
NAMESPACE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def can_mount() -> bool:
    """Whether this machine lets a test mount a file system of its own."""
    try:
        tried = subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return tried.returncode == 0


class Running:
    """A run of Snakemake in a process group of its own, to be killed."""

    def __init__(
        self, product: Path, folder: Path, *arguments: str, env: Mapping[str, str] | None = None
    ):
        self.log = folder / "run.log"
        self._mark = f"{folder.name}-{time.monotonic_ns()}"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command(product, *arguments),
                cwd=folder,
                env=environment(RELIABILITY_RUN=self._mark, **(env or {})),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def members(self) -> list[int]:
        """Every living process of the run, whatever its group."""
        mark = f"RELIABILITY_RUN={self._mark}".encode()
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
            except OSError:
                continue
        return found

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole run and wait until nothing of it is left."""
        for pid in self.members():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        self.process.wait(120)
        deadline = time.monotonic() + 120
        while self.members():
            assert time.monotonic() < deadline, f"still running: {self.members()}"
            time.sleep(0.05)


def finished_cells(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Cells whose jobs Snakemake knows to have ended well: inode, date and content.

    While a job runs, and after it was killed, Snakemake keeps a marker named by its output.
    """
    import base64

    markers = folder / ".snakemake" / "incomplete"
    open_ones = set()
    for marker in markers.rglob("*") if markers.exists() else ():
        if marker.is_file():
            name = str(marker.relative_to(markers)).replace("/", "").removeprefix("@")
            open_ones.add(base64.urlsafe_b64decode(name).decode())
    cells = {}
    for path in sorted((folder / "results").rglob("*~*.h5")):
        name = str(path.relative_to(folder))
        if name not in open_ones and not path.name.startswith("."):
            stat = path.stat()
            cells[name] = (stat.st_ino, stat.st_mtime_ns, path.read_bytes())
    return cells


def numbers(folder: Path) -> dict[str, Any]:
    """Every result bit by bit, but for times: arrays, attributes, tables and figures."""
    found: dict[str, Any] = {}
    results = folder / "results"
    for path in sorted([*results.rglob("*.h5"), *results.rglob("*.csv"), *results.rglob("*.pdf")]):
        name = str(path.relative_to(results))
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                arrays = {key: data[...] for key, data in file.items() if key not in TIMES}
                notes = {key: value for key, value in file.attrs.items() if key not in TIMES}
            found |= {f"{name}:{key}": _bits(value) for key, value in arrays.items()}
            found |= {f"{name}@{key}": _bits(value) for key, value in notes.items()}
        elif path.suffix == ".csv":
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
            found[name] = table.drop(columns=list(TIMES), errors="ignore").to_csv()
        else:
            found[name] = path.read_bytes()
    return found


def _bits(value: Any) -> Any:
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind == "O" else (str(array.dtype), array.tobytes())


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of results that are not the same in both."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
