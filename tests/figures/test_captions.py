"""Captions say what the tables hold."""

from __future__ import annotations

import pandas as pd
import pytest

from wordsens.figures.captions import caption
from wordsens.studies import figure_module


def table(samples: list[int]) -> pd.DataFrame:
    trials = range(len(samples))
    point = {"study": "s", "weights": "random", "dataset": "mine", "n": 8}
    return pd.DataFrame({**point, "trial": trials, "sample": samples, "sup": 1.0})


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([4, 4, 4], "3 trials at each point; on 1 different text;"),
        ([4, 9, 4], "3 trials at each point; on 2 different texts;"),
        ([4, 9, 5], "3 trials at each point; word"),
        ([-1, -1, -1], "3 trials at each point; word"),  # drawn, and no two alike
    ],
)
def test_distinct_texts_are_counted(samples: list[int], says: str) -> None:
    assert says in caption(figure_module("context_length"), {"s": table(samples)}, {})
