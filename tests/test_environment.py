"""The places that name versions agree: pyproject, constraints, conda environment, citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def constraints() -> dict[str, Version]:
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.lstrip().startswith("#"):
            name, version = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)", line).groups()
            pins[canonicalize_name(name)] = Version(version)
    return pins


@pytest.fixture(scope="module")
def conda() -> dict:
    return yaml.safe_load((ROOT / "envs" / "wordsens.yaml").read_text())


def test_every_pin_satisfies_the_project(project: dict, constraints: dict[str, Version]) -> None:
    wanted = list(project["dependencies"])
    for extra in ("test", "dev", "slurm"):
        wanted += project["optional-dependencies"][extra]
    for requirement in map(Requirement, wanted):
        pin = constraints[canonicalize_name(requirement.name)]
        assert pin in requirement.specifier, f"{requirement} is pinned to {pin}"


def test_pins_hold_on_any_machine() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "+" not in text, "a local version fits one build only"
    assert "make constraints" in text
    assert not re.search(r"(?m)^\s*-|://|index|/", text.replace("(pyproject.toml)", ""))


def test_conda_environment_has_the_same_pins(
    project: dict, constraints: dict[str, Version], conda: dict
) -> None:
    (pip,) = (entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict))
    there = {canonicalize_name(name): version for name, version in (s.split("==") for s in pip)}
    wanted = {canonicalize_name(Requirement(r).name) for r in project["dependencies"]}
    assert there == {name: str(constraints[name]) for name in wanted}


def test_conda_python_is_supported(project: dict, conda: dict) -> None:
    (python,) = (s for s in conda["dependencies"] if str(s).startswith("python "))
    assert Version(python.split("=")[1]) in SpecifierSet(project["requires-python"])


def test_citation_and_changelog_name_this_version(project: dict) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
