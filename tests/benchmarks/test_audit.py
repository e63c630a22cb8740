"""The audit writes its table line by line and goes on with what is there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks import audit


def test_a_table_is_written_where_no_folder_was_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = audit.Preset(draws=1, trials=1, largest=40, samples=0, windows={})
    monkeypatch.setitem(audit.PRESETS, "small", tiny)
    folder = tmp_path / "a new" / "folder"
    arguments = ["--only", "qkv", "--folder", str(folder)]
    assert audit.main(arguments) == 0
    printed = capsys.readouterr().out
    with (folder / "audit.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["what"] for row in rows] == [
        "qkv",
        "losses, qkv",
        "losses, qkv, above the published",
    ]
    assert all(0 <= float(row["mean"]) <= float(row["worst"]) < 1 for row in rows)
    assert (folder / "audit.md").read_text().splitlines()[-3:] == printed.splitlines()

    monkeypatch.setattr(audit, "audited_map", None)
    monkeypatch.setattr(audit, "lines_of_losses", None)
    assert audit.main([*arguments, "--resume"]) == 0
    with (folder / "audit.csv").open() as file:
        assert list(csv.DictReader(file)) == rows
