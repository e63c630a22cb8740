"""What every Snakemake script does around its few lines of work."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from wordsens.errors import UserError
from wordsens.files import obstacle, writing
from wordsens.warm import THREADS, hand_over
from wordsens.written import as_written

CONTROL = re.compile(r"[\r\x1b\b]")


class _Tee:
    """Text goes to the terminal and, unless it moves the cursor to redraw a bar, to the log."""

    def __init__(self, terminal: IO[str], log: IO[bytes]) -> None:
        self._terminal = terminal
        self._log = log

    def write(self, text: str) -> int:
        self._terminal.write(text)
        if not CONTROL.search(text):
            self.note(text)
        return len(text)

    def note(self, text: str) -> None:
        """For the log alone: what a progress bar shows on the terminal, in plain lines."""
        # A full disk may cost the log, not the work.
        with suppress(OSError):
            self._log.write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._terminal.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


@contextmanager
def job(snakemake: Any, patient: bool = False) -> Iterator[None]:
    """Run a script's body: its output also goes to the rule's log, its threads are pinned.

    Where a run has a warm interpreter, that one runs the whole script, and this process ends here;
    a job that imports much is ``patient``, and waits until it is there.
    What a job that ended well has used is noted in the log named ``usage``.

    A UserError, a full disk or too little memory ends the job with one line on stderr and exit code
    1.  Any other exception leaves its traceback in the log as well as on stderr.  Import torch only
    inside: the number of threads of its libraries is read when they are loaded.
    """
    status = hand_over(snakemake.threads, patient)
    if status is not None:
        raise SystemExit(status)
    started = time.monotonic()
    for variable in THREADS:
        os.environ[variable] = str(snakemake.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logs = list(snakemake.log)
    log_path = Path(logs[0]) if logs else Path(os.devnull)
    stdout, stderr = sys.stdout, sys.stderr
    with _opened(log_path) as log:
        sys.stdout, sys.stderr = _Tee(stdout, log), _Tee(stderr, log)  # type: ignore[assignment]
        try:
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(snakemake.threads)
            yield
            if usage := getattr(snakemake.log, "usage", None):
                _note_usage(Path(usage), time.monotonic() - started)
        except Exception as error:
            line = error if isinstance(error, UserError) else _shortage(error)
            if line is not None:
                print(f"error: {as_written(str(line))}", file=sys.stderr)
                raise SystemExit(1) from None
            # Not the user's: the log says why the job died, and the error goes on.
            log.write(traceback.format_exc().encode())
            raise
        finally:
            sys.stdout, sys.stderr = stdout, stderr


def _note_usage(path: Path, seconds: float) -> None:
    """What this job used, in the columns of Snakemake's benchmarks: seconds, peak memory in MB.

    Snakemake's own look at a job's process now and then, and not at what a warm interpreter forks;
    a job so forked has not paid for its imports, which the last column tells.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    busy = sum(each.ru_utime + each.ru_stime for each in used)
    most = max(each.ru_maxrss for each in used) / 1024
    forked = "wordsens.warm" in sys.orig_argv
    written = timedelta(seconds=round(seconds))
    row = f"{seconds:.3f}\t{written}\t{most:.1f}\t{busy:.2f}\t{forked:d}"
    with suppress(OSError):  # a full disk may cost this, not the work
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"s\th:m:s\tmax_rss\tcpu_time\tforked\n{row}\n")


def _opened(path: Path) -> IO[bytes]:
    """The log, unbuffered: what a full disk leaves in a buffer fails again when it is closed."""
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("wb", buffering=0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _shortage(error: Exception) -> str | None:
    """One line for a lack of disk or memory; None for anything else."""
    if isinstance(error, OSError):
        remedy = obstacle(error)
        return None if remedy is None else f"{error.filename or 'a file'}: {remedy}"
    words = ("can't allocate memory", "out of memory", "Unable to allocate")
    if isinstance(error, MemoryError) or any(part in str(error) for part in words):
        reason = " ".join(str(error).split())[:200]
        return (
            f"not enough memory ({reason or 'MemoryError'}); lower n, d, N, width or trials, or "
            "give the job more memory"
        )
    return None


def torch_device(name: str) -> str:
    """The device that "auto" means here; "cuda" without one is the user's error.

    Of several CUDA devices one that no other job uses becomes the current one.
    """
    if name == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        from wordsens.devices import take_device

        torch.cuda.set_device(take_device())
        return "cuda"
    if name == "cuda":
        raise UserError(
            "config.yaml: device: cuda, but torch finds no CUDA device here; "
            "use cpu or auto, or install a CUDA build of torch"
        )
    return "cpu"
