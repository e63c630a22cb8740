"""A study of trained transformers as a tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wordsens.results import need, read_cell
from wordsens.studies.boolean_random.table import SHAPE, spectra

if TYPE_CHECKING:
    import pandas as pd

RESULTS = (
    "draw",
    "accuracy",
    "learnt",
    "loss",
    "epochs_trained",
    "first_rate",
    "batch_size",
    "target",
)


def tables(cells: Sequence[str]) -> dict[str, pd.DataFrame]:
    """One row per model and sensitivity that occurs."""
    import pandas as pd

    frames = []
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, ("counts", *RESULTS, *SHAPE))
        named = {name: attributes[name] for name in ("study", "language", "init", "N")}
        named["exact"] = "strings" not in attributes
        columns = {name: arrays[name] for name in (*SHAPE, *RESULTS)}
        frames.append(spectra(arrays["counts"], named, columns))
    return {"table": pd.concat(frames, ignore_index=True)}
