"""A warm interpreter: jobs on this machine are forked from one that has imported what they need.

To import torch, pandas and seaborn takes longer than many a job.  So a run of Snakemake starts one
interpreter that imports them; the process of a job hands its script over, with its folder, its
environment and its standard streams, waits, and ends as the script ended.  Forking shares nothing
that a job writes, so that the numbers are those of a process of its own.

The interpreter is reached through a socket in a folder that only its user can open, and ends with
Snakemake, however that ends.  A job whose own process is killed is stopped too.  Where there is no
such interpreter, or it is not ready, or it has another environment or other threads, a job runs in
its own process: on a cluster's nodes, under conda, in a container, on anything but Linux.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

PLACE = "WORDSENS_WARM"  # the socket; set by the user, even to nothing, no interpreter is started
WORTHWHILE = 8  # jobs to run; fewer end while the interpreter still imports
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# What nearly every job imports, and what is imported once jobs can be taken, when there is none.
FIRST = ("h5py", "pandas", "torch", "snakemake.iocontainers", "snakemake.logging")
ENCODERS = ("transformers.models.auto.modeling_auto", "transformers.modeling_utils")
LATER = ("seaborn", "wordsens.figures", *ENCODERS)
PATIENCE = 30.0  # seconds that a job waits at most for an interpreter that still imports
GRACE = 5.0  # seconds for a job to clean up when its own process is gone
REFUSED = "refused"

_running: list[subprocess.Popen[bytes]] = []  # each ends when its input does


def start(threads: int, encoders: bool = False) -> None:
    """Start an interpreter for the jobs that this process will start, with so many threads.

    Where those search ``encoders``, what that takes is imported before any is forked.
    """
    if sys.platform != "linux" or PLACE in os.environ:
        return
    pinned = dict.fromkeys(THREADS, str(threads))
    pinned |= {"MPLBACKEND": "Agg", "TOKENIZERS_PARALLELISM": "false"}
    python = sys.executable if os.path.exists(sys.executable) else shlex.split(sys.executable)[0]
    with suppress(OSError):  # jobs do without it
        place = os.path.join(tempfile.mkdtemp(prefix="wordsens-"), "jobs")
        command = [python, "-P", "-m", "wordsens.warm", place, str(threads)]
        interpreter = subprocess.Popen(
            [*command, *ENCODERS] if encoders else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | pinned,
            start_new_session=True,  # Ctrl-C goes to a job's own process, which passes it on
        )
        _running.append(interpreter)
        os.environ[PLACE] = place


def stop() -> None:
    """End what ``start`` started; the next run may have other code."""
    for interpreter in _running:
        if interpreter.stdin is not None:
            interpreter.stdin.close()
        os.environ.pop(PLACE, None)
    _running.clear()  # not waited for: it may be importing


def hand_over(threads: int, patient: bool = False) -> int | None:
    """Have this process's script run by the warm interpreter: its exit status; None if none did.

    One that still imports is waited for by who is ``patient``, as it imports what that would have
    to.  Where a signal ended the script, it ends this process too.
    """
    place = os.environ.get(PLACE)
    if not place:
        return None
    with socket.socket(socket.AF_UNIX) as line:
        if not _reached(line, place, PATIENCE if patient else 0):
            return None
        environment = {name: value for name, value in os.environ.items() if name != PLACE}
        job = {"who": _who(threads), "argv": sys.argv, "folder": os.getcwd()}
        content = json.dumps(job | {"environment": environment}).encode()
        sys.stdout.flush()
        sys.stderr.flush()
        socket.send_fds(line, [len(content).to_bytes(8, "big")], [0, 1, 2])
        line.sendall(content)
        try:
            answer = _line(line)
        except KeyboardInterrupt:
            line.shutdown(socket.SHUT_WR)
            answer = _line(line)
    if answer == REFUSED:
        return None
    if not answer:
        print("error: the interpreter that ran this job was killed", file=sys.stderr)
        return 1
    status = int(answer)
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _reached(line: socket.socket, place: str, patience: float) -> bool:
    """Whether there is an interpreter, which may begin to listen in so many seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            line.connect(place)
            return True
        except OSError:  # not ready yet, or gone and its folder with it
            if time.monotonic() >= end or not os.path.isdir(os.path.dirname(place)):
                return False
            time.sleep(0.05)


