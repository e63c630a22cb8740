"""The user's own files, looked at before any job: what they say now need not fail later."""

from __future__ import annotations

import os
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


def _existing(settings: Mapping[str, Any], key: str) -> Path:
    """The path that the settings name; raises UserError where it is not there or is closed."""
    path = Path(settings["path"])
    try:
        path.stat()
        taken = [path, *path.iterdir()] if path.is_dir() else [path]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise UserError(
            f"{key}.path: is {str(path)!r}, and {path.absolute()} does not exist"
        ) from None
    except OSError as error:
        raise UserError(
            f"{key}.path: {path} cannot be read: {error.strerror}; allow it, as with "
            f"chmod -R u+rX '{path}'"
        ) from None
    closed = [file for file in taken if not os.access(file, os.R_OK) and os.path.exists(file)]
    if closed:
        raise UserError(
            f"{key}.path: {closed[0]} may not be read; allow it, as with chmod -R u+rX '{path}'"
        )
    return path


def look_at_corpus(settings: Mapping[str, Any], key: str) -> Seen:
    """Read the first MiB of a corpus as its job will; raises the UserError that it would raise."""
    from wordsens.data.corpora import labelled, nothing_left
    from wordsens.data.reading import first_rows

    path = _existing(settings, key)
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

    path = _existing(settings, key)
    if not path.is_dir() and path.suffix != ".gguf":
        raise UserError(
            f"{key}.path: is {str(path)!r}, a file; allowed: a folder in transformers format, or a "
            "file ending in .gguf"
        )
    return Encoder.open(path, f"{key}.path")


def described(folder: str) -> Encoder | None:
    """An encoder that a run has fetched already, by its config.json; None before."""
    if not os.path.isdir(folder):
        return None
    from wordsens.data.encoders import Encoder

    return Encoder.described(folder)


def look_at_model(settings: Mapping[str, Any], key: str) -> None:
    """Whether a language model's path may be one; raises UserError when it is not."""
    path = _existing(settings, key)
    if not path.is_dir() and path.suffix != ".gguf":
        raise UserError(
            f"{key}.path: is {str(path)!r}; allowed: a folder, or a file ending in .gguf"
        )
