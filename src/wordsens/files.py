"""Writing files whole or not at all, and reading HDF5 files that may be damaged or locked.

A file is written beside its final name, forced to the disk and renamed, so that whatever stops the
writer, its name holds the old content or the new.  What a disk, a permission or another process
forbids is the user's to mend and comes as one line.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.errors import UserError

if TYPE_CHECKING:
    import h5py

REMAKE = "delete it and run snakemake again"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
_OBSTACLE = {errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
# What flock answers where another process holds the lock, and not where locks are unknown.
_HELD = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES}


def sha256_of(path: str | Path) -> str:
    """The sha256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(target: str | Path) -> Iterator[Path]:
    """A temporary path beside ``target``, renamed to it at the end, removed on failure.

    Raises UserError where the disk is full or the place may not be written.
    """
    target = Path(target)
    # The ending stays last, because some writers go by it.
    beside = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            _clear(target)
            yield beside
            _to_disk(beside)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(beside, target)
    finally:
        _remove(beside)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_texts(path: str | Path, texts: str | Mapping[str, str]) -> None:
    """Write a text file, or a folder of text files by their names, whole or not at all."""
    if isinstance(texts, str):
        write_text(path, texts)
        return
    with replacing(path) as beside:
        beside.mkdir()
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8")


def _clear(target: Path) -> None:
    """Take away what killed writers of the target left beside it."""
    left = re.compile(rf"{re.escape(f'.{target.stem}.')}\d+{re.escape(target.suffix)}")
    for path in target.parent.iterdir():
        if left.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def writing(target: str | Path) -> Iterator[None]:
    """Turns what a full disk or a read-only place does to a writer of ``target`` into one line."""
    try:
        yield
    except OSError as error:
        remedy = obstacle(error)
        if remedy is None:
            raise
        raise UserError(f"{target}: cannot be written: {remedy}") from None


def obstacle(error: OSError) -> str | None:
    """What keeps a file from being written and what to do; None where it is nothing of the kind."""
    # HDF5 puts the system's reason into the text.
    number = error.errno or next(
        (code for code in _FULL | _FORBIDDEN if f"errno = {code}," in str(error)), 0
    )
    if number in _FULL:
        return f"{os.strerror(number)}; free some space and run snakemake again"
    if number in _FORBIDDEN:
        return f"{os.strerror(number)}; make the folder writable and run snakemake again"
    if number in _OBSTACLE:
        return f"{os.strerror(number)}: {error.filename}; move it away and run snakemake again"
    return None


def _to_disk(path: Path) -> None:
    """Without it a rename may survive a power cut that the content did not."""
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


@contextmanager
def reading_h5(path: str | Path, what: str) -> Iterator[h5py.File]:
    """An HDF5 file open for reading; everything that can be wrong with it is a UserError.

    ``what`` says what the file should be, for messages: "a cell", "embeddings".
    """
    import h5py

    try:
        with _locked(h5py.File, path, "r") as file:
            yield file
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run snakemake to make it") from None
    except BlockingIOError:
        raise UserError(
            f"{path}: another process has it open for writing; close it there, or wait for it, and "
            "run snakemake again"
        ) from None
    except IsADirectoryError:
        raise UserError(f"{path}: a folder and not a file; {REMAKE}") from None
    except PermissionError:
        raise UserError(f"{path}: may not be read; allow it (chmod u+r) and try again") from None
    # h5py reports damage as any of these.
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        reason = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise UserError(f"{path}: not readable as {what} ({reason}); {REMAKE}") from None


@contextmanager
def updating_h5(path: str | Path) -> Iterator[h5py.File]:
    """An HDF5 file open for reading and writing, held against other processes."""
    import h5py

    with writing(path):
        try:
            with _locked(h5py.File, path, "r+") as file:
                yield file
        except BlockingIOError:
            raise UserError(
                f"{path}: another process is writing it; wait for it, or end it, and run snakemake "
                "again"
            ) from None


def _locked(opener: Any, path: str | Path, mode: str) -> Any:
    """Open with a lock where the file system knows locks; some network ones do not."""
    try:
        return opener(path, mode, locking="best-effort")
    except OSError as error:
        if "unable to lock file" not in str(error):
            raise
        if error.errno in _HELD or any(f"errno = {code}," in str(error) for code in _HELD):
            raise BlockingIOError(errno.EAGAIN, str(error), str(path)) from None
        return opener(path, mode, locking=False)
