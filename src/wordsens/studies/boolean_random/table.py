"""A study of random transformers as tidy tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

SHAPE = ("depth", "width", "heads", "feedforward")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """The profiles, and the influence of a flip by position."""
    import pandas as pd

    profiles, influences = [], []
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, ("counts", *SHAPE))
        named = {name: attributes[name] for name in ("study", "init", "N", "epsilon")}
        columns = {name: arrays[name] for name in (*SHAPE, "log10_beta") if name in arrays}
        if "influence" in arrays:
            columns["influence"] = arrays["influence"].mean(1)
            trials, N = arrays["influence"].shape
            by_position = {
                "trial": np.repeat(np.arange(trials), N),
                "position": np.tile(np.arange(1, N + 1), trials),
                "influence": arrays["influence"].reshape(-1),
            }
            influences.append(pd.DataFrame(named | by_position))
        profiles.append(
            spectra(arrays["counts"], named | {"exact": "strings" not in attributes}, columns)
        )
    empty = pd.DataFrame(
        columns=["study", "init", "N", "epsilon", "trial", "position", "influence"]
    )
    return {
        "table": pd.concat(profiles, ignore_index=True),
        "influence": pd.concat(influences, ignore_index=True) if influences else empty,
    }


def spectra(
    counts: np.ndarray, named: Mapping[str, Any], columns: Mapping[str, np.ndarray]
) -> pd.DataFrame:
    """One row per model and sensitivity that occurs; −1 stands for unclassified strings.

    ``counts`` (trials, N + 2) are K_0 … K_N and the unclassified; ``average`` is a model's average
    sensitivity (3), ``strings`` how many it classified.
    """
    import pandas as pd

    trial, s = np.nonzero(counts)
    N = counts.shape[1] - 2
    strings = counts[:, :-1].sum(1)
    with np.errstate(invalid="ignore"):
        average = (counts[:, :-1] * np.arange(N + 1)).sum(1) / strings
    values = {"trial": trial, "average": average[trial], "strings": strings[trial]}
    values |= {name: column[trial] for name, column in columns.items()}
    values |= {"sensitivity": np.where(s > N, -1, s), "count": counts[trial, s]}
    return pd.DataFrame(dict(named) | values)
