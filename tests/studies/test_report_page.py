"""The pages of model_report from small tables: the Markdown, and the HTML in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.report.browser import Browser, obstacle
from tests.report.test_page import NASTY, explanation
from wordsens.report.page import html, page

SETTINGS = {"encoder": "bert", "texts": "mine.txt"}
# A picture of one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f0005000"
    "1ff89993d1d0000000049454e44ae426082"
)


def layers(samples: list[int], **more: Any) -> pd.DataFrame:
    rows = [
        {"weights": "pretrained", "layer": layer, "n": 8, "trial": trial, "sample": sample}
        for layer in (0, 1)
        for trial, sample in enumerate(samples)
    ]
    return pd.DataFrame(rows).assign(sup=0.5, position=0, **more)


def words(**more: Any) -> pd.DataFrame:
    row = {"n": 8, "layer": 1, "rank": 1, "position": 0, "word": "a", "new": "b"}
    row |= {"change": 0.1, "distance": 0.2, "context": "[[a]] c"}
    return pd.DataFrame([row | more])


def test_a_mean_is_over_texts_and_not_trials() -> None:
    tables = {"own_bert_layers": layers([3, 7, 3, 3])}
    assert "Mean over 2 texts;" in page(SETTINGS, tables, words(), {}, {})
    tables = {"own_bert_layers": layers([3])}
    text = page(SETTINGS, tables, words(), {}, {})
    assert "Mean over 1 text;" in text
    assert "when the first word moves" in text
    assert "| 8 | 1 | **a** c | b | 0.100 | 0.20 | 0.500 |" in text


def test_a_decoders_report_says_what_it_leaves_out() -> None:
    positions = layers([3], position_tried=4, sup_at_position=0.25)
    changes = pd.DataFrame(
        {
            "quantity": ["relative_change", "attention_to_word"],
            "perturbation": ["noise", "none"],
            "layer": [1, None],
            "value": [0.3, 0.125],
            "tokens": 8,
        }
    )
    tables = {
        "own_x_layers": layers([3]).assign(position=4),
        "own_x_positions": positions,
        "own_x_attraction": changes,
    }
    text = page(SETTINGS, tables, words(), {}, {}, causal=True)
    assert "when word 5 moves" in text
    assert "only itself and what comes after it" in text
    assert "Directions that attract attention are left out" in text
    assert "changes by 0.250 when word 5 moves" in text


def test_a_size_without_words_in_the_ball_has_a_dash() -> None:
    row = {"n": 8, "continuous": 0.5, "first": 0.4, "sup": 0.6, "sup_in_ball": np.nan}
    text = page(SETTINGS, {"own_bert_vocabulary": pd.DataFrame([row])}, words(), {}, {})
    assert "| 8 | 0.500 | 0.400 | 0.600 | – |" in text


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Names and words that would break a page which escapes nothing."""
    (tmp_path / "p.png").write_bytes(PNG)
    odd = words(new=NASTY, context=f"{NASTY} [[<b>a</b>]] c")
    windows = [explanation(), replace(explanation(), start=3, of=9), replace(explanation(), text=1)]
    found = html(
        {"encoder": NASTY, "texts": "a & b.txt"},
        windows,
        {"own_bert_layers": layers([3])},
        odd,
        {},
        {"model.safetensors": "0123456789abcdef"},
        {"own_bert_layers": tmp_path / "p.png"},
    )
    path = tmp_path / "report.html"
    path.write_text(found, encoding="utf-8")
    return path


def test_everything_is_escaped_and_in_one_file(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    assert NASTY not in text
    assert "<b>a" not in text
    assert "&lt;b&gt;a&lt;/b&gt;</strong> c" in text
    sources = re.findall(r'(?:src|href)="(.*?)"', text)
    assert all(each.startswith(("data:image/png;base64,", "#text-")) for each in sources)
    assert len([each for each in sources if each.startswith("data:")]) == 1


@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
def test_the_report_in_a_browser(report: Path, tmp_path: Path) -> None:
    """Two texts, one in two windows: each shows its own words; the figure is drawn."""
    colours = (
        "return [...document.querySelectorAll('.text')[0].children]"
        ".map(b => getComputedStyle(b).backgroundColor)"
    )
    with Browser(tmp_path) as browser:
        browser.open(report)
        assert browser.run("return document.querySelectorAll('.text').length") == 3
        assert browser.run("return document.querySelectorAll('section').length") == 2
        assert browser.run("return document.querySelectorAll('nav a').length") == 2
        assert browser.run(
            "return [...document.images].every(i => i.complete && i.naturalWidth == 1)"
        )
        # A word of the second window is shown under its own text, and the other text's stays.
        browser.run("document.querySelectorAll('.text')[1].children[1].click()")
        shown = browser.run("return [...document.querySelectorAll('.word')].map(w => w.innerText)")
        assert "1.000" in shown[0]
        assert "Choose a word" in shown[1]
        light = browser.run(colours)
        browser.prefer(scheme="dark")
        dark = browser.run(colours)
        assert len(set(light[:2])) == len(set(dark[:2])) == 2
        assert light != dark
        browser.prefer(scheme="dark", media="print")
        assert browser.run("return getComputedStyle(document.querySelector('.word')).display") == (
            "none"
        )
        assert browser.run(colours) == light, "printed as in the light"
        browser.run("window.dispatchEvent(new Event('beforeprint'))")
        assert browser.run("return [...document.querySelectorAll('details')].every(d => d.open)")
        browser.run("window.dispatchEvent(new Event('afterprint'))")
        assert not browser.run("return [...document.querySelectorAll('details')].some(d => d.open)")
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.messages() == []


def test_an_audit_of_the_layers_is_told() -> None:
    table = layers([3, 7])
    assert "audited" not in page(SETTINGS, {"own_bert_layers": table}, words(), {}, {})
    table = table.assign(excess=[np.nan, 0.004, np.nan, 0.31])
    said = page(SETTINGS, {"own_bert_layers": table}, words(), {}, {})
    assert "within 31.0% of a search ten times as long (2 audited): take more starts" in said
