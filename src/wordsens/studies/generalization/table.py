"""Cells of a generalization study as one tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

MODES = ("finetuned", "retrained")
PARAMETERS = (
    *("study", "map", "dataset", "d", "n", "N", "width", "depth", "activation", "heads"),
    *("head_dim", "temperature", "attention", "layer_norm", "mlp"),
)
BY_TRIAL = ("sample", "f_x", "f_x_retrained", "condition", "rank", "residual", "duplicates")
LATER = ("digits", "sup")  # which not every cell has
BY_SEARCH = ("loss", "penalty", "limit", "start", "value", "gamma", "change")
BY_MODE = tuple(f"{name}_{mode}" for name in ("f_delta", "err", "below") for mode in MODES)
AUDITED = ("audited", "excess")  # of cells with an audit
BY_SEARCH_LAST = ("feature_cosine", "feature_alignment", "f_delta")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per trial, search and way of training."""
    return {"table": searches_table(cells)}


def searches_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per trial, search and way of training: parameters, ``mode``, ``error`` and the rest.

    A search with a limit on γ was made for one way of training and has one row.  ``limit`` is
    empty where γ was free.  ``below_line`` says whether error < (2 − γ)² with γ < 2.
    """
    import pandas as pd

    frames = []
    for path in paths:
        arrays, attributes = read_cell(path)
        need(path, arrays, (*BY_TRIAL, *BY_SEARCH, *BY_SEARCH_LAST, *BY_MODE))
        trials, searches = arrays["loss"].shape
        parameters = {name: attributes[name] for name in PARAMETERS if name in attributes}
        if "residual" in attributes:  # of connections; a column residual is that of the fit
            parameters["residual_weight"] = attributes["residual"]
        shared = {"trial": np.repeat(np.arange(trials), searches)}
        known = [*BY_TRIAL, *(name for name in LATER if name in arrays)]
        shared |= {name: np.repeat(arrays[name], searches) for name in known}
        audited = [name for name in AUDITED if name in arrays]
        searched = (*BY_SEARCH, *audited, *BY_SEARCH_LAST)
        own = {name: arrays[name].reshape(-1) for name in searched}
        for mode in MODES:
            measured = {
                "f_delta_trained": arrays[f"f_delta_{mode}"].reshape(-1),
                "error": arrays[f"err_{mode}"].reshape(-1),
                "below_line": arrays[f"below_{mode}"].reshape(-1),
            }
            frame = pd.DataFrame({**parameters, **shared, "mode": mode, **own, **measured})
            other = np.isfinite(frame["limit"]) & (frame["loss"] != f"error_{mode}")
            frames.append(frame[~other])
    table = pd.concat(frames, ignore_index=True)
    return table.assign(limit=table["limit"].where(np.isfinite(table["limit"])))
