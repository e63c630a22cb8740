"""Cells and tables of explanations and classifiers, as the workflow runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wordsens
from tests.studies.cells import complete
from wordsens.encoders.classifier import Classifier
from wordsens.errors import UserError
from wordsens.results import write_cell
from wordsens.studies import kind_named
from wordsens.studies.classifier.table import tables as classifier_tables
from wordsens.studies.explanation.cell import run
from wordsens.studies.explanation.figures.explanation import WORDS, summarise
from wordsens.studies.explanation.table import tables

TEXT = "w5 w26 w13 w1 w37"


def cell(**given: Any) -> dict[str, Any]:
    entry = {"encoder": "tiny", "seed": 3, "tokens": 3, "text": 0, "window": 0, "delta": False}
    whole = complete("explanation", **{**entry, **given})
    for axis in ("texts", "windows"):
        whole.pop(axis, None)
    return whole


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "texts.jsonl"
    rng = np.random.default_rng(0)
    lines = [
        {
            "text": " ".join(f"w{i}" for i in rng.integers(0, 40, 6)),
            "label": (-1) ** number,
            "group": str(number),
        }
        for number in range(12)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_cell_is_a_window_as_explain_has_it(tiny_bert: Path, tmp_path: Path) -> None:
    paths = []
    for window in range(3):
        arrays, attributes = run(cell(own=TEXT, window=window), {"model": tiny_bert}, "cpu")
        assert (attributes["tokens"], attributes["windows"]) == (5, 2)
        assert (arrays["explanation"][0] == "") == (window == 2), "the text has two windows"
        paths.append(tmp_path / f"text~0/window~{window}.h5")
        write_cell(paths[-1], arrays, attributes)
    made = tables([str(path) for path in reversed(paths)])
    expected = wordsens.explain(
        tiny_bert, TEXT, tokens=3, delta=False, effort="quick", seed=3
    ).to_dataframe()
    shown = made["table"]
    assert list(shown.columns[:3]) == ["study", "encoder", "text"]
    for name in ("window", "position", "piece", "target", "new", "change"):
        assert shown[name].tolist() == expected[name].tolist(), name
    assert set(made["pages"]) == {"index.html", "text-1.html"}
    best = summarise(shown)
    assert len(best) == 5 * 3, "layers 1 to 3 of every word"
    assert best["position"].nunique() <= WORDS


def test_texts_of_a_corpus_that_has_fewer(tiny_bert: Path, corpus: Path, tmp_path: Path) -> None:
    found = {}
    for text in (1, 30):
        asked = cell(text=text, corpus="mine", tokens=128)
        found[text], attributes = run(asked, {"model": tiny_bert, "texts": str(corpus)}, "cpu")
    assert found[30]["explanation"][0] == ""
    assert attributes["tokens"] == 0
    kept = json.loads(found[1]["explanation"][0])
    second = json.loads(corpus.read_text().splitlines()[1])["text"]
    assert (kept["text"], " ".join(kept["pieces"])) == (1, second)
    path = tmp_path / "text~30/window~0.h5"
    write_cell(path, found[30], attributes)
    with pytest.raises(UserError, match=r"explanations\.t: no text has any tokens"):
        tables([str(path)])


def test_a_classifier_and_what_words_do_to_it(
    tiny_bert: Path, corpus: Path, tmp_path: Path
) -> None:
    asked = complete("classifier", encoder="tiny", corpus="mine", seed=0, windows=4)
    asked["names"] = ["rotten", "fresh"]
    inputs = {"encoder": str(tiny_bert), "texts": str(corpus)}
    made = classifier_tables(asked, inputs, "cpu")
    table = made["table"].set_index("texts")
    assert table["windows"].sum() == 8, "four of either label"
    (tmp_path / "c.json").write_text(made["model"])
    known = Classifier.load(tmp_path / "c.json")
    assert known.labels == ["fresh", "rotten"]
    assert known.accuracy == table["accuracy"]["held out"]
    given = {"model": tiny_bert, "classifier": str(tmp_path / "c.json")}
    arrays, _ = run(cell(own=TEXT, classifier="c", tokens=128), given, "cpu")
    kept = json.loads(arrays["explanation"][0])
    assert kept["kind"] == "classes"
    assert set(kept["labels"]) == {"fresh", "rotten"}


def test_an_edit_of_one_text_or_of_a_template_computes_no_other_cell() -> None:
    study = kind_named("explanation")
    entry = {"encoder": "tiny", "texts": ["w1", "w2"], "windows": 2, "tokens": 4}

    class Run:
        seed = 0

    one = study("t", entry)
    other = study("t", entry | {"texts": ["w1", "w3"]})
    points = one.points()
    assert len(points) == 4
    same = [one.cell(Run, point) == other.cell(Run, point) for point in points]
    assert same == [True, True, False, False]
    from wordsens.provenance import sources

    read = sources("wordsens.studies.explanation.cell")
    assert "wordsens.encoders.explainer" in read
    assert not {"wordsens.encoders.page", "wordsens.notebook", "wordsens.figures"} & set(read)
