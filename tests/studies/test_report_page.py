"""The page of model_report from small tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from wordsens.report.page import page

SETTINGS = {"encoder": "bert", "texts": "mine.txt"}


def layers(samples: list[int]) -> pd.DataFrame:
    rows = [
        {"weights": "pretrained", "layer": layer, "n": 8, "trial": trial, "sample": sample}
        for layer in (0, 1)
        for trial, sample in enumerate(samples)
    ]
    return pd.DataFrame(rows).assign(sup=0.5)


def words() -> pd.DataFrame:
    row = {"n": 8, "layer": 1, "rank": 1, "position": 0, "word": "a", "new": "b"}
    return pd.DataFrame([{**row, "change": 0.1, "distance": 0.2, "context": "**a** c"}])


def test_a_mean_is_over_texts_and_not_trials() -> None:
    tables = {"own_bert_layers": layers([3, 7, 3, 3])}
    assert "Mean over 2 texts;" in page(SETTINGS, tables, words(), {}, {})
    tables = {"own_bert_layers": layers([3])}
    assert "Mean over 1 text;" in page(SETTINGS, tables, words(), {}, {})


def test_a_size_without_words_in_the_ball_has_a_dash() -> None:
    row = {"n": 8, "continuous": 0.5, "first": 0.4, "sup": 0.6, "sup_in_ball": np.nan}
    text = page(SETTINGS, {"own_bert_vocabulary": pd.DataFrame([row])}, words(), {}, {})
    assert "| 8 | 0.500 | 0.400 | 0.600 | – |" in text


def test_an_audit_of_the_layers_is_told() -> None:
    table = layers([3, 7])
    assert "audited" not in page(SETTINGS, {"own_bert_layers": table}, words(), {}, {})
    table = table.assign(excess=[np.nan, 0.004, np.nan, 0.31])
    said = page(SETTINGS, {"own_bert_layers": table}, words(), {}, {})
    assert "within 31.0% of a search ten times as long (2 audited): take more starts" in said
