"""What every Snakemake script does around its few lines of work."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from wordsens.errors import UserError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Tee:
    """Text goes to the terminal and, unless it redraws a progress bar, to the log."""

    def __init__(self, terminal: IO[str], log: IO[str]) -> None:
        self._terminal = terminal
        self._log = log

    def write(self, text: str) -> int:
        self._terminal.write(text)
        if "\r" not in text:
            self._log.write(text)
            self._log.flush()
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()
        self._log.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)


@contextmanager
def job(snakemake: Any) -> Iterator[None]:
    """Run a script's body: its output also goes to the rule's log, its threads are pinned.

    A UserError ends the job with its one line on stderr and exit code 1.  Any other exception
    leaves its traceback in the log as well as on stderr.  Import torch only inside: the number
    of threads of its libraries is read when they are loaded.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(snakemake.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logs = list(snakemake.log)
    log_path = Path(logs[0]) if logs else Path(os.devnull)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    stdout, stderr = sys.stdout, sys.stderr
    with log_path.open("w", encoding="utf-8") as log:
        sys.stdout, sys.stderr = _Tee(stdout, log), _Tee(stderr, log)  # type: ignore[assignment]
        try:
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(snakemake.threads)
            yield
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(1) from None
        except Exception:  # not handled: the log says why the job died, and the error goes on
            traceback.print_exc(file=log)
            raise
        finally:
            sys.stdout, sys.stderr = stdout, stderr


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
