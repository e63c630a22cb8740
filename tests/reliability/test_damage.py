"""Damage, a full disk, a read-only place, a lock: one line each, and nothing else is touched."""

from __future__ import annotations

import copy
import fcntl
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from tests.reliability import runs

Damage = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def replaced_by_text(path: Path) -> None:
    path.write_text("sup,bound\n1,2\n")


def half_written(path: Path) -> None:
    """All of its length, but only the first half of its bytes."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2].ljust(len(content), b"\0"))


def foreign(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["somebody/else"] = [1, 2, 3]


def foreign_table(path: Path) -> None:
    path.write_text("a,b\n1,2\n3,4\n")


def incomplete(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = False


def other_version(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 99


def without_array(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["sup" if "sup" in file else "lengths"]


def one_number_changed(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        data = file["sup" if "sup" in file else "embeddings"]
        data[...] = data[...] * 1.5


def of_another_cell(path: Path) -> None:
    other = path.parents[2] / "n~8" / "depth~1" / "words~1.h5"
    shutil.copyfile(other, path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").touch()


HDF5 = (cut, emptied, replaced_by_text, half_written, foreign, incomplete, other_version)
CELLS = (*HDF5, without_array, one_number_changed, of_another_cell)
EMBEDDINGS = (*HDF5, without_array, one_number_changed)
TABLES = (cut, emptied, foreign_table, half_written)


def named(damage: Damage) -> str:
    return damage.__name__.replace("_", " ")


def errors(output: str) -> list[str]:
    """The lines by which jobs said what is wrong, as they stand after all Snakemake said."""
    assert "Traceback" not in output, output
    said = output.split("What failed:\n")[1].splitlines()
    return [line.strip() for line in itertools.takewhile(lambda line: line.startswith("  "), said)]


def about(output: str, file: str) -> str:
    """The one line about a file; it names the remedy."""
    lines = [line for line in errors(output) if line.startswith(file)]
    assert len(lines) == 1, (file, errors(output))
    assert re.search(r"delete (it|\S+) and run snakemake again|run snakemake again$", lines[0])
    return lines[0]


def contents(folder: Path) -> dict[str, bytes]:
    """Results, without logs and benchmarks."""
    kept = ("sensitivity", "generalization", "embeddings", "tables", "figures", "assets")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for part in kept
        for path in (folder / "results" / part).rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture
def folder(reference: Path, tmp_path: Path) -> Path:
    return runs.copy_of(reference, tmp_path / "a run")


def test_cells(workflow: Path, folder: Path, injected) -> None:
    """Each damaged in another way, each in a sweep of its own beside sound ones."""
    config = runs.configuration()
    for damage in CELLS:
        name = damage.__name__
        config["sweeps"][name] = config["sweeps"]["s"]
        shutil.copytree(folder / "results/sensitivity/s", folder / f"results/sensitivity/{name}")
        damage(folder / f"results/sensitivity/{name}/d~8/n~4/depth~1/words~1.h5")
    (folder / "results/tables/s.csv").unlink()
    before = contents(folder)
    done = runs.run(workflow, folder, "--cores", "2", "--keep-going", "tables", config=config)
    assert done.returncode == 1
    after = contents(folder)
    for damage in CELLS:
        name = damage.__name__
        about(done.stdout, f"results/sensitivity/{name}/d~8/n~4/depth~1/words~1.h5: ")
        assert f"results/tables/{name}.csv" not in after
        injected(f"a cell {named(damage)}", 1, 0, "one line, exit code 1")
    assert len(errors(done.stdout)) == len(CELLS)
    assert "results/tables/s.csv" in after, "the sound sweep's table was not made"
    assert {name: after.get(name) for name in before} == before


def refused(
    workflow: Path, folder: Path, targets: list[str], files: list[str], config: dict
) -> None:
    """A run of the targets names every one of the files in one line and touches nothing."""
    before = contents(folder)
    done = runs.run(workflow, folder, "--cores", "2", "--keep-going", *targets, config=config)
    assert done.returncode == 1
    for file in files:
        about(done.stdout, f"{file}: ")
    assert contents(folder) == before


def test_embeddings(workflow: Path, folder: Path, injected) -> None:
    config = runs.configuration()
    config["sweeps"] |= {
        damage.__name__: config["sweeps"]["s"] | {"dataset": damage.__name__, "n": [4]}
        for damage in EMBEDDINGS
    }
    for damage in EMBEDDINGS:
        config["datasets"][damage.__name__] = config["datasets"]["mine"]
        path = folder / f"results/embeddings/{damage.__name__}.h5"
        shutil.copyfile(folder / "results/embeddings/mine.h5", path)
        damage(path)
    names = [damage.__name__ for damage in EMBEDDINGS]
    targets = [f"results/tables/{name}.csv" for name in names]
    refused(workflow, folder, targets, [f"results/embeddings/{name}.h5" for name in names], config)
    for damage in EMBEDDINGS:
        injected(f"embeddings {named(damage)}", 1, 0, "one line, exit code 1")


def test_tables(workflow: Path, folder: Path, injected) -> None:
    """A table that was cut still reads as CSV; a figure must not be drawn from it."""
    config = runs.configuration()
    for damage in TABLES:
        name = damage.__name__
        config["sweeps"][name] = config["sweeps"]["s"]
        config["figures"][f"f_{name}"] = config["figures"]["f"] | {"sweeps": [name]}
        table = folder / f"results/tables/{name}.csv"
        shutil.copyfile(folder / "results/tables/s.csv", table)
        digest = (folder / "results/tables/s.csv.sha256").read_text()
        table.with_name(f"{name}.csv.sha256").write_text(digest.replace("s.csv", f"{name}.csv"))
        damage(table)
    names = [damage.__name__ for damage in TABLES]
    targets = [f"f_{name}" for name in names]
    refused(workflow, folder, targets, [f"results/tables/{name}.csv" for name in names], config)
    for damage in TABLES:
        injected(f"a table (CSV) {named(damage)}", 1, 0, "one line, exit code 1")


def test_assets(workflow: Path, folder: Path, injected) -> None:
    """Texts and weights that are no longer what was fetched."""
    config = runs.configuration()
    assets = folder / "results/assets"

    def texts_cut(name: str) -> Path:
        path = assets / f"corpora/{name}/texts.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-5]))
        return path

    def weights_changed(name: str) -> Path:
        path = assets / f"encoders/{name}/model.safetensors"
        content = bytearray(path.read_bytes())
        path.unlink()
        content[-1] ^= 1
        path.write_bytes(content)
        return path

    def notes_emptied(name: str) -> Path:
        path = assets / f"encoders/{name}/asset.json"
        path.write_text("")
        return path.parent

    def tokenizer_cut(name: str) -> Path:
        path = assets / f"encoders/{name}/tokenizer.json"
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[:100])
        return path.parent

    bad = {}
    for damage in (texts_cut, weights_changed, notes_emptied, tokenizer_cut):
        name = damage.__name__
        for kind in ("corpora", "encoders"):
            config[kind][name] = config[kind]["mine"]
            shutil.copytree(assets / kind / "mine", assets / kind / name, symlinks=True)
        config["datasets"][name] = config["datasets"]["mine"] | {"corpus": name, "encoder": name}
        bad[name] = damage(name).relative_to(folder)
    before = contents(folder)
    targets = [f"results/embeddings/{name}.h5" for name in bad]
    done = runs.run(workflow, folder, "--cores", "2", "--keep-going", *targets, config=config)
    assert done.returncode == 1
    for name, path in bad.items():
        lines = [line for line in errors(done.stdout) if f"{path}: " in line]
        assert len(lines) == 1, (path, errors(done.stdout))
        injected(f"an asset: {name.replace('_', ' ')}", 1, 0, "one line, exit code 1")
    assert contents(folder) == before


FULL = """
cp -a results results.kept; mount -t tmpfs -o size=4m tmpfs results; cp -a results.kept/. results/
rm -r results/figures results/tables results/sensitivity/s/d~8/n~4 %(removed)s
dd if=/dev/zero of=results/fill bs=1k status=none 2>/dev/null || true
truncate -s -%(left)sk results/fill
find results -type f -path '*/n~8/*' -exec sha256sum {} + >before
status=0; "$@" || status=$?
sha256sum --check --quiet before
find results -name '.*[0-9]*' ! -name .snakemake_timestamp >left
if [ "$(df --output=avail results | tail -1)" -gt 1024 ]; then echo "not full"; exit 99; fi
rm results/fill
"$@"
rm -rf results.after; cp -a results results.after
exit $status
"""


@pytest.mark.parametrize(
    ("removed", "left"),
    [("results/embeddings", 2), ("", 8)],
    ids=["embeddings", "cell"],
)
def test_full_disk(
    workflow: Path, folder: Path, reference: Path, removed: str, left: int, injected
) -> None:
    """A disk fills while a run writes; with space again, the same command ends well."""
    assert runs.can_mount(), "needs mount in a name space of its own (root, or user name spaces)"
    done = runs.run(
        workflow,
        folder,
        "--cores",
        "2",
        *runs.TARGETS,
        inside=FULL % {"removed": removed, "left": left},
    )
    first = "\n".join(errors(done.stdout))
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    assert "Segmentation fault" not in done.stdout
    assert re.search(r"results\S*: .*free some space", first), done.stdout
    assert (folder / "left").read_text() == "", "half-written files stay"
    shutil.rmtree(folder / "results")
    (folder / "results.after").rename(folder / "results")
    assert runs.differences(runs.numbers(reference), runs.numbers(folder)) == []
    what = "embeddings are" if removed else "a cell is"
    injected(f"a disk that fills while {what} written", 1, 0, "one line, exit code 1, resumed")


READ_ONLY = """
rm -r results/figures %(removed)s
mount --bind %(place)s %(place)s; mount -o remount,bind,ro %(place)s; exec "$@"
"""


@pytest.mark.parametrize("place", ["results", "results/sensitivity"])
def test_read_only(workflow: Path, folder: Path, place: str, injected) -> None:
    """Root may write where permissions forbid it, but not where a file system is read-only."""
    assert runs.can_mount(), "needs mount in a name space of its own (root, or user name spaces)"
    before = contents(folder)
    done = runs.run(
        workflow,
        folder,
        "--cores",
        "2",
        *runs.TARGETS,
        inside=READ_ONLY % {"place": place, "removed": "results/tables results/provenance"},
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    lines = {line for line in done.stdout.splitlines() if "no files can be written here" in line}
    assert len(lines) == 1, done.stdout
    assert lines.pop().startswith(place)
    assert runs.started_jobs(done.stdout) == 0
    shutil.copytree(folder / "results", folder / "again")
    after = contents(folder)
    assert all(after[name] == content for name, content in before.items() if name in after)
    injected(f"{place} read-only", 1, 0, "one line before the first job, exit code 1")


def test_a_file_where_results_should_be(workflow: Path, inputs: Path, tmp_path: Path) -> None:
    folder = runs.copy_of(inputs, tmp_path / "a run")
    (folder / "results").write_text("notes\n")
    done = runs.run(workflow, folder, "--cores", "2", *runs.TARGETS)
    assert done.returncode == 1
    assert "results: a file, where results need a folder; move it away" in done.stdout
    assert "Traceback" not in done.stdout
    assert (folder / "results").read_text() == "notes\n"


def test_locked_by_another_process(workflow: Path, folder: Path, injected) -> None:
    """Another program has embeddings open for writing, and another writer a half-written file."""
    config = runs.configuration()
    config["datasets"]["other"] = copy.deepcopy(config["datasets"]["mine"])
    partial = folder / "results/embeddings/other.h5.partial"
    shutil.copyfile(folder / "results/embeddings/mine.h5", partial)
    held = [folder / "results/embeddings/mine.h5", partial]
    shutil.rmtree(folder / "results/sensitivity")
    shutil.rmtree(folder / "results/tables")
    before = contents(folder)
    files = [os.open(path, os.O_RDWR) for path in held]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    targets = ["results/tables/s.csv", "results/embeddings/other.h5"]
    done = runs.run(workflow, folder, "--cores", "2", "--keep-going", *targets, config=config)
    for file in files:
        os.close(file)
    assert done.returncode == 1
    assert "close it there, or wait for it" in about(done.stdout, "results/embeddings/mine.h5: ")
    assert "is writing it" in about(done.stdout, "results/embeddings/other.h5.partial: ")
    assert contents(folder) == before, "a file that another process holds was changed"
    injected("a file locked by another process", 2, 0, "one line, exit code 1")
    again = runs.run(workflow, folder, "--cores", "2", *targets, config=config)
    assert again.returncode == 0, again.stdout


def test_a_failed_run_ends_with_what_failed(workflow: Path, folder: Path) -> None:
    """The reasons stand last, each once, however much Snakemake says before."""
    cell = folder / "results/sensitivity/s/d~8/n~4/depth~1/words~1.h5"
    emptied(cell)
    (folder / "mine.json").write_text(json.dumps(runs.configuration()))
    done = runs.run(workflow, folder, "--cores", "2", "--keep-going", *runs.TARGETS)
    assert done.returncode == 1
    assert errors(done.stdout)[0].startswith(f"{cell.relative_to(folder)}: not readable")
    assert len(errors(done.stdout)) == 1
    assert len(done.stdout.split("What failed:")[1].strip().splitlines()) <= 5
