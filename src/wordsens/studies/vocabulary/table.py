"""The top substitutions of a vocabulary study: as a tidy table, and as a page to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.results import need, read_cell, trials_table
from wordsens.studies.vocabulary.lists import LISTS

if TYPE_CHECKING:
    import pandas as pd

PARAMETERS = ("study", "map", "dataset", "vectors", "candidates", "candidate_count", "d", "n")
COLUMNS = ("position", "word", "new", "change", "distance", "context")
READ = 5  # substitutions of a list on the page


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per trial; and the top substitutions as a table and as a page."""
    words = words_table(cells)
    return {"table": trials_table(cells), "words": words, "page": page(words)}


def words_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per trial, list and rank: which word became which, where, and what it did.

    ``list`` is top, over all candidates, or top_in_ball, over those with ‖e_v − x_i‖ ≤ √d;
    ``distance`` is ‖e_v − x_i‖/√d and ``in_ball`` whether it is at most 1.
    """
    import pandas as pd

    frames = []
    for path in paths:
        arrays, attributes = read_cell(path)
        need(path, arrays, [f"{which}_{name}" for which in LISTS for name in COLUMNS])
        parameters = {name: attributes[name] for name in PARAMETERS if name in attributes}
        for which in LISTS:
            trials, size = arrays[f"{which}_change"].shape
            values = {name: arrays[f"{which}_{name}"].reshape(-1) for name in COLUMNS}
            frame = pd.DataFrame(
                {
                    **parameters,
                    "trial": np.repeat(np.arange(trials), size),
                    "sample": np.repeat(arrays["sample"], size),
                    "list": which,
                    "rank": np.tile(np.arange(1, size + 1), trials),
                    **values,
                }
            )
            frames.append(frame[np.isfinite(frame["change"])])
    table = pd.concat(frames, ignore_index=True)
    inside = table["distance"] <= 1 + 1e-6  # float32 distances on the sphere itself
    table.insert(table.columns.get_loc("context"), "in_ball", inside)
    return table


def page(table: pd.DataFrame) -> str:
    """The largest changes of every cell's first trial as Markdown."""
    study, name = table["study"].iloc[0], table["map"].iloc[0]
    lines = [
        f"# {study}",
        "",
        f"Relative change of the features of `{name}` when one word is replaced, "
        f"{table['candidate_count'].iloc[0]:,} candidates, `{table['vectors'].iloc[0]}` vectors; "
        f"the {READ} largest changes of the first trial. Distance is ‖e_v − x_i‖/√d; "
        "the second table of each size keeps to distances of at most 1.",
    ]
    first = table[(table["trial"] == 0) & (table["rank"] <= READ)]
    for (d, n), cell in first.groupby(["d", "n"], sort=True):
        lines += ["", f"## n = {n}, d = {d}"]
        for which, title in zip(LISTS, ("Any word", "Inside the ball"), strict=True):
            lines += ["", *_rows(title, cell[cell["list"] == which])]
    return "\n".join(lines) + "\n"


def _rows(title: str, part: pd.DataFrame) -> Iterator[str]:
    yield f"| {title}: in context | position | new word | change | distance |"
    yield "|---|--:|---|--:|--:|"
    for row in part.itertuples():
        shown = [_quoted(row.context), str(row.position), _quoted(row.new)]
        numbers = [f"{row.change:.4f}", f"{row.distance:.3f}"]
        yield "| " + " | ".join([*shown, *numbers]) + " |"


def _quoted(text: str) -> str:
    """Text that is no Markdown: its word in [[ ]] is set bold, and signs mean themselves."""
    safe = "".join(f"\\{c}" if c in "\\`*_{}<>#|~" else c for c in text)
    return safe.replace("[[", "**").replace("]]", "**")
