"""The page of an explanation in a real browser: colours, controls, keyboard, and no network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.report.browser import Browser, obstacle
from wordsens.encoders.explanation import Explanation
from wordsens.encoders.page import explanation_fragment, explanation_page

NASTY = "</script><script>document.title='broken'</script>"


def explanation() -> Explanation:
    """Three words, two of them tried; names that would break a page that escapes nothing."""
    words = {10: "<b>bold</b>", 11: NASTY, 12: "plain \u202e ⟨\u2028⟩"}

    def part(scale: float) -> dict[str, np.ndarray]:
        changes = scale * np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.9], [0.3, 0.5, 0.4]])
        return {
            "word": np.array([10, 11, 12]),
            "change": changes,
            "distance": np.array([1.0, 1.1, 1.2]),
            "output": scale * np.array([0.5, 0.1, 0.2]),
            "verdict": np.array([1, 0, 0]),
            "old_after": np.array([-1.0, 2.0, 1.0]),
            "new_after": np.array([1.5, 2.0, 1.0]),
            "new_before": np.array([-2.0, 2.5, 2.5]),
        }

    return Explanation(
        pieces=["it", "<img src=x onerror=alert(1)>", "##ly"],
        positions=[0, 1],
        depth=2,
        causal=True,
        sup={"layer 2": np.array([0.25, 1.0])},
        replaced=[part(1), part(2)],
        named=words,
        labels=["fresh & <good>", NASTY],
        kind="classes",
        logits=np.array([2.5, -2.0]),
        tried="96 of 20,000",
        top=2,
        effort="quick",
    )


def test_everything_is_escaped_and_comes_from_the_file() -> None:
    page = explanation_page([explanation()])
    assert NASTY not in page
    assert "<img src=x" not in page
    assert "<b>bold" not in page
    assert "fresh &amp; &lt;good&gt;" in page
    assert not re.search(r"<\w[^>]*\s(src|href)\s*=|url\(|@import|https?://", page)
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert json.loads(data[1])["words"][1]["by"]["layer 2"]["new"][0]["word"] == NASTY
    assert "quick page" in page
    assert "only itself and what comes after it" in page
    notebook = explanation_fragment([explanation()])
    assert "<img" not in notebook
    assert "<script" not in notebook
    assert notebook.count("<span") == 3


def test_saved_whole(tmp_path: Path) -> None:
    found = explanation()
    assert found.save(tmp_path / "new" / "page.html").read_text() == explanation_page([found])
    assert found._repr_html_() == explanation_fragment([found])
    assert len(found.plot("layer 2").patches) == 2


@pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
def test_in_a_browser(tmp_path: Path) -> None:
    page = explanation().save(tmp_path / "page.html")
    shares = (
        "return [...document.querySelectorAll('.text button')]"
        ".map(b => Number(b.style.getPropertyValue('--share')))"
    )
    with Browser(tmp_path) as browser:
        browser.open(page)
        assert browser.run("return document.title") == "Which word matters"
        assert browser.run(shares) == [0.5, 1, 0]
        colours = browser.run(
            "return [...document.querySelectorAll('.text button')]"
            ".map(b => getComputedStyle(b).backgroundColor)"
        )
        assert len(set(colours)) == 3
        assert browser.run("return document.querySelectorAll('.text button')[2].disabled")
        assert browser.run("return document.querySelector('.text').textContent") == (
            "it <img src=x onerror=alert(1)>ly"
        )
        # Another layer, then the other kind of change.
        pick = (
            "const s = document.getElementById('target'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        browser.run(pick, "layer 2")
        assert browser.run(shares) == [0.5, 1, 0]
        browser.run("document.querySelector('input[value=delta]').click()")
        assert browser.run(shares) == [0.25, 1, 0]
        browser.run(pick, "layer 1")
        assert browser.run(shares) == [0, 0, 0]
        assert "not searched" in browser.run("return document.getElementById('scale').textContent")
        # By keyboard: a focused word is a button, and arrows go on to the next.
        browser.run(pick, "output")
        browser.run("document.querySelectorAll('.text button')[0].focus()")
        browser.run(
            "document.activeElement.dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, cancelable: true}))"
        )
        assert browser.run("return document.activeElement.dataset.at") == "1"
        browser.run("document.activeElement.click()")
        shown = browser.run("return document.querySelector('.word').innerText")
        assert "<img src=x" in shown
        assert "1.000" in shown, "the strongest replacement of the second word"
        assert NASTY in shown
        assert browser.run("return document.querySelectorAll('img, b').length") == 0
        assert browser.run("return document.querySelectorAll('.flips tbody tr').length") == 2
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.messages() == []
