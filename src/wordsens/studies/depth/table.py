"""A study of depth and temperature as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

PARAMETERS = (
    *("study", "map", "dataset", "d", "n", "heads", "head_dim"),
    *("activation", "attention", "residual", "layer_norm", "mlp"),
)
RESULTS = ("sup", "bound", "norm", "spread", "steps", "start")


def tables(cells: Sequence[str]) -> dict[str, pd.DataFrame]:
    """One row per trial, depth and temperature of every cell."""
    import pandas as pd

    frames = []
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, (*RESULTS, "sample"))
        trials, settings = arrays["sup"].shape
        parameters = {name: attributes[name] for name in PARAMETERS if name in attributes}
        values: dict[str, Any] = {
            "depth": np.tile(attributes["depths"], trials),
            "temperature": np.tile(attributes["temperatures"], trials),
            "trial": np.repeat(np.arange(trials), settings),
            "sample": np.repeat(arrays["sample"], settings),
        }
        values |= {name: arrays[name].reshape(-1) for name in RESULTS}
        frames.append(pd.DataFrame(parameters | values))
    return {"table": pd.concat(frames, ignore_index=True)}
