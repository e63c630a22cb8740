"""The benchmark's own bookkeeping: tables, the CSV, and when it refuses a figure."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import history, run, tables
from benchmarks.settings import FULL, PRESETS, Fit, Setting, Training, Words

ROOT = Path(__file__).resolve().parents[2]


def result(seconds: float, **more: Any) -> dict[str, Any]:
    versions = {"torch": "2", "numpy": "2", "wordsens": "0"}
    usual = {"peak_mib": 300.0, "value": 2.0, "bound": 5.0, "steps": 100, "spread": None}
    quiet = {"others": 0.0, "threads": 2, "versions": versions, "seconds": seconds}
    return {**usual, **quiet, **more}


def cells(setting: Setting, theirs: dict | None, mine: dict) -> dict[str, str]:
    line = tables.markdown([(setting, theirs, mine)], "small").splitlines()[-1]
    values = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(values) == len(tables.HEADER)
    keys = ["setting", "their time", "their memory", "their value", "timed", "time"]
    return dict(zip([*keys, "memory", "value", "bound", "faster", "ratio"], values, strict=True))


def test_ratios_of_a_quiet_complete_pair() -> None:
    theirs = result(50.0, steps_timed=100, value=1.6)
    shown = cells(Setting("raf", n=40, d=192), theirs, result(0.1))
    assert (shown["faster"], shown["ratio"]) == ("500×", "1.250")
    assert (shown["their time"], shown["time"]) == ("50 s", "0.1 s")


@pytest.mark.parametrize("who", ["theirs", "mine"])
def test_a_disturbed_time_gives_no_speed(who: str) -> None:
    theirs, mine = result(50.0, steps_timed=100), result(0.1)
    {"theirs": theirs, "mine": mine}[who]["others"] = 0.45
    shown = cells(Setting("raf", n=40, d=192), theirs, mine)
    assert shown["faster"] == ""
    assert shown["their time" if who == "theirs" else "time"].endswith("*")


def test_an_extrapolated_time_says_so_and_has_no_value() -> None:
    theirs = result(9e5, steps_timed=2, value=None)
    shown = cells(Setting("raf", n=4096, d=5120, baseline=2), theirs, result(60.0))
    assert "extrapolated" in shown["their time"]
    assert shown["timed"] == "2 of 100"
    assert shown["their value"] == shown["ratio"] == ""


def test_too_large_for_the_baseline_shows_the_memory_it_needs() -> None:
    shown = cells(Setting("drf", n=80, d=768, depth=8, baseline=None), None, result(4.0))
    assert shown["their memory"] == "(121 GB)"
    assert shown["their time"] == shown["faster"] == ""
    assert tables.needed_bytes(Setting("rf", n=150, d=768)) == pytest.approx(53e9, rel=0.01)


@pytest.mark.parametrize(
    "setting", [Setting("rf", n=10, d=192), Setting("raf", n=40, d=192, positions="all")]
)
def test_values_of_different_problems_are_not_divided(setting: Setting) -> None:
    assert cells(setting, result(9.0, steps_timed=100), result(0.1))["ratio"] == ""


def test_csv_is_appended_under_one_header(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    for _ in range(2):
        history.append(path, run.row("ours", Setting("rf", n=10, d=192), result(0.1)))
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    assert list(rows[0]) == history.FIELDS
    assert rows[0]["torch"] == "2"


def test_a_time_is_compared_with_the_last_of_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    # A file of an older version, without the columns that came later, and another machine's row.
    known = [name for name in history.FIELDS if name not in ("precision", "noise", "commit")]
    setting = Setting("rf", n=10, d=192)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, known, extrasaction="ignore")
        writer.writeheader()
        writer.writerow(run.row("ours", setting, result(0.2)))
        writer.writerow(run.row("ours", setting, result(7.0)) | {"machine": "another"})
    now = run.row("ours", setting, result(0.1))
    before = history.last(path, now)
    assert before is not None
    assert float(before["seconds"]) == 0.2
    assert history.change(before, now).startswith("50% faster than on")
    history.append(path, now)
    assert [row["seconds"] for row in history.read(path)] == ["0.2", "7.0", "0.1"]
    for other in (Setting("rf", n=11, d=192), Setting("raf", n=10, d=192)):
        assert history.last(path, run.row("ours", other, result(0.1))) is None
    words = {p: Words("raf", n=9, d=8, vocabulary=9, precision=p) for p in ("float32", "float64")}
    history.append(path, run.row("ours", words["float32"], result(1.0)))
    assert history.last(path, run.row("ours", words["float64"], result(1.0))) is None


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {"seconds": 0.105}, "within noise of 10%"),
        ({}, {"seconds": 0.13}, "30% slower"),
        ({}, {"seconds": 0.13, "noise": 0.4}, "within noise of 40%"),
        ({"noise": 0.4}, {"seconds": 0.13}, "within noise of 40%"),
        ({"others": 0.3}, {"seconds": 0.13}, "others disturbed that run"),
        ({}, {"seconds": 0.13, "others": 0.3}, "others disturbed this run"),
    ],
)
def test_noise_is_no_change(before: dict, now: dict, said: str) -> None:
    rows = [
        {k: "" if v is None else str(v) for k, v in run.row("ours", each, result(0.1)).items()}
        for each in [Setting("rf", n=10, d=192)] * 2
    ]
    assert said in history.change(rows[0] | before, rows[1] | now)


def test_full_preset_has_the_sizes_that_must_be_reached() -> None:
    searches = [s for s in FULL if isinstance(s, Setting)]
    trained = [s for s in FULL if isinstance(s, Training)]
    assert ("raf", 400, 40, 384) in {(s.map, s.N, s.n, s.d) for s in trained}
    wanted = {
        ("raf", 250, 768, 1, "first"),
        ("raf", 250, 768, 1, "all"),
        ("rf", 150, 768, 1, "first"),
        ("drf", 80, 768, 8, "first"),
        ("rf", 4096, 5120, 1, "first"),
    }
    assert wanted <= {(s.map, s.n, s.d, s.depth, s.positions) for s in searches}
    (stability,) = (s for s in searches if s.seeds > 1)
    assert (stability.map, stability.n, stability.d, stability.seeds) == ("raf", 100, 768, 20)
    for preset in PRESETS.values():
        searches = [s for s in preset if isinstance(s, Setting)]
        assert all(s.positions == "first" or s.seeds == 1 for s in searches)


def test_the_parent_imports_no_torch() -> None:
    code = "import sys, benchmarks.run; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_training_counts_the_losses_above_the_published_ones() -> None:
    theirs = result(500.0, steps_timed=100, losses=[1.0, 0.5, 1e-17, 2.0])
    mine = result(2.0, losses=[0.9, 0.51, 1e-9, 2.0 + 1e-7])
    text = tables.markdown([(Training("raf", n=40, d=384, N=400), theirs, mine)], "small")
    shown = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert shown == [
        *("raf N=400 n=40 d=384", "8.33 min", "0.31 GB", "100 of 100"),
        *("2 s", "0.31 GB", "250×", "1 of 4", "2.00%"),
    ]


def test_words_show_their_deviation() -> None:
    theirs = result(4e4, steps_timed=200, steps=7_630_500, changes=[0.1])
    mine = result(2.0, value=0.25, deviation=3.2e-8)
    setting = Words("raf", n=250, d=384, vocabulary=30522)
    text = tables.markdown([(setting, theirs, mine)], "small")
    shown = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert shown == [
        *("raf n=250 d=384, 30522 words, float32", "11.1 h (extrapolated)", "0.31 GB"),
        *("200 of 7630500", "2 s", "0.31 GB", "0.25", "2e+04×", "3.2e-08"),
    ]
    assert {(s.map, s.n, s.d, s.vocabulary) for s in FULL if isinstance(s, Words)} >= {
        ("raf", 250, 384, 30522)
    }


def test_a_measurement_that_dies_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = Setting("raf", n=4, d=-8, baseline=None)
    small = (huge, Setting("raf", n=4, d=8), Fit("raf", n=4, d=8, N=5))
    monkeypatch.setitem(PRESETS, "small", small)
    folder = tmp_path / "not yet" / "there"
    assert run.main(["--threads", "1", "--folder", str(folder)]) == 1
    table = (folder / "results.md").read_text()
    assert "| failed |" in table
    assert "| raf n=4 d=8 |" in table
    assert "| fit raf N=5 n=4 d=8 |" in table


@pytest.mark.parametrize("who", ["ours", "published"])
@pytest.mark.parametrize("kind", ["Setting", "Training", "Words"])
def test_one_measurement_in_its_own_process(who: str, kind: str) -> None:
    more: dict[str, Any] = {"Training": {"N": 6}, "Words": {"vocabulary": 30}}.get(kind, {})
    setting = {"map": "raf", "n": 4, "d": 8, **more}
    asked = {"who": who, "kind": kind, "setting": setting}
    request = json.dumps({**asked, "threads": 1, "seed": 1})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", request],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout)
    if kind == "Words":
        assert len(measured["changes"]) == 200 if who == "published" else measured["value"] > 0
        assert who == "published" or measured["deviation"] < 1e-6
    else:
        assert len(measured["losses"]) == 16 if kind == "Training" else measured["value"] > 0
    assert measured["seconds"] > 0
    assert 50 < measured["peak_mib"] < 5000
