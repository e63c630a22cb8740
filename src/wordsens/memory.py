"""The memory at hand: batches are sized to it, and what would not fit is refused before it starts.

A batch is the largest that a computation takes anyway, halved until it fits; where memory is
plentiful, its size therefore never depends on what other programs do, and neither do last digits.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

SHARE = 4  # a batch may take one part in so many of what is free
LEAST = 1 << 22  # bytes of the smallest batch
# What limits a control group, as in containers and cluster jobs, and what it has taken.
GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def available(device: str | torch.device = "cpu") -> int:
    """Bytes that may still be taken: of the machine, of the control group, or of a card."""
    if str(device).startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    import psutil

    free = int(psutil.virtual_memory().available)
    for limit, taken in GROUPS:
        try:
            most = int(Path(limit).read_text(encoding="ascii"))
            free = min(free, max(0, most - int(Path(taken).read_text(encoding="ascii"))))
        except (OSError, ValueError):  # no such group, or one without a limit
            continue
    return free


def batch_bytes(most: int, device: str | torch.device = "cpu") -> int:
    """``most`` where a fourth of the free memory holds it, else a half, a fourth … of it."""
    room = available(device) // SHARE
    while most > room and most > LEAST:
        most //= 2
    return most


def require(needed: int, what: str, remedy: str, device: str | torch.device = "cpu") -> None:
    """Raises UserError, beginning with ``what``, where fewer bytes than ``needed`` are free."""
    free = available(device)
    if needed > free:
        raise UserError(
            f"{what} needs about {_shown(needed)} of memory and {_shown(free)} are free; {remedy}"
        )


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"
