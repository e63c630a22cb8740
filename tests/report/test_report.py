"""``snakemake --report`` makes one page that a browser without network shows whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, obstacle
from wordsens.provenance import fingerprint

ROOT = Path(__file__).resolve().parents[2]
GAUSSIAN = {"dataset": "synthetic", "d": [8], "n": [4, 6], "trials": 2}
CONFIG = {
    "sweeps": {
        "t_raf": {"map": "raf", **GAUSSIAN},
        "t_all": {"map": "rf", **GAUSSIAN, "positions": "all"},
    },
    "generalization": {"t_study": {"map": "raf", **GAUSSIAN, "n": [4], "N": [10]}},
    "figures": {
        "t_lengths": {"kind": "context_length", "sweeps": ["t_raf", "t_all"]},
        "t_positions": {"kind": "positions", "sweeps": ["t_all"]},
        "t_errors": {"kind": "generalization", "sweeps": ["t_study"], "penalties": [0]},
    },
}
CELL = "wordsens.studies.sensitivity.cell"
CATEGORIES = {
    "Word sensitivity": {"t_lengths", "t_positions"},
    "Generalization on a changed word": {"t_errors"},
    "Tables": {"t_raf", "t_all", "t_study"},
    "Provenance": {"t_raf", "t_all", "t_study"},
}
# A network of its own, in which nothing can be reached.
OFFLINE = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []


def snakemake(folder: Path, *arguments: str, prefix: list[str] | None = None) -> str:
    command = [*(prefix or []), sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
    done = subprocess.run(
        [*command, *CONFIG["figures"], *arguments, "--configfile", "mine.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished small run, moved away from its report."""
    folder = tmp_path_factory.mktemp("reported") / "a run"
    folder.mkdir()
    (folder / "mine.json").write_text(json.dumps(CONFIG))
    snakemake(folder, "--cores", "2")
    snakemake(folder, "--report", "results/report.html", prefix=OFFLINE)
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    reason = obstacle()
    if reason:
        pytest.skip(reason)
    page = tmp_path_factory.mktemp("elsewhere") / "report.html"
    shutil.copy(folder / "results" / "report.html", page)
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(page)
        browser.until("return document.querySelector('#app a') !== null")
        yield browser


LINK = "[...document.querySelectorAll('#app li a, #app nav a, #app a')]"


def show(browser: Browser, category: str) -> list[list[str]]:
    """Click from the menu to a category; the labels of its rows."""
    browser.open_again()
    browser.until(
        f"let a = {LINK}.find(a => a.innerText.trim() == arguments[0]);"
        "if (!a) return false; a.click(); return true",
        category,
    )
    return browser.until(
        "let rows = [...document.querySelectorAll('#app tbody tr')].map(r =>"
        " [...r.querySelectorAll('td')].map(d => d.innerText.trim()).slice(0, -1));"
        "return rows.length ? rows : null"
    )


def press(browser: Browser, labels: list[str], button: int) -> None:
    """The eye (0) or the i (1) beside the row with these labels."""
    browser.until(
        "let row = [...document.querySelectorAll('#app tbody tr')].find(r =>"
        " [...r.querySelectorAll('td')].map(d => d.innerText.trim()).slice(0, -1).join()"
        " == arguments[0].join());"
        "if (!row) return false; row.querySelectorAll('a')[arguments[1]].click(); return true",
        labels,
        button,
    )


def test_page_needs_nothing_else(folder: Path) -> None:
    page = (folder / "results" / "report.html").read_text()
    loads = re.findall(
        r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?!data:)(\S+)", page
    )
    assert not [where for where in loads if where.startswith(("http", "//", "file", "/"))]


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_result_stands_under_its_category(browser: Browser, category: str) -> None:
    assert {row[0] for row in show(browser, category)} == CATEGORIES[category]


@pytest.mark.parametrize("figure", CONFIG["figures"])
def test_every_figure_is_drawn(browser: Browser, folder: Path, figure: str) -> None:
    (category,) = (name for name in list(CATEGORIES)[:2] if figure in CATEGORIES[name])
    rows = [row for row in show(browser, category) if row[0] == figure]
    assert {row[1] for row in rows} == {"PDF", "PNG", "CSV of the numbers"}
    press(browser, [figure, "PNG"], 0)
    size = browser.until(
        "let i = document.querySelector('#app img[src^=\"data:image/png\"]');"
        "return i && i.complete && i.naturalWidth ? [i.naturalWidth, i.naturalHeight] : null"
    )
    header = (folder / "results" / "figures" / f"{figure}.png").read_bytes()[16:24]
    assert tuple(size) == struct.unpack(">II", header)
    press(browser, [figure, "PDF"], 0)
    assert browser.until(
        "let f = document.querySelector('#app iframe'); return f && f.src"
    ).startswith("data:application/pdf")


@pytest.mark.parametrize("figure", CONFIG["figures"])
def test_every_figure_has_a_caption_from_its_own_data(browser: Browser, figure: str) -> None:
    (category,) = (name for name in list(CATEGORIES)[:2] if figure in CATEGORIES[name])
    show(browser, category)
    press(browser, [figure, "PNG"], 1)
    text = browser.until(
        "let t = document.querySelector('#app').innerText;"
        "return t.toUpperCase().includes('DESCRIPTION') ? t : null"
    )
    for sweep in CONFIG["figures"][figure]["sweeps"]:
        settings = (CONFIG["sweeps"] | CONFIG["generalization"])[sweep]
        sizes = ", ".join(map(str, settings["n"]))
        expected = f"{sweep}: map {settings['map']}; dataset synthetic; d = 8; n = {sizes};"
        assert expected in text
        assert "2 trials at each point" in text


def test_provenance_names_the_code(browser: Browser) -> None:
    show(browser, "Provenance")
    press(browser, ["t_raf"], 0)
    page = browser.until(
        "let f = document.querySelector('#app iframe');"
        "return f && f.src.startsWith('data:text/html') ?"
        " decodeURIComponent(escape(atob(f.src.split(',')[1]))) : null"
    )
    assert fingerprint(ROOT / "scripts" / "cell.py", CELL, map="raf") in page
    assert "version_torch" in page
    assert page.count("<tr>") == 2, "a row per cell, and the head is styled"


def test_configuration_is_on_the_first_page(browser: Browser) -> None:
    browser.open_again()
    text = browser.until("return document.querySelector('#app').innerText")
    assert '"positions": "all"' in text


def test_nothing_was_missing(browser: Browser) -> None:
    assert browser.messages() == []
