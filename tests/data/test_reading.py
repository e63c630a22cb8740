"""What people's files look like: other encodings, separators, names and kinds."""

from __future__ import annotations

import bz2
import gzip
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from wordsens.config.own import look_at_corpus, look_at_encoder
from wordsens.data.reading import first_rows, read_rows
from wordsens.errors import UserError

RUSSIAN = "Привет, мир. Этот фильм очень хороший, и актёры играют прекрасно."
JAPANESE = "これはとても良い映画でした。もう一度見たいと思います。"
CHINESE = "这部电影非常好看，演员的表演也很出色，我想再看一遍。"
KOREAN = "이 영화는 정말 좋았습니다. 다시 한번 보고 싶습니다."
FRENCH = "Un très bon film, tourné à Genève l’été dernier : déjà vu, hélas."


def rows(folder: Path, name: str, content: bytes) -> list[dict]:
    path = folder / name
    path.write_bytes(content)
    found = [row for _, row in read_rows(path)]
    assert [row for _, row in first_rows(path, 1 << 20)[0]] == found
    return found


def says(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        list(read_rows(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


CSV, LINES = b"text,label\na,1\n", b"text,label\n"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("export.txt.csv", CSV, [{"text": "a", "label": "1"}]),
        ("notes.csv.txt", CSV, [{"text": "text,label"}, {"text": "a,1"}]),
        ("x.csv.backup.jsonl", b'{"text": "a"}\n', [{"text": "a"}]),
        ("A.CSV", CSV, [{"text": "a", "label": "1"}]),
        ("A.TXT", b"a\n", [{"text": "a"}]),
        ("A.JsonL", b'{"text": "a"}\n', [{"text": "a"}]),
        ("a.csv", gzip.compress(CSV, mtime=0), [{"text": "a", "label": "1"}]),
        ("a.CSV.GZ", gzip.compress(CSV, mtime=0), [{"text": "a", "label": "1"}]),
        ("a.gz.csv.bz2", bz2.compress(CSV), [{"text": "a", "label": "1"}]),
        ("a.csv.gz", bz2.compress(CSV), None),
    ],
)
def test_the_last_ending_and_the_content_decide(tmp_path, name, content, expected) -> None:
    if expected is None:
        assert "cannot be read" in says(tmp_path, name, content)
    else:
        assert rows(tmp_path, name, content) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"text;label\na, b;1\n", {"text": "a, b", "label": "1"}),
        (b"text\tlabel\na, b; c\t1\n", {"text": "a, b; c", "label": "1"}),
        (b"text|label\na, b|1\n", {"text": "a, b", "label": "1"}),
        (b'text;label\n"a; b\nc";1\n', {"text": "a; b\nc", "label": "1"}),
        (b'text,label\n"a; b; c; d",1\n', {"text": "a; b; c; d", "label": "1"}),
        (b"text\na; b\n", {"text": "a; b"}),
        (b'\xef\xbb\xbf"text";"label"\r\na;1\r\n', {"text": "a", "label": "1"}),
        (b"text,label;x\na,1;y\n", {"text": "a", "label;x": "1;y"}),
    ],
)
def test_separators_are_seen(tmp_path: Path, content: bytes, expected: dict) -> None:
    assert rows(tmp_path, "a.csv", content) == [expected]


def test_a_row_that_does_not_fit_names_its_separator(tmp_path: Path) -> None:
    line = says(tmp_path, "a.csv", b"text;label\na;1\nb;c;1\n")
    assert "line 3: 3 fields, but the header names 2; quote texts that hold semicolons" in line
    assert "quote texts that hold commas" in says(tmp_path, "b.csv", b"text,label\na, b,up\n")


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        (FRENCH, "cp1252", "cp1252"),
        ("Un café très déjà vu à l’été, où ça ?", "cp1252", "cp1252"),
        ("à é ï ô ü", "cp1252", "cp1252"),
        (FRENCH, "utf-16", "utf-16"),
        (FRENCH, "utf-16-le", "utf-16le"),
        (RUSSIAN, "cp1251", "cp1251"),
        (RUSSIAN, "utf-16", "utf-16"),
        (JAPANESE, "shift_jis", "shift_jis"),
        (JAPANESE, "euc_jp", "euc-jp"),
        (CHINESE, "gb18030", "gb18030"),
        (KOREAN, "euc_kr", "euc-kr"),
    ],
)
def test_the_encoding_that_fits_is_named_and_iconv_agrees(tmp_path, text, encoding, named) -> None:
    content = f"{text}\n{text}\n".encode(encoding)
    if encoding == "utf-16-le":
        content = "é\n".encode("utf-16-le") + content
    line = says(tmp_path, "mine.txt", content)
    assert "is not UTF-8; it reads as " + named in line
    command = line[line.index("iconv -f") :]
    done = subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    assert done.returncode == 0
    converted = (tmp_path / "utf8.txt").read_text(encoding="utf-8")
    assert text in converted


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"PK\x03\x04rest", "a zip archive"), (b"%PDF-1.7", "a PDF"), (b"PAR1", "Parquet")],
)
def test_other_kinds_of_file_are_named(tmp_path: Path, content: bytes, what: str) -> None:
    assert what in says(tmp_path, "a.csv", content)


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00 x", "a \\ud83d\\ud83d"])
def test_half_a_character_is_named(tmp_path: Path, half: str) -> None:
    content = f'{{"text": "whole \\ud83d\\ude00"}}\n{{"text": "{half}"}}\n'.encode()
    line = says(tmp_path, "a.jsonl", content)
    assert "line 2: \\ud" in line
    assert "is half of a character" in line


