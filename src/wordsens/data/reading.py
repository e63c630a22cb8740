"""The rows of a text file: CSV, JSONL, or one text a line, as in source code, packed or not.

The name's last ending says which of the three it is, whatever its case; the content says whether
it is packed, how a CSV file separates its fields, and, where it is not UTF-8, what it may be.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from wordsens.data.encodings import likely
from wordsens.errors import UserError

Row = tuple[str, Mapping[str, Any]]  # where the row stands, for messages, and its values
# csv refuses longer fields by default (131,072 characters); documents may well be longer.
LONGEST_FIELD = 1 << 30
PACKED = (".gz", ".bz2")
LINES = (".txt", ".md", ".rst", ".py")  # of one text a line
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LOOKED_AT = 50  # lines of a CSV file that say how it separates its fields
# What files of other kinds begin with.
OTHER = {
    b"PK\x03\x04": "a zip archive (an Excel workbook is one); save the texts as CSV UTF-8",
    b"%PDF": "a PDF; save its text",
    b"PAR1": "a Parquet file; save it as JSONL",
    b"\xd0\xcf\x11\xe0": "an old Office file; save the texts as CSV UTF-8",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it",
}


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of a .csv or .jsonl file, or of a .txt of one text a line, unpacked.

    Raises UserError, naming the line, where the file is not UTF-8 or breaks its format.
    """
    path = Path(path)
    try:
        with _open(path) as file:
            yield from _rows(path, file)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def first_rows(path: str | Path, most: int) -> tuple[list[Row], bool]:
    """The rows in the first ``most`` bytes of a file (unpacked), and whether those are all."""
    path = Path(path)
    rows: list[Row] = []
    cut = False

    def beginning(file: IO[bytes]) -> Iterator[bytes]:
        nonlocal cut
        left = most
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                cut = True
                return
            yield line

    try:
        with _open(path) as file:
            rows.extend(_rows(path, beginning(file)))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except UserError:
        # A row may well break where the reading stops.
        if not cut:
            raise
    return rows, not cut


def _rows(path: Path, lines: Iterable[bytes]) -> Iterator[Row]:
    endings = [ending for ending in map(str.lower, path.suffixes) if ending not in PACKED]
    ending = endings[-1] if endings else ""
    read = _read_lines if ending in LINES else {".csv": _read_csv}.get(ending, _read_jsonl)
    return read(path, _lines(path, lines))


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        begins = file.read(8)
    for mark, what in OTHER.items():
        if begins.startswith(mark):
            raise UserError(f"{path}: {what}, and give that file")
    packed = path.suffix.lower()
    if begins.startswith(b"\x1f\x8b") or packed == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return (
        bz2.open(path, "rb") if begins.startswith(b"BZh") or packed == ".bz2" else path.open("rb")
    )


def _lines(path: Path, file: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}: line {number}: byte {line[error.start]:#04x} is not UTF-8; "
                + _conversion(path, line, error)
            ) from None
        yield text.removeprefix("\ufeff") if number == 1 else text


def _conversion(path: Path, line: bytes, error: UnicodeDecodeError) -> str:
    """Which encoding fits the file, how it reads the place, and how to convert."""
    with _open(path) as file:
        name = likely(file.read(1 << 16) + line)
    if name is None:
        return "save the file as UTF-8"
    around = line[max(0, error.start - 12) : error.end + 12]
    if not name.startswith("utf-16"):  # cut in the middle of a character, perhaps
        shown = around.decode(name, "ignore").strip()
        name = f"{name} (“{shown}”)"
    plain = name.partition(" ")[0]
    return (
        f"it reads as {name}: save it as UTF-8, for example with "
        f"iconv -f {plain} -t utf-8 '{path.name}' > utf8{path.suffix}"
    )


def _read_csv(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_FIELD)
    begins = list(islice(lines, LOOKED_AT))
    separator = _separator(begins)
    reader = csv.reader(chain(begins, lines), delimiter=separator, strict=True)
    try:
        header = next(reader, None)
        if header is None or not any(name.strip() for name in header):
            raise UserError(f"{path}: empty; the first line must name the columns")
        header = [name.strip() for name in header]
        twice = [name for name, count in Counter(header).items() if name and count > 1]
        if twice:
            raise UserError(f"{path}: two columns are called {twice[0]}; rename one of them")
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                raise UserError(
                    f"{path}: line {reader.line_num}: {len(values)} fields, but the header names "
                    f"{len(header)}; quote texts that hold {SEPARATORS[separator]}"
                )
            yield f"{path} line {reader.line_num}", dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num}: not valid CSV: {error}") from None


def _separator(begins: list[str]) -> str:
    """What separates the fields: of what gives the first two rows as many, who gives most."""
    found = {}
    for separator in SEPARATORS:
        try:
            rows = [len(row) for row in islice(csv.reader(begins, delimiter=separator), 2) if row]
        except csv.Error:
            continue
        found[separator] = rows[0] if rows and len(set(rows)) == 1 else 0
    best = max(found, key=lambda separator: found[separator], default=",")
    return best if found.get(best, 0) > 1 else ","


def _read_jsonl(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError:
            raise UserError(f"{path}: line {number}: nested too deeply") from None
        except ValueError as error:
            raise UserError(f"{path}: line {number}: not valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: line {number}: a line must be a JSON object like {{...}}")
        if "\\ud" in line.lower():
            _check_pairs(path, number, row)
        yield f"{path} line {number}", row


def _check_pairs(path: Path, number: int, row: Mapping[str, Any]) -> None:
    """Raises UserError for half of a surrogate pair, which no file can hold as text."""
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise UserError(
            f"{path}: line {number}: \\u{code:04x} is half of a character (a text cut inside an "
            "emoji?); take it out, or write both halves"
        ) from None


def _read_lines(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    # Old Macs end lines by \r alone.
    parts = (part for line in lines for part in line.rstrip("\r\n").split("\r"))
    for number, part in enumerate(parts, 1):
        yield f"{path} line {number}", {"text": part.strip()}
