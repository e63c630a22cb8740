"""Which of several graphics cards a job takes.

Jobs of one workflow start independently, so each claims its card with a lock that the operating
system takes back when the job ends, however it ends.  Two jobs therefore share a card only when
every card that they may use is taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []  # open for as long as the process lives, and so are their locks


def take_device() -> int:
    """The index of the CUDA device to use: an unclaimed one, the one of most free memory first."""
    import torch

    count = torch.cuda.device_count()
    if count < 2:  # nothing to choose, as in a Slurm job that was given one card
        return 0
    names = [
        str(torch.cuda.get_device_properties(i).uuid).removeprefix("GPU-") for i in range(count)
    ]
    free = _free_memory()
    order = sorted(range(count), key=lambda i: -free.get(names[i], 0))
    claimed = claim([names[i] for i in order], _folder())
    return order[0 if claimed is None else claimed]


def claim(names: Sequence[str], folder: Path) -> int | None:
    """The index of the first name that no other process holds, now held by this one; None if none.

    Locks are files in ``folder``, which must not lie on a network file system.
    """
    import fcntl  # not on Windows, where this is not advance

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for index, name in enumerate(names):
        file = (folder / name).open("w", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        _held.append(file)
        return index
    return None


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"wordsens-cards-{os.getuid()}"


def _free_memory() -> dict[str, int]:
    """Free memory of every card by its identifier; empty where nvidia-smi cannot say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    asked = [tool, "--query-gpu=uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(",") for line in said.splitlines()]
    return {
        row[0].strip().removeprefix("GPU-"): int(row[1])
        for row in rows
        if len(row) == 2 and row[1].strip().isdigit()
    }
