"""The user's own files, looked at before any job: what they say now need not fail later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.errors import UserError

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

# A corpus is read so far; every Snakemake job parses the configuration, so it must stay quick.
LOOKED_AT = 1 << 20


@dataclass(frozen=True)
class Seen:
    """What the beginning of a corpus shows: its labels, and whether that is all of it."""

    labels: frozenset[int]
    whole: bool


def look_at_corpus(settings: Mapping[str, Any], key: str) -> Seen:
    """Read the first MiB of a corpus as its job will; raises the UserError that it would raise."""
    from wordsens.data.corpora import first_rows, labelled, nothing_left

    path = Path(settings["path"])
    if not path.exists():
        raise UserError(f"{key}.path: is {str(path)!r}, and {path.absolute()} does not exist")
    if not path.is_file():
        raise UserError(
            f"{key}.path: is {str(path)!r}, no file; allowed: a CSV, JSONL or .txt file"
        )
    rows, whole = first_rows(path, LOOKED_AT)
    tally: dict[str, Any] = {}
    labels = [text["label"] for text in labelled(rows, settings, key, tally)]
    if whole and not labels:
        raise nothing_left(settings, key, tally)
    return Seen(frozenset(labels), whole)


def look_at_encoder(settings: Mapping[str, Any], key: str) -> Encoder:
    """Read the config.json of an encoder's folder; raises UserError when a part is missing."""
    from wordsens.data.encoders import Encoder

    path = Path(settings["path"])
    if not path.exists():
        raise UserError(f"{key}.path: is {str(path)!r}, and {path.absolute()} does not exist")
    if not path.is_dir() and path.suffix != ".gguf":
        raise UserError(
            f"{key}.path: is {str(path)!r}, a file; allowed: a folder in transformers format, or a "
            "file ending in .gguf"
        )
    return Encoder.open(path, f"{key}.path")


def look_at_model(settings: Mapping[str, Any], key: str) -> None:
    """Whether a language model's path may be one; raises UserError when it is not."""
    path = Path(settings["path"])
    if not path.exists():
        raise UserError(f"{key}.path: is {str(path)!r}, and {path.absolute()} does not exist")
    if not path.is_dir() and path.suffix != ".gguf":
        raise UserError(
            f"{key}.path: is {str(path)!r}; allowed: a folder, or a file ending in .gguf"
        )
