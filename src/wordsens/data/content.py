"""What the user's own files hold, as one digest: results depend on it, and not on names and dates.

Weights are large, and a run asks for the digest each time; so each file's sha256 is noted together
with what the file system says of it, which no change leaves alike (a file moved to the place of
another has another inode, and nothing sets the time of a change).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from wordsens.errors import UserError
from wordsens.files import sha256_of, write_text

NOTES = Path(".snakemake") / "wordsens-content.json"  # in the working directory


def content(files: Iterable[str | Path]) -> str:
    """A short digest of the files' names and contents; "" of no files."""
    chosen = sorted((Path(file).name, os.path.abspath(file)) for file in files)
    if not chosen:
        return ""
    known, digest, added = _noted(), hashlib.sha256(), False
    for name, path in chosen:
        try:
            status = os.stat(path)
            sign = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
            if known.get(path, [None])[:-1] != sign:
                known[path] = [*sign, sha256_of(path)]
                added = True
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        digest.update(f"{name}\0{known[path][-1]}\0".encode())
    if added and NOTES.parent.is_dir():
        with suppress(OSError, UserError):  # without notes the files are read again next time
            write_text(NOTES, json.dumps(known))
    return digest.hexdigest()[:16]


def _noted() -> dict[str, list[int | str]]:
    try:
        noted = json.loads(NOTES.read_text(encoding="utf-8"))
        return {path: list(sign) for path, sign in noted.items() if isinstance(sign, list)}
    except (OSError, ValueError, AttributeError):
        return {}
