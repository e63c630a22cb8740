"""The configuration: checked against its schema, cross-checked, and given types.

``load`` finds every mistake before any work starts and says each in one line.  Nothing here imports
more than jsonschema, because every Snakemake job parses the configuration again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wordsens.config.assembly import assembled
from wordsens.config.cross import CrossCheck
from wordsens.config.model import Asset, Config, Dataset, Figure, typed
from wordsens.config.report import with_report
from wordsens.config.targets import makes_files
from wordsens.errors import UserError
from wordsens.plugins import load_plugins
from wordsens.yamls import yaml_mistake

__all__ = [
    "Asset",
    "Config",
    "ConfigError",
    "Dataset",
    "Figure",
    "load",
    "load_or_exit",
    "readable_or_exit",
    "results_or_exit",
]


class ConfigError(UserError):
    """All mistakes of a configuration, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        ValueError.__init__(self, "\n".join(lines))
        self.lines = list(lines)


def load(config: Mapping[str, Any], files: Sequence[str | Path], schema: str | Path) -> Config:
    """Check a merged configuration and return it typed, defaults filled in.

    ``files`` are the YAML files it was merged from, the last one winning; they are read again only
    to say which of them holds a mistake.  Raises ConfigError with one line per mistake: file, key,
    value, what is allowed, and the nearest valid name for a typo.
    """
    try:
        load_plugins(config.get("plugins"))
    except UserError as error:
        raise ConfigError([str(error)]) from None
    rules = assembled(Path(schema))
    check = CrossCheck(with_report(config, rules), files, rules)
    filled = check.against_schema()
    if not check.lines:
        check.cross(filled)
    if check.lines:
        raise ConfigError(list(dict.fromkeys(check.lines)))
    return typed(filled)


def load_or_exit(
    config: Mapping[str, Any], files: Sequence[str | Path], schema: str | Path
) -> Config:
    """As ``load``; mistakes are printed, one line each, and the process ends with code 1.

    For the Snakefile, where any exception but SystemExit is printed with its traceback.
    """
    try:
        return load(config, files, schema)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


def readable_or_exit(path: str) -> str:
    """The path itself, of a YAML file; what keeps it from being read is printed in one line.

    Snakemake's own message names neither the file nor the line.
    """
    mistake = yaml_mistake(Path(path))
    if mistake is None:
        return path
    print(mistake, file=sys.stderr)
    raise SystemExit(1)


def results_or_exit(folder: str, write: bool) -> None:
    """Ends the process, in one line, where results cannot be kept in a folder.

    ``write`` asks for more than that nothing is in the way: that files can be made there, and in
    the folders below it.  Without it a folder that may not be written is only said to be one, since
    a dry run writes nothing there; but Snakemake keeps notes in .snakemake, dry runs or not.
    """
    path, notes = Path(folder), Path(".snakemake")
    if path.exists() and not path.is_dir():
        print(f"{path}: a file, where results need a folder; move it away", file=sys.stderr)
        raise SystemExit(1)
    noted = _closed(notes) if makes_files() else []
    closed = noted or _closed(path)
    if write and not closed:
        closed = [each for where, _, _ in os.walk(path) for each in _closed(Path(where))]
    if closed:
        print(
            f"{closed[0]}: no files can be written here; make the folder writable, or run in "
            "another one with --directory",
            file=sys.stderr,
        )
    if noted or (closed and write):
        raise SystemExit(1)


def _closed(folder: Path) -> list[Path]:
    """The folder, or the one that it would be made in, where files cannot be made there."""
    place = folder if folder.exists() else folder.absolute().parent
    return [] if os.access(place, os.W_OK | os.X_OK) else [place]
