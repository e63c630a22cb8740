"""What docs/cluster.md says to put into the profile or on the command line is accepted."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text("utf-8")
PROFILE = ROOT / "workflow" / "profiles" / "slurm" / "config.yaml"
SETTINGS = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)
COMMANDS = [
    line for block in re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE) for line in block.split("\n")
]
COMMANDS = [line for line in COMMANDS if line]


def plan(*arguments: str, cwd: Path) -> str:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n"]
    done = subprocess.run(
        [*command, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout


def test_there_are_variants() -> None:
    assert len(SETTINGS) >= 3
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_reach_the_jobs(settings: str, tmp_path: Path) -> None:
    added = yaml.safe_load(settings)
    merged = yaml.safe_load(PROFILE.read_text()) | added
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text(yaml.safe_dump(merged))
    said = plan("figure2_rf", "--workflow-profile", "mine", cwd=tmp_path)
    jobs = dict(re.findall(r"rule (\w+):\n(?:.*\n)*?\s+resources: (.*)", said))
    for line in (line for lines in added.values() for line in lines):
        rule, _, resource = line.rpartition(":")
        for name in [rule] if rule else ["embed", "sensitivity_cell"]:
            if name in jobs and not resource.startswith(("mem_mb", "runtime=60")):
                assert resource in jobs[name].split(", "), (name, line, jobs[name])


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_accepted(command: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    assert program == "snakemake"
    if "--sdm" in arguments:
        at = arguments.index("--sdm")
        if shutil.which(arguments[at + 1]) is None:
            # Snakemake plans for no software that is not there: the rest of the line is checked.
            del arguments[at : at + 2]
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow")
    assert "sensitivity_cell" in plan(*arguments, cwd=tmp_path)


def test_the_profile_holds_the_lines_to_uncomment() -> None:
    """The lines that the profile shows as comments are those of the page."""
    shown = re.findall(r"(?m)^  # (- \w+=\w+)$", PROFILE.read_text())
    assert shown
    assert all(f"  {line}\n" in SETTINGS[0] for line in shown)
