"""A long text in windows of whole words, and explanations of several texts."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import wordsens
from tests.encoders.zoo import with_head
from wordsens.data.encoders import Encoder
from wordsens.encoders.explainer import Explainer
from wordsens.encoders.explanations import Explanations
from wordsens.encoders.stored import FLIPS, compact, from_json, to_json
from wordsens.encoders.windows import room, windows


@given(st.lists(st.booleans(), min_size=1, max_size=120), st.integers(1, 20))
def test_windows_hold_every_token_once_and_cut_no_short_word(continues, most: int) -> None:
    pieces = ["##x" if part and at else "x" for at, part in enumerate(continues)]
    found = windows(pieces, most)
    assert [i for part in found for i in range(part.start, part.stop)] == list(range(len(pieces)))
    assert all(0 < part.stop - part.start <= most for part in found)
    for before, part in pairwise(found):
        if pieces[part.start].startswith("##"):
            # A word is cut only where the second half of a window has no beginning of one.
            half = pieces[before.start + max(1, most // 2) : part.start]
            assert all(piece.startswith("##") for piece in half)


def test_a_text_that_fits_is_one_window() -> None:
    assert windows(["a"] * 7, 7) == [slice(0, 7)]
    assert [part.stop for part in windows(["a"] * 8, 7)] == [4, 8], "even ones"
    assert windows(["a", "b", "##c", "##d"], 3) == [slice(0, 1), slice(1, 4)]


@pytest.fixture(scope="module")
def several(tiny_bert: Path) -> Explanations:
    texts = ["w1 w2 w3 w4 w5 w6 w7", "w8 w9", "w3 w30"]
    with pytest.warns(UserWarning, match="cut into 3 windows"):
        # More than the model has positions for, of which there are 62.
        found = wordsens.explain(
            tiny_bert,
            [*texts, " ".join(["w1 w2"] * 70)],
            candidates=["w20", "w21"],
            positions=[0, 1],
            effort="quick",
            delta=False,
        )
    assert isinstance(found, Explanations)
    return found


def test_every_text_and_window_is_explained_by_itself(several, tiny_bert: Path) -> None:
    assert [len(each) for each in several.texts] == [1, 1, 1, 1], "positions 0 and 1 alone"
    assert [each.tokens for each in several] == [7, 2, 2, 140]
    alone = wordsens.explain(
        tiny_bert, "w8 w9", candidates=["w20", "w21"], effort="quick", delta=False
    )
    for one, other in zip(several[1].replaced, alone.replaced, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    table = several.to_dataframe()
    assert list(table.columns[:3]) == ["text", "window", "position"]
    assert set(table["text"]) == {0, 1, 2, 3}


def test_windows_count_positions_of_the_whole_text(tiny_bert: Path) -> None:
    options = {"candidates": ["w20", "w21"], "effort": "quick", "delta": False, "tokens": 3}
    found = wordsens.explain(tiny_bert, "w1 w2 w3 w4 w5 w6 w7", positions=[1, 6], **options)
    assert repr(found) == "Explanations(1 texts, 2 windows)"
    assert [(each.start, each.positions, len(each.pieces)) for each in found] == [
        (0, [1], 3),
        (5, [1], 2),
    ]
    table = found.to_dataframe()
    assert sorted(set(table["position"])) == [1, 6]
    assert set(table[table["position"] == 6]["piece"]) == {"w7"}
    # What a window holds is all that its words reach.
    alone = wordsens.explain(tiny_bert, "w6 w7", positions=[1], **options)
    np.testing.assert_array_equal(found[1].replaced[0]["change"], alone.replaced[0]["change"])


def test_a_page_each_and_an_index(several, tmp_path: Path) -> None:
    index = several.save(tmp_path / "pages")
    assert index == tmp_path / "pages" / "index.html"
    names = sorted(path.name for path in index.parent.iterdir())
    assert names == ["index.html", *(f"text-{k}.html" for k in (1, 2, 3, 4))]
    assert re.findall(r'href="(.*?)"', index.read_text()) == names[1:]
    one = several.save(tmp_path / "all.html").read_text()
    assert set(re.findall(r'href="#(.*?)"', one)) <= set(re.findall(r'id="(.*?)"', one))
    assert "The first" in (tmp_path / "pages" / "text-4.html").read_text()
    assert several._repr_html_().count("<p ") == 4


@pytest.mark.parametrize("auto", ["AutoModelForSequenceClassification", "AutoModelForCausalLM"])
def test_what_a_cell_keeps_gives_the_same_page(auto: str, tiny_bert: Path) -> None:
    """All numbers of the page and the tables survive, and nothing but them is kept."""
    tokenizer = Encoder.open(tiny_bert).tokenizer
    family = "gpt2" if "Causal" in auto else "bert"
    explainer = Explainer(
        with_head(family, auto), tokenizer=tokenizer, candidates="all", effort="quick"
    )
    ids = explainer.tokens("w5 w26 w13 w1")
    whole = explainer.explain(ids, slice(0, 4), range(4))
    kept = compact(whole)
    again = from_json(to_json(kept))
    for each in (kept, again):
        assert each.verdict == whole.verdict
        assert each.to_dataframe().equals(whole.to_dataframe())
        assert each.flipped == len(whole.flips())
    if len(whole.flips()) <= FLIPS:
        assert again.flips().equals(whole.flips())
    assert all(
        len(part["word"]) < len(other["word"])
        for part, other in zip(kept.replaced, whole.replaced, strict=True)
    ) or len(whole.flips())
    assert len(again.labels) <= len(whole.labels)


def test_room_is_what_special_tokens_leave(tiny_bert: Path, tiny_chat: Path) -> None:
    assert room(Encoder.open(tiny_bert)) == 62
    assert room(Encoder.open(tiny_chat)) == 32


def test_the_vocabulary_of_next_tokens_is_never_held_for_all_positions(tiny_chat: Path) -> None:
    found = wordsens.explain(tiny_chat, [10, 20, 30], candidates="all", effort="quick", delta=False)
    shapes = {name: values.shape for name, values in found.replaced[0].items()}
    assert all(shape[0] == shapes["word"][0] for shape in shapes.values())
    assert {len(shape) for name, shape in shapes.items() if name != "change"} == {1}
    assert torch.isclose(torch.tensor(np.exp(found.logits).sum()), torch.tensor(1.0).double())
    before = found.flips()["verdict_before"]
    assert (before <= 0).all(), "log-probabilities"
