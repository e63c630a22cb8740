"""Jobs forked from a warm interpreter end, fail and die as they do in a process of their own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from wordsens import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")

JOB = """
import sys
from wordsens.warm import hand_over
status = hand_over({threads}, {patient})
if status is not None:
    raise SystemExit(status)
import os
print("torch" in sys.modules, "own" if os.environ.get("WORDSENS_WARM") else "forked")
{body}
"""


def test_what_is_imported_ahead_is_there() -> None:
    """The interpreter passes over a module that is missing, and jobs would be slow in silence."""
    for name in (*warm.FIRST, *warm.LATER):
        assert find_spec(name), name


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The socket of an interpreter that is ready."""
    before = os.environ.pop(warm.PLACE, None)
    warm.start(1)
    place = os.environ[warm.PLACE]
    wait_for(lambda: Path(place).exists(), 60)
    yield place
    (interpreter,) = warm._running
    warm.stop()
    assert interpreter.wait(20) == 0
    assert not Path(place).parent.exists()
    assert warm.PLACE not in os.environ
    if before is not None:
        os.environ[warm.PLACE] = before


def wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def started(
    folder: Path,
    body: str,
    *,
    threads: int = 1,
    patient: bool = False,
    python: str = sys.executable,
    **more: str,
) -> subprocess.Popen[str]:
    script = folder / "job.py"
    script.write_text(JOB.format(threads=threads, patient=patient, body=body))
    return subprocess.Popen(
        [python, str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(warm.__file__).parents[1])} | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_job_is_forked_with_its_own_streams_folder_and_environment(
    place: str, tmp_path: Path
) -> None:
    body = "print(os.getcwd(), os.environ['MINE']); print('odd: \\udce4 ä', file=sys.stderr)"
    out, err = started(tmp_path, body, MINE="x y").communicate()
    assert out.splitlines() == ["True forked", f"{tmp_path} x y"]
    assert "odd:" in err


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('in words')", 1),
        ("1 / 0", 1),
        ("raise SystemExit(None)", 0),
        ("os._exit(7)", 7),
        ("os.kill(os.getpid(), 9)", -9),
        ("os.kill(os.getpid(), 11)", -11),
        ("raise KeyboardInterrupt", -2),
    ],
)
def test_it_ends_as_the_script_ended(place: str, tmp_path: Path, body: str, status: int) -> None:
    job = started(tmp_path, body)
    out, err = job.communicate()
    assert (job.returncode, out) == (status, "True forked\n")
    assert ("ZeroDivisionError" in err) == ("/" in body)
    assert ("in words" in err) == ("words" in body)


def test_what_was_left_for_the_exit_is_done(place: str, tmp_path: Path) -> None:
    body = "import atexit\natexit.register(lambda: print('last words'))\nprint('first', end=' ')"
    assert started(tmp_path, body).communicate()[0] == "True forked\nfirst last words\n"


