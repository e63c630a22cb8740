"""Python examples of the README and docs run as printed, and links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text("utf-8")))
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("code", EXAMPLES)
def test_example_runs(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_readme_shows_what_its_example_prints() -> None:
    """Numbers to three digits, as the last ones depend on the machine."""
    page = (ROOT / "README.md").read_text("utf-8")
    code, shown = re.search(r"(?ms)^```python\n(.*?)^```\n+```text\n(.*?)^```", page).groups()
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    number = r"\d+\.\d+"
    assert re.sub(number, "x", printed) == re.sub(number, "x", shown)
    for one, other in zip(re.findall(number, printed), re.findall(number, shown), strict=True):
        assert abs(float(one) - float(other)) <= 2e-3 * float(other)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
