"""An entry of explanations as a tidy table, and as pages to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wordsens.encoders.explanations import Explanations
from wordsens.encoders.page import explanation_pages
from wordsens.encoders.stored import from_json
from wordsens.errors import UserError
from wordsens.results import need, read_cell

if TYPE_CHECKING:
    import pandas as pd


def tables(cells: Sequence[str]) -> dict[str, Any]:
    """One row per position, target, kind of change and rank; a page for each text, and an index."""
    found, first = explanations(cells)
    table = found.to_dataframe()
    for place, (name, value) in enumerate(first.items()):
        table.insert(place, name, value)
    return {"table": table, "pages": explanation_pages(found.windows)}


def explanations(cells: Sequence[str]) -> tuple[Explanations, dict[str, Any]]:
    """What the cells of an entry hold, and what they share: study, encoder or model."""
    windows = []
    attributes: dict[str, Any] = {}
    for path in cells:
        arrays, attributes = read_cell(path)
        need(path, arrays, ["explanation"])
        if arrays["explanation"][0]:
            windows.append(from_json(str(arrays["explanation"][0])))
    if not windows:
        raise UserError(f"explanations.{attributes.get('study')}: no text has any tokens")
    windows.sort(key=lambda each: (each.text, each.start))
    subject = "encoder" if "encoder" in attributes else "model"
    return Explanations(tuple(windows)), {name: attributes[name] for name in ("study", subject)}


def flips(cells: Sequence[str]) -> pd.DataFrame:
    """The words that change a window's verdict, as far as cells keep them."""
    return explanations(cells)[0].flips()
