"""One uninterrupted run that the tests compare with, and the record of what was injected.

`pytest tests/reliability --record-reliability` rewrites the table in docs/reliability.md.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability import runs
from tests.reliability.table import Row, rewritten

DOCUMENT = runs.ROOT / "docs" / "reliability.md"
RECORD = pytest.StashKey[dict[str, Row]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-reliability", action="store_true", help="rewrite the docs' table")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECORD] = {}


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--record-reliability", default=False) and exitstatus == 0:
        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(rewritten(text, session.config.stash[RECORD]), encoding="utf-8")


@pytest.fixture
def injected(request: pytest.FixtureRequest) -> Callable[[str, int, int, str], None]:
    """Note what was injected, how often, how many finished results were lost, and what was seen."""

    def note(what: str, times: int, lost: int, seen: str) -> None:
        record = request.config.stash[RECORD]
        before = record.get(what, Row(what, 0, 0, seen))
        record[what] = Row(what, before.times + times, before.lost + lost, seen)

    return note


@pytest.fixture
def record(request: pytest.FixtureRequest) -> dict[str, Row]:
    """All that was noted so far."""
    return request.config.stash[RECORD]


@pytest.fixture(scope="session")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workflow in a folder with a space, without a default run."""
    return runs.product(tmp_path_factory.mktemp("product") / "the work flow")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """A folder with a user's texts, encoder and configuration, and nothing made of them."""
    folder = tmp_path_factory.mktemp("inputs") / "own files"
    folder.mkdir()
    shutil.copytree(tiny_bert, folder / "encoder")
    (folder / "texts.csv").write_text(runs.texts())
    (folder / "mine.json").write_text(json.dumps(runs.configuration()))
    return folder


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, workflow: Path, inputs: Path) -> Path:
    """The folder of an uninterrupted run on two cores."""
    folder = runs.copy_of(inputs, tmp_path_factory.mktemp("reference") / "a run")
    done = runs.run(workflow, folder, "--cores", "2", *runs.TARGETS)
    assert done.returncode == 0, done.stdout
    return folder
