"""Labelled texts: reading a CSV, a JSONL or a hub dataset into texts.jsonl.

Each line of texts.jsonl is {"text": …, "label": 1 or -1, "group": …}.  counts.json beside it says
how many rows were read, kept and dropped, and why.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from typing import IO, Any

from wordsens.data.assets import corpus_file, hub_rows
from wordsens.data.reading import Row, read_rows
from wordsens.errors import UserError
from wordsens.files import REMAKE, replacing, sha256_of

WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0+")  # as pandas writes whole numbers beside empty cells
LONGEST_NAME = 60  # characters of a column's name that a message shows


def make_corpus(
    settings: Mapping[str, Any], texts: str | Path, counts: str | Path, key: str
) -> dict[str, Any]:
    """Fetch a corpus and write its texts and counts; returns the counts.

    Raises UserError for a missing column, a label that means neither class, bytes that are not
    UTF-8, contradicting labels in a joined group, or nothing left.
    """
    tally: dict[str, Any] = {}
    with replacing(texts) as beside, beside.open("w", encoding="utf-8") as out:
        if settings["source"] == "hub":
            kept = labelled(hub_rows(settings, key), settings, key, tally)
            _write(kept, out, tally)
        else:
            with corpus_file(settings, key) as path:
                kept = labelled(read_rows(path), settings, key, tally)
                _write(kept, out, tally)
        if not tally["texts"]:
            raise nothing_left(settings, key, tally)
    tally["sha256"] = sha256_of(texts)
    with replacing(counts) as beside:
        beside.write_text(json.dumps(tally, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return tally


def nothing_left(settings: Mapping[str, Any], key: str, tally: Mapping[str, Any]) -> UserError:
    """The error of a corpus without a text that has a label."""
    if not settings.get("labelled", True):
        return UserError(
            f"{key}: no text is left of {tally['rows']} rows; {tally['empty']} were empty; give "
            "texts, one a line or in the column that text names"
        )
    return UserError(
        f"{key}: no text is left of {tally['rows']} rows; {tally['empty']} were empty and the "
        f"labels skipped were {tally['skipped_labels'] or 'none'}; allowed labels: "
        f"{', '.join(map(str, settings.get('labels') or ('1', '-1')))}"
    )


def _write(kept: Iterator[dict[str, Any]], out: IO[str], tally: dict[str, Any]) -> None:
    labels: Counter[int] = Counter()
    characters = 0
    for text in kept:
        labels[text["label"]] += 1
        characters += len(text["text"])
        out.write(json.dumps(text, ensure_ascii=False) + "\n")
    tally["texts"] = labels.total()
    tally["positive"], tally["negative"] = labels[1], labels[-1]
    tally["characters"] = characters


def read_texts(path: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a texts.jsonl; raises UserError where one is none."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                entry["text"], entry["label"]
            except (ValueError, TypeError, KeyError):
                raise UserError(f"{path}: line {number} is no text and label; {REMAKE}") from None
            yield entry


def check_texts(texts: str | Path, counts: str | Path) -> None:
    """Raises UserError when the texts are not those that ``make_corpus`` counted."""
    try:
        noted = json.loads(Path(counts).read_bytes())["sha256"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{counts}: cannot be read ({error!r}); {REMAKE}") from None
    if sha256_of(texts) != noted:
        raise UserError(
            f"{texts}: cut or changed since it was made (its sha256 is not the one in "
            f"{Path(counts).name}); {REMAKE}"
        )


def labelled(
    rows: Iterable[Row], settings: Mapping[str, Any], key: str, tally: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows as {text, label ±1, group}; joined in file order where the settings say so.

    Where the settings say that there are no labels, every text counts as +1.
    ``tally`` receives the counts of rows once the iterator is exhausted.
    """
    meanings = {_word(name): int(sign) for name, sign in (settings.get("labels") or {}).items()}
    join = settings.get("join") or []
    joined = bool(join)
    join = [] if join == "all" else join
    unlabelled = not settings.get("labelled", True)
    seen = empty = kept = 0
    skipped: Counter[str] = Counter()
    groups: dict[tuple[str, ...], tuple[int, list[str]]] = {}
    for where, row in rows:
        seen += 1
        text = _column(row, settings["text"], where, f"{key}.text")
        word, label = "", 1 if unlabelled else None
        if not unlabelled:
            word = _word(_column(row, settings["label"], where, f"{key}.label"))
            label = _label(word, meanings, where, key)
        if label is None:
            skipped[word] += 1
            continue
        if text is not None and not isinstance(text, str):
            raise UserError(
                f"{key}.text: {where}: column {settings['text']} holds {text!r}, which is no text"
            )
        if text is None or not text.strip():
            empty += 1
            continue
        kept += 1
        if not joined:
            yield {"text": text, "label": label, "group": str(seen)}
            continue
        names = tuple(_word(_column(row, column, where, f"{key}.join")) for column in join)
        first, parts = groups.setdefault(names, (label, []))
        if first != label:
            raise UserError(
                f"{key}.join: {where}: the texts of {' | '.join(names)} have both labels; add "
                f"{settings['label']} to join"
            )
        parts.append(text)
    for names, (label, parts) in groups.items():
        yield {"text": " ".join(parts), "label": label, "group": " | ".join(names)}
    tally.update(
        rows=seen,
        kept=kept,
        empty=empty,
        skipped=skipped.total(),
        skipped_labels=dict(skipped.most_common(20)),
        joined_groups=len(groups),
    )


def _column(row: Mapping[str, Any], column: str, where: str, key: str) -> Any:
    if column in row:
        return row[column]
    short = [str(name) for name in row if len(str(name)) < LONGEST_NAME]
    near = difflib.get_close_matches(column, short, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    # What is no table may be one line of any length.
    names = shorten(", ".join(str(name)[:LONGEST_NAME] for name in row), 8 * LONGEST_NAME)
    raise UserError(f"{key}: {where} has no column {column!r}; there are: {names}{hint}")


def _word(value: Any) -> str:
    """A label as it would be written in YAML or CSV: 1, 1.0, "1" and "1.0" are one label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    written = str(value).strip()
    return written.partition(".")[0] if WHOLE.fullmatch(written) else written


def _label(word: str, meanings: Mapping[str, int], where: str, key: str) -> int | None:
    if meanings:
        return meanings.get(word)
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if number not in (1.0, -1.0):
        raise UserError(
            f"{key}.label: {where}: label {word!r} is neither 1 nor -1; say what the labels mean, "
            f"for example labels: {{{word}: 1, other: -1}}"
        )
    return int(number)