def test_jobs_run_side_by_side_and_share_nothing(place: str, tmp_path: Path) -> None:
    body = "import torch\nprint(torch.rand(1).item())\ntorch.manual_seed({n})\nsys.path.clear()"
    folders = [tmp_path / str(n) for n in range(3)]
    for folder in folders:
        folder.mkdir()
    jobs = [started(folder, body.format(n=n)) for n, folder in enumerate(folders)]
    assert [job.communicate()[0].split()[1] for job in jobs] == ["forked"] * 3
    assert started(tmp_path, "import json").communicate()[0] == "True forked\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_kills_the_process_of_a_job_stops_the_job(
    place: str, tmp_path: Path, number: signal.Signals
) -> None:
    body = """
import time
try:
    open("pid.part", "w").write(str(os.getpid())); os.rename("pid.part", "pid")
    time.sleep(60)
finally:
    open("cleaned", "w")
"""
    job = started(tmp_path, body)
    wait_for((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert pid != job.pid
    assert alive(pid)
    job.send_signal(number)
    job.communicate()
    assert job.returncode == -number
    wait_for(lambda: not alive(pid), 4)
    assert (tmp_path / "cleaned").exists()


def test_a_job_that_does_not_listen_is_killed(place: str, tmp_path: Path) -> None:
    body = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
open("pid.part", "w").write(str(os.getpid())); os.rename("pid.part", "pid")
time.sleep(60)
"""
    job = started(tmp_path, body)
    wait_for((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    job.kill()
    job.communicate()
    wait_for(lambda: not alive(pid), warm.GRACE + 4)


@pytest.mark.parametrize("threads", [2, 3])
def test_other_threads_are_refused(place: str, tmp_path: Path, threads: int) -> None:
    out, _ = started(tmp_path, "", threads=threads).communicate()
    assert out == "False own\n"


def test_another_environment_is_refused(place: str, tmp_path: Path) -> None:
    bare = Path(sys.base_prefix) / "bin" / "python3"
    out, err = started(tmp_path, "print(sys.prefix)", python=str(bare)).communicate()
    assert out.splitlines() == ["False own", sys.base_prefix], err


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("gone", ["", "/nowhere/jobs"])
def test_without_an_interpreter_a_job_runs_by_itself(tmp_path, gone: str, patient: bool) -> None:
    job = started(tmp_path, "raise SystemExit(4)", patient=patient, WORDSENS_WARM=gone)
    out, _ = job.communicate(timeout=warm.PATIENCE / 2)
    assert (job.returncode, out.split()[0]) == (4, "False")


@pytest.mark.parametrize("patient", [False, True])
def test_a_patient_job_waits_for_an_interpreter_that_still_imports(tmp_path, patient: bool) -> None:
    (tmp_path / "a run").mkdir()
    place = tmp_path / "a run" / "jobs"
    job = started(tmp_path, "", patient=patient, WORDSENS_WARM=str(place))
    if not patient:
        assert job.communicate(timeout=20)[0] == "False own\n"
        return
    time.sleep(2)
    assert job.poll() is None
    interpreter = subprocess.Popen(
        [sys.executable, "-P", "-m", "wordsens.warm", str(place), "1"], stdin=subprocess.PIPE
    )
    try:
        assert job.communicate(timeout=60)[0] == "True forked\n"
    finally:
        interpreter.communicate(timeout=20)


def test_it_ends_with_who_started_it_and_ends_its_jobs(tmp_path: Path) -> None:
    starter = """
import os, sys, time
os.environ.pop("WORDSENS_WARM", None)
from wordsens import warm
warm.start(1)
print(os.environ["WORDSENS_WARM"], warm._running[0].pid, flush=True)
time.sleep(60)
"""
    run = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    place, pid = run.stdout.readline().split()
    wait_for(Path(place).exists, 60)
    body = "open('pid.part', 'w').write(str(os.getpid())); os.rename('pid.part', 'pid')\n"
    job = started(tmp_path, body + "import time; time.sleep(60)", WORDSENS_WARM=place)
    wait_for((tmp_path / "pid").exists)
    run.kill()
    run.communicate()
    wait_for(lambda: not alive(int(pid)) and not Path(place).parent.exists())
    wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))
    job.communicate()
    assert job.returncode != 0


def test_a_user_can_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(warm.PLACE, "")
    before = len(warm._running)
    warm.start(1)
    assert len(warm._running) == before
    assert warm.hand_over(1) is None


def test_what_encoders_take_is_there_when_their_jobs_come(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(warm, "_running", [])
    monkeypatch.delenv(warm.PLACE, raising=False)
    warm.start(1, encoders=True)
    try:
        job = started(tmp_path, "print(*sys.modules)", patient=True)
        forked, modules = job.communicate(timeout=60)[0].splitlines()
    finally:
        (interpreter,) = warm._running
        warm.stop()
    assert interpreter.wait(60) == 0
    assert forked == "True forked"
    assert set(warm.ENCODERS) <= set(modules.split())


@pytest.mark.parametrize("quote", [str, shlex.quote])
def test_python_may_lie_below_a_folder_with_a_space(tmp_path, monkeypatch, quote) -> None:
    """Snakemake needs such a path quoted, everybody else does not."""
    python = tmp_path / "a folder" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", quote(str(python)))
    monkeypatch.setattr(warm, "_running", [])
    monkeypatch.delenv(warm.PLACE, raising=False)
    warm.start(1)
    try:
        wait_for(Path(os.environ[warm.PLACE]).exists, 60)
    finally:
        (interpreter,) = warm._running
        warm.stop()
    assert interpreter.wait(60) == 0
