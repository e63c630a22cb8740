"""A study of layers as a tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

FIRST = ("study", "encoder", "dataset", "weights", "n")
AUDITED = ("audited", "excess")
RESULTS = ("sup", "norm", "spread", "position", "steps", "start")


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per trial and layer."""
    return {"table": layers_table(cells)}


def layers_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per trial and layer of every cell, and per position where several were searched.

    There ``sup_at_position`` is that of the position alone, and sup the largest of all.
    """
    import pandas as pd

    frames = []
    for path in paths:
        arrays, attributes = read_cell(path)
        need(path, arrays, RESULTS)
        layers = np.atleast_1d(attributes["searched"])
        trials, count = arrays["sup"].shape
        parameters = {name: attributes[name] for name in FIRST}
        values = {"depth": attributes["depth"], "trial": np.repeat(np.arange(trials), count)}
        values["sample"] = np.repeat(arrays["sample"], count)
        values["layer"] = np.tile(layers, trials)
        known = (*RESULTS, *(name for name in AUDITED if name in arrays))
        values |= {name: arrays[name].reshape(-1) for name in known}
        frame = pd.DataFrame(parameters | values)
        several = arrays.get("positions")
        if several is not None and several.shape[1] > 1:
            count = several.shape[1]
            by_position = arrays["sup_by_position"].transpose(0, 2, 1)  # trial, layer, position
            frame = frame.loc[frame.index.repeat(count)].reset_index(drop=True)
            frame["position_tried"] = several.repeat(len(layers), 0).reshape(-1)
            frame["sup_at_position"] = by_position.reshape(-1)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
