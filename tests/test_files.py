"""Files appear whole or not at all, and what forbids it is one line."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import h5py
import pytest

from wordsens.errors import UserError
from wordsens.files import obstacle, reading_h5, replacing, sha256_of, updating_h5, write_text


def test_the_old_content_stays_until_the_new_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.csv"
    write_text(path, "old")

    def half() -> None:
        with replacing(path) as beside:
            beside.write_text("half")
            assert path.read_text() == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_writer_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    others = [".a.csv.12.sha256", ".a.b.12.csv", ".ab.12.csv", "a.12.csv", ".a.x.csv"]
    for name in (*others, ".a.12.csv"):
        (tmp_path / name).touch()
    (tmp_path / ".a.13.csv").mkdir()
    write_text(tmp_path / "a.csv", "x")
    assert {path.name for path in tmp_path.iterdir()} == {*others, "a.csv"}


def test_a_folder_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "stale").touch()
    with replacing(target) as beside:
        beside.mkdir()
        (beside / "fresh").touch()
    assert [path.name for path in target.iterdir()] == ["fresh"]


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "Read-only file system; make the folder writable"),
        (errno.EACCES, "make the folder writable"),
        (errno.ENOTDIR, "move it away"),
    ],
)
def test_obstacles_name_a_remedy(tmp_path: Path, number: int, says: str) -> None:
    assert says in str(obstacle(OSError(number, os.strerror(number), "x")))
    written = pytest.raises(UserError, match=rf"a\.csv: cannot be written: .*{says}")
    with written, replacing(tmp_path / "a.csv"):
        raise OSError(number, os.strerror(number), "x")
    assert not list(tmp_path.iterdir())


def test_hdf5_hides_the_number_in_its_text_and_other_errors_pass(tmp_path: Path) -> None:
    text = "file write failed: time = 0, errno = 28, error message = 'No space left on device'"
    assert "free some space" in str(obstacle(OSError(text)))
    assert obstacle(OSError(errno.EIO, "I/O error")) is None
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a" / "b") as beside:
        Path(beside.parent / "nothing").read_text()


def test_a_locked_file_is_neither_read_nor_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
    before = sha256_of(path)
    held = os.open(path, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(UserError, match="close it there"), reading_h5(path, "a cell"):
        pass
    with pytest.raises(UserError, match="another process is writing it"), updating_h5(path):
        pass
    os.close(held)
    assert sha256_of(path) == before
    with reading_h5(path, "a cell") as file, reading_h5(path, "a cell") as again:
        assert list(file["x"]) == list(again["x"]) == [1, 2]