def test_whole_emoji_and_deep_json(tmp_path: Path) -> None:
    assert rows(tmp_path, "a.jsonl", b'{"text": "\\ud83d\\ude00"}\n') == [{"text": "😀"}]
    assert "nested too deeply" in says(tmp_path, "b.jsonl", b'{"text": ' + b"[" * 100_000)


def as_another_user(*looks) -> list[str]:
    """What looking at each path says to a user who owns none of the files."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        try:
            os.setuid(65534)
            for look, path in looks:
                try:
                    look({"path": str(path), "text": "text", "labelled": False}, "x")
                except UserError as error:
                    said.append(str(error))
        except BaseException as error:
            said.append(repr(error))
        os.write(writing, "\n".join(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it reads as another user")
def test_files_without_read_permission_are_one_line() -> None:
    """Before any job: a text file, weights (transformers gives them mode 600), a folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "mine.txt").write_text("w1 w2\n")
        (folder / "mine.txt").chmod(0o600)
        (folder / "encoder").mkdir()
        for part in ("config.json", "model.safetensors", "vocab.txt"):
            (folder / "encoder" / part).write_text("{}")
        (folder / "encoder/model.safetensors").chmod(0o600)
        (folder / "closed").mkdir(mode=0o700)
        lines = as_another_user(
            (look_at_corpus, folder / "mine.txt"),
            (look_at_encoder, folder / "encoder"),
            (look_at_encoder, folder / "closed"),
            (look_at_encoder, folder / "closed" / "encoder"),
        )
    assert len(lines) == 4, lines
    for line, what in zip(
        lines, ("mine.txt", "model.safetensors", "closed", "closed"), strict=True
    ):
        assert what in line
        assert "read" in line
        assert "chmod -R u+rX" in line


def test_rows_of_texts_without_labels_ask_for_no_label(tmp_path: Path) -> None:
    from wordsens.data.corpora import make_corpus

    (tmp_path / "a.txt").write_text("\n \n")
    settings = {"source": "file", "path": str(tmp_path / "a.txt"), "text": "text"}
    with pytest.raises(UserError, match="no text is left of 2 rows; 2 were empty") as caught:
        make_corpus(settings | {"labelled": False}, tmp_path / "t", tmp_path / "c", "texts")
    assert "label" not in str(caught.value)


def test_columns_by_their_bare_names_each_once(tmp_path: Path) -> None:
    assert rows(tmp_path, "a.csv", b"text, label\na,1\n") == [{"text": "a", "label": "1"}]
    line = says(tmp_path, "b.csv", b"text,label,text\na,1,b\n")
    assert "two columns are called text; rename one" in line


def test_lines_as_old_macs_end_them(tmp_path: Path) -> None:
    """Not one text of the whole file."""
    expected = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    assert rows(tmp_path, "a.txt", b"one\rtwo\r\nthree\r") == expected
    assert rows(tmp_path, "b.txt", b"one\r\ntwo\r\nthree\r\n") == expected


@pytest.mark.parametrize("ending", ["txt", "md", "rst", "py", "py.gz"])
def test_prose_and_code_are_a_text_a_line(tmp_path: Path, ending: str) -> None:
    content = b"def one(x):\n    return x\n"
    path = tmp_path / f"one.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    assert [row["text"] for _, row in read_rows(path)] == ["def one(x):", "return x"]