def _who(threads: int) -> list[Any]:
    """What has to agree for a script to run in one process as in the other."""
    return [sys.prefix, __file__, threads, os.getuid()]


def serve(place: str, threads: int, first: Sequence[str]) -> socket.socket | None:
    """Fork a process for every job until standard input ends; None then.

    In such a process it returns at once, with the connection to the process that hands a job over.
    What is to be there ``first`` is imported before any is taken.
    """
    from wordsens.studies import BUILT_IN

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import([*FIRST, *first])
    later = [f"wordsens.studies.{kind}.{part}" for part in ("cell", "table") for kind in BUILT_IN]
    later += LATER
    jobs: dict[int, tuple[int, socket.socket]] = {}  # process and connection by what tells its end
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as events:
        listener.bind(place)
        listener.listen(128)
        events.register(0, selectors.EVENT_READ)
        events.register(listener, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in events.select(0 if later else None)]
            if not ready:
                _import([later.pop(0)])
            if 0 in ready:
                for pid, _line in jobs.values():
                    os.kill(pid, signal.SIGKILL)
                shutil.rmtree(os.path.dirname(place), ignore_errors=True)
                return None
            for end in jobs.keys() & set(ready):
                pid, line = jobs.pop(end)
                events.unregister(end)
                os.close(end)
                _say(line, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
                line.close()
            if listener.fileno() in ready:
                line, _ = listener.accept()
                pid = os.fork()
                if not pid:
                    for end, (_pid, other) in jobs.items():
                        os.close(end)
                        other.close()
                    return line
                end = os.pidfd_open(pid)
                jobs[end] = (pid, line)
                events.register(end, selectors.EVENT_READ)


def receive(line: socket.socket, threads: int) -> str | None:
    """Become the process that hands a job over: its streams, folder, environment; its script.

    None, and that process is told so, where the script would not run here as it does there.
    """
    header, streams, _, _ = socket.recv_fds(line, 8, 3)
    content = line.makefile("rb").read(int.from_bytes(header, "big"))
    job = json.loads(content)
    if job["who"] != _who(threads):
        _say(line, REFUSED)
        return None
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv = job["argv"]
    script: str = sys.argv[0]
    sys.path.insert(0, os.path.dirname(script))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    return script


def _run(script: str) -> NoReturn:
    """Run a script and end this process as Python would, but for taking all modules down.

    That would take a second, as they are many and their memory is shared until it is written to.
    """
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if status and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def _end_with(line: socket.socket) -> None:
    """End this process, as Ctrl-C does and then for good, when the other one is gone."""
    with suppress(OSError):
        while line.recv(1):
            pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _import(names: Iterable[str]) -> None:
    """Import modules, as far as they are there; a job that lacks one will say so."""
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)


def _say(line: socket.socket, what: str) -> None:
    with suppress(OSError):  # who asked may be gone
        line.sendall(f"{what}\n".encode())


def _line(line: socket.socket) -> str:
    """The next line, empty where the other end closed."""
    return line.makefile().readline().strip()


def main() -> None:
    """Run as ``python -m wordsens.warm SOCKET THREADS [MODULE …]``."""
    place, threads = sys.argv[1], int(sys.argv[2])
    try:
        line = serve(place, threads, sys.argv[3:])
    except BaseException:
        shutil.rmtree(os.path.dirname(place), ignore_errors=True)
        raise
    script = receive(line, threads) if line else None
    if script:
        _run(script)


if __name__ == "__main__":
    main()
