"""A real Slurm on this machine for the time of a test: munged, slurmctld and one slurmd.

Slurm's own commands inside a job read /etc/slurm/slurm.conf and nothing else, so this needs root
and a machine that has no such file; it never replaces somebody's cluster.  The daemons are children
in the foreground that the kernel ends together with this process, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

CONFIGURATION = Path("/etc/slurm")
OURS = "# made by a test of wordsens, process "
PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "srun",
    "squeue",
    "scancel",
    "scontrol",
    "sinfo",
    "unshare",
)

SLURM_CONF = """{ours}{pid}
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
MinJobAge=300
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/d
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.log
GresTypes=gpu
NodeName=localhost CPUs=4 RealMemory=16000 Gres=gpu:2 Feature=big State=UNKNOWN
PartitionName=cpu Nodes=localhost Default=YES MaxTime=UNLIMITED State=UP
PartitionName=gpu Nodes=localhost MaxTime=UNLIMITED State=UP
"""
# Device files that every machine has stand in for graphics cards.
GRES_CONF = (
    "NodeName=localhost Name=gpu File=/dev/full\nNodeName=localhost Name=gpu File=/dev/null\n"
)


def obstacle() -> str | None:
    """Why no Slurm can be started here; None when one can."""
    if os.geteuid() != 0:
        return "starting Slurm's daemons needs root"
    missing = [name for name in PROGRAMS if _found(name) is None]
    if missing:
        return (
            f"there is no {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge"
        )
    conf = CONFIGURATION / "slurm.conf"
    if conf.exists() and not _left_behind(conf):
        return f"{conf} belongs to a cluster or to another test"
    return None


def _found(program: str) -> str | None:
    """A program's path; daemons lie where only root looks."""
    return shutil.which(program, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")


def _left_behind(conf: Path) -> bool:
    """Whether a killed test left its configuration."""
    first = conf.read_text(errors="replace").partition("\n")[0]
    pid = first.removeprefix(OURS)
    return first.startswith(OURS) and not Path("/proc", pid).exists()


class Slurm:
    """Start with ``with Slurm(folder) as slurm``; everything is stopped and removed at the end."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        for name in ("ctld", "d"):
            (self.state / name).mkdir(parents=True)
        self.state.chmod(0o755)
        key = self.state / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        CONFIGURATION.mkdir(exist_ok=True)
        ports = _free_ports(2)
        (CONFIGURATION / "slurm.conf").write_text(
            SLURM_CONF.format(ours=OURS, pid=os.getpid(), state=self.state, ports=ports)
        )
        (CONFIGURATION / "gres.conf").write_text(GRES_CONF)
        here = {"socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        files = [f"--{option}={self.state / name}" for option, name in here.items()]
        log = f"--log-file={self.state}/munged.log"
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", log, *files)
        _wait("munged's socket", (self.state / "munge.socket").exists)
        self._daemon("slurmctld", "-D")
        # the first process of its own process namespace takes all its jobs with it when it ends
        alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        self._daemon(*alone, str(_found("slurmd")), "-D", "-N", "localhost")
        _wait("an idle node", lambda: self._quietly("sinfo", "-h", "-o", "%T") == "idle")

    def _daemon(self, *command: str) -> None:
        out = (self.state / f"{len(self._daemons)}-{command[0]}.out").open("wb")
        self._daemons.append(
            subprocess.Popen(
                [str(_found(command[0])), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )
        )

    def _stop(self) -> None:
        self._quietly("scancel", "--full", "--user=root")
        deadline = time.monotonic() + 20
        while self._quietly("squeue", "-h") and time.monotonic() < deadline:
            time.sleep(0.2)
        for daemon in reversed(self._daemons):
            # unshare passes no other signal on
            (daemon.kill if daemon is self._daemons[-1] else daemon.terminate)()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        conf = CONFIGURATION / "slurm.conf"
        if conf.exists() and conf.read_text().startswith(f"{OURS}{os.getpid()}\n"):
            conf.unlink()
            (CONFIGURATION / "gres.conf").unlink(missing_ok=True)

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def _quietly(self, *command: str) -> str:
        try:
            return self.ask(*command)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            return ""

    def jobs(self) -> dict[str, tuple[str, str]]:
        """State and comment (which names rule or group) of every job that runs or waits."""
        lines = self.ask("squeue", "-h", "-o", "%i|%T|%k").splitlines()
        rows = [line.split("|", 2) for line in lines]
        # one that has ended is listed for a moment while its node is tidied up
        return {job: (state, comment) for job, state, comment in rows if state != "COMPLETING"}


def end_with_parent() -> None:
    """In a child before it starts: the kernel kills it when this process ends, however it ends."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait(what: str, ready: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come within {seconds:g} s")
        time.sleep(0.1)
