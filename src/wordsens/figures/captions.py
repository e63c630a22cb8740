"""A figure's caption in words: what its kind shows, and what these tables hold.

The first part is the description of the figure's own module, so that a new kind brings its caption
along; the second is read off the tables: map or encoder, data, sizes, trials, how far bounds lie.
A function ``remark(tables)`` of the module may add a paragraph of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wordsens.audits import of_table
from wordsens.files import write_text

if TYPE_CHECKING:
    import pandas as pd

AXES = {"d": "d", "n": "n", "N": "N", "depth": "depth", "words": "words changed"}
SUBJECTS = ("map", "encoder", "model", "weights", "dataset")
LISTED = 8  # more values than that are given as a range


def caption(
    kind: ModuleType, tables: Mapping[str, pd.DataFrame], options: Mapping[str, Any]
) -> str:
    """One paragraph on the kind and one per table, in the order of the panels; plain text."""
    described = (kind.__doc__ or "").strip()
    paragraphs = [" ".join(part.split()) for part in described.split("\n\n")]
    order = options.get("sweeps") or list(tables)
    contents = getattr(kind, "contents", _contents)  # a kind may know better what its tables hold
    paragraphs += [f"{name}: {contents(_shown(tables[name], options))}." for name in order]
    if hasattr(kind, "remark"):  # what a kind of figure reads off all its tables
        paragraphs.append(kind.remark({name: tables[name] for name in order}))
    return "\n\n".join(paragraphs) + "\n"


def write_caption(
    kind: ModuleType,
    tables: Mapping[str, pd.DataFrame],
    options: Mapping[str, Any],
    path: str | Path,
) -> None:
    """Write ``caption`` as reStructuredText for the report, beside its final name first."""
    write_text(path, _escaped(caption(kind, tables, options)))


def _escaped(text: str) -> str:
    """Nothing in the text is markup, to reStructuredText or to the report's templates."""
    text = re.sub(r"([\\*|_])", r"\\\1", text.replace("`", ""))
    return re.sub(r"\{(?=[{%#])", r"{\\ ", text)


def _shown(table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The rows that a figure restricted to some n or N shows."""
    for axis in ("n", "N"):
        if options.get(axis) and axis in table:
            table = table[table[axis].isin(options[axis])]
    return table


def _contents(table: pd.DataFrame) -> str:
    parts = [f"{what} {_listed(list(table[what].unique()))}" for what in SUBJECTS if what in table]
    axes = [axis for axis in AXES if axis in table]
    for axis in axes:
        values = sorted(table[axis].unique())
        if axis not in ("depth", "words") or values != [1]:
            parts.append(f"{AXES[axis]} = {_listed(values)}")
    if "trial" in table and axes:
        trials = table.groupby(axes)["trial"].nunique()
        parts.append(f"{_listed(sorted(set(trials)))} trials at each point")
        parts += _texts(table, axes)
    if "sup" in table and table["sup"].isna().any():
        parts.append(f"{table['sup'].isna().sum()} of all left out, where no feature is left of X")
    if "sup" in table:
        parts.append(
            f"word sensitivity found from {table['sup'].min():.3g} to {table['sup'].max():.3g}"
        )
    if "sup" in table and "bound" in table:
        known = table[table["bound"].notna()]
        ratio = (known["bound"] / known["sup"]).mean()
        parts.append(
            f"upper bounds on average {ratio:.2f} times the value found"
            if len(known)
            else "no upper bound is known"
        )
    if said := of_table(table):
        parts.append(said)
    if "loss" in table:
        parts.append(f"searches for {', '.join(dict.fromkeys(table['loss']))}")
    return "; ".join(parts)


def _texts(table: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """How many texts the trials of a point have, where some share one; −1 is a drawn sample."""
    if "sample" not in table or (table["sample"] < 0).any():
        return []
    point = table.groupby(list(axes))
    texts = point["sample"].nunique()
    if (texts == point["trial"].nunique()).all():
        return []
    return [f"on {_listed(sorted(set(texts)))} different text{'s' * bool((texts > 1).any())}"]


def _listed(values: Sequence[Any]) -> str:
    if len(values) > LISTED:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return ", ".join(map(str, values))
