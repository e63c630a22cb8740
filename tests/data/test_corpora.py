"""Texts come out labelled and counted; anything wrong in the file is one line that says where."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from wordsens.data.corpora import make_corpus, read_texts
from wordsens.errors import UserError

ROWS = [
    {"review": "good, really", "verdict": "fresh", "film": "a"},
    {"review": "bad\nand long", "verdict": "rotten", "film": "a"},
    {"review": "a plot", "verdict": "plot", "film": "a"},
    {"review": "  ", "verdict": "fresh", "film": "b"},
    {"review": 'très "bon"', "verdict": "fresh", "film": "a"},
]
SETTINGS = {
    "source": "file",
    "text": "review",
    "label": "verdict",
    "labels": {"fresh": 1, "rotten": -1},
    "join": [],
}


def csv_bytes(rows: list[dict[str, str]]) -> bytes:
    quoted = [
        ",".join('"' + value.replace('"', '""') + '"' for value in row.values()) for row in rows
    ]
    return "\n".join([",".join(rows[0]), *quoted, ""]).encode()


def jsonl_bytes(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def make(folder: Path, name: str, content: bytes, **changes: Any) -> tuple[list[dict], dict]:
    path = folder / name
    path.write_bytes(content)
    settings = SETTINGS | {"path": str(path)} | changes
    counts = make_corpus(settings, folder / "t.jsonl", folder / "counts.json", "corpora.mine")
    assert json.loads((folder / "counts.json").read_text()) == counts
    return list(read_texts(folder / "t.jsonl")), counts


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", csv_bytes(ROWS)),
        ("a.csv", b"\xef\xbb\xbf" + csv_bytes(ROWS).replace(b"\n", b"\r\n")),
        ("a.csv.bz2", bz2.compress(csv_bytes(ROWS))),
        ("a.jsonl", jsonl_bytes(ROWS)),
        ("a.jsonl.gz", gzip.compress(jsonl_bytes(ROWS), mtime=0)),
    ],
)
def test_every_format_gives_the_same_texts(tmp_path: Path, name: str, content: bytes) -> None:
    texts, counts = make(tmp_path, name, content)
    found = [(text["text"].replace("\r", ""), text["label"]) for text in texts]
    assert found == [("good, really", 1), ("bad\nand long", -1), ('très "bon"', 1)]
    expected = {"rows": 5, "kept": 3, "empty": 1, "skipped": 1, "texts": 3}
    assert {name: counts[name] for name in expected} == expected
    assert counts["skipped_labels"] == {"plot": 1}
    assert (counts["positive"], counts["negative"]) == (2, 1)


def test_joined_in_file_order(tmp_path: Path) -> None:
    texts, counts = make(tmp_path, "a.csv", csv_bytes(ROWS), join=["film", "verdict"])
    assert texts[0] == {"text": 'good, really très "bon"', "label": 1, "group": "a | fresh"}
    assert texts[1]["label"] == -1
    assert counts["joined_groups"] == 2


def test_joining_both_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.csv line 4: .* both labels; add verdict to join"):
        make(tmp_path, "a.csv", csv_bytes(ROWS), join=["film"])


@pytest.mark.parametrize("labels", [{1: 1, 0: -1}, {"1": 1, "0": -1}, {1.0: 1, 0.0: -1}])
def test_numbers_as_labels(tmp_path: Path, labels: dict) -> None:
    rows = [{"review": "x", "verdict": 1}, {"review": "y", "verdict": 0.0}]
    texts, _ = make(tmp_path, "a.jsonl", jsonl_bytes(rows), labels=labels)
    assert [text["label"] for text in texts] == [1, -1]
    rows = [{"review": "x", "verdict": "1.0"}, {"review": "y", "verdict": "0"}]
    texts, _ = make(tmp_path, "b.csv", csv_bytes(rows), labels=labels)
    assert [text["label"] for text in texts] == [1, -1], "whole numbers as pandas writes them"


def test_labels_without_a_meaning_must_be_signs(tmp_path: Path) -> None:
    rows = [{"review": "x", "verdict": "-1"}, {"review": "y", "verdict": "+1"}]
    texts, _ = make(tmp_path, "a.csv", csv_bytes(rows), labels=None)
    assert [text["label"] for text in texts] == [-1, 1]
    with pytest.raises(
        UserError, match=r"corpora\.mine\.label: .*line 2: label 'fresh' is neither"
    ):
        make(tmp_path, "a.csv", csv_bytes(ROWS), labels=None)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.csv",
            b"reviw,verdict\nx,fresh\n",
            r"corpora\.mine\.text: .*line 2 .*'review'; there "
            r"are: reviw, verdict; did you mean reviw",
        ),
        ("a.csv", b"review,verdict\nx,fresh\n\xffy,rotten\n", r"line 3: byte 0xff is not UTF-8"),
        ("a.csv", b"review,verdict\na, b,fresh\n", r"line 2: 3 fields, but the header names 2"),
        ("a.csv", b"", r"empty; the first line must name the columns"),
        ("a.csv", b"review,verdict\n", r"no text is left of 0 rows"),
        (
            "a.csv",
            b"review,verdict\nx,new\n",
            r"no text is left of 1 rows; .*'new': 1.*fresh, rotten",
        ),
        ("a.csv", b'review,verdict\n"x,fresh\n', r"line 2: not valid CSV"),
        ("a.jsonl", b'{"review": 1}\nx\n', r"corpora\.mine\.label: .*line 1"),
        ("a.jsonl", b'{"review": "x", "verdict": "fresh"}\n{oops\n', r"line 2: not valid JSON"),
        ("a.jsonl", b"[1]\n", r"line 1: a line must be a JSON object"),
        ("a.jsonl", b'{"review": 5, "verdict": "fresh"}\n', r"holds 5, which is no text"),
        ("a.csv.bz2", csv_bytes(ROWS), r"a\.csv\.bz2: cannot be read"),
        ("a.csv.gz", gzip.compress(csv_bytes(ROWS), mtime=0)[:-9], r"a\.csv\.gz: cannot be read"),
    ],
)
def test_mistakes_say_where(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        make(tmp_path, name, content)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t.jsonl").exists()


def test_long_fields(tmp_path: Path) -> None:
    rows = [{"review": "word " * 50_000, "verdict": "fresh"}]
    texts, _ = make(tmp_path, "a.csv", csv_bytes(rows))
    assert len(texts[0]["text"]) == 250_000


@pytest.mark.parametrize("name", ["texts.txt", "texts.txt.gz", "texts.csv", "texts.jsonl"])
def test_texts_without_labels_are_one_running_text(tmp_path: Path, name: str) -> None:
    lines = ["a first text", "", "and a second"]
    if name.endswith("csv"):
        content = csv_bytes([{"text": line} for line in lines])
    elif name.endswith("jsonl"):
        content = jsonl_bytes([{"text": line} for line in lines])
    else:
        content = "\n".join(lines).encode()
        content = gzip.compress(content) if name.endswith("gz") else content
    (tmp_path / name).write_bytes(content)
    settings = {"source": "file", "path": str(tmp_path / name), "text": "text", "label": "label"}
    settings |= {"labelled": False, "join": "all"}
    counts = make_corpus(settings, tmp_path / "out.jsonl", tmp_path / "counts.json", "corpora.x")
    (text,) = read_texts(tmp_path / "out.jsonl")
    assert text["text"] == "a first text and a second"
    assert text["label"] == 1
    assert counts["kept"] == 2
    settings["join"] = []
    make_corpus(settings, tmp_path / "out.jsonl", tmp_path / "counts.json", "corpora.x")
    assert len(list(read_texts(tmp_path / "out.jsonl"))) == 2
