"""A study of classifiers as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

PARAMETERS = (
    *("study", "dataset", "weight", "n", "d", "width", "depth", "heads", "mlp"),
    *("examples", "epochs"),
)
RESULTS = (
    *("accuracy", "accuracy_trained", "accuracy_decided", "accuracy_changed"),
    *("flipped", "decided"),
)


def tables(cells: Sequence[str]) -> dict[str, pd.DataFrame]:
    """One row per model; word sensitivity is the mean over its texts."""
    import pandas as pd

    frames = []
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, (*RESULTS, "sup_before", "sup"))
        parameters = {name: attributes[name] for name in PARAMETERS}
        values = {"trial": np.arange(len(arrays["sup"]))} | {name: arrays[name] for name in RESULTS}
        values |= {name: arrays[name].mean(1) for name in ("sup_before", "sup")}
        frames.append(pd.DataFrame(parameters | values))
    return {"table": pd.concat(frames, ignore_index=True)}
