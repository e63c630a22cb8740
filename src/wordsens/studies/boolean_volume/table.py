"""A study of volumes as a tidy table: counts of models, with exact binomial intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wordsens.boolean.sampling import exact_interval
from wordsens.boolean.volume import KINDS
from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

STEPS = 40  # of the distribution of average sensitivities


def tables(cells: Sequence[str]) -> dict[str, pd.DataFrame]:
    """One row per cell and class of functions, and per cell and threshold of the average.

    ``quantity`` is a class, or ``average``: the share of models whose average sensitivity is at
    least ``at``.  ``low`` and ``high`` are the Clopper–Pearson interval at 95%.
    """
    import pandas as pd

    rows = []
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, ("K0", "average", "kind", "unclassified"))
        named = {name: attributes[name] for name in ("study", "init", "N")}
        models = len(arrays["K0"])
        for quantity, at, count in _counts(arrays, attributes["N"]):
            rows.append({**named, "quantity": quantity, "at": at, "count": count, "models": models})
    table = pd.DataFrame(rows)
    low, high = exact_interval(table["count"].to_numpy(), table["models"].to_numpy())
    return {"table": table.assign(share=table["count"] / table["models"], low=low, high=high)}


def _counts(arrays: dict[str, np.ndarray], N: int) -> Iterator[tuple[str, float, int]]:
    whole = arrays["unclassified"] == 0
    varied = whole & (arrays["kind"] != "constant")
    yield "non-constant", np.nan, int(varied.sum())
    yield "without strings of sensitivity 0", np.nan, int((whole & (arrays["K0"] == 0)).sum())
    yield "unclassified", np.nan, int((~whole).sum())
    for kind in KINDS:
        yield kind, np.nan, int((arrays["kind"] == kind).sum())
    for step in range(STEPS + 1):
        at = step * N / STEPS
        yield "average", at, int((whole & (arrays["average"] >= at)).sum())
