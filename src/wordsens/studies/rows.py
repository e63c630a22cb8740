"""Tables of cells that hold rows of their own: an entry's parameters beside every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd

# What says how a file was made and nothing about its rows.
_ASIDE = ("complete", "schema_version", "code", "device", "threads", "seed", "trials")


def rows_table(
    paths: Iterable[str | Path], needed: Sequence[str], first: Sequence[str] = ("study",)
) -> pd.DataFrame:
    """The rows of all cells: parameters first, those named ``first`` before the others."""
    import pandas as pd

    frames = []
    for path in paths:
        arrays, attributes = read_cell(path)
        need(path, arrays, needed)
        parameters = {
            name: value
            for name, value in attributes.items()
            if name not in (*_ASIDE, *arrays) and not name.startswith("version_")
        }
        ordered = {name: parameters[name] for name in first if name in parameters} | parameters
        rows = len(arrays[needed[0]])
        ordered = {name: [value] * rows for name, value in ordered.items()}
        frames.append(pd.DataFrame(ordered | {name: arrays[name] for name in needed}))
    return pd.concat(frames, ignore_index=True)
