"""Figures, drawn from the tables of a run.

``draw`` writes a figure three times: as vector PDF, as PNG, and as the CSV of the numbers it
shows.  A kind of figure is a module in the folder ``figures`` of its kind of study, with a function
``figure(tables)`` that returns the drawn figure and those numbers.  Before that, a function
``prepare(name, table, options)`` may choose what a figure's own options ask for, and ``NEEDED``
names the columns that must be there; without either the tables are those of a sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wordsens.errors import UserError
from wordsens.files import replacing

if TYPE_CHECKING:
    import pandas as pd


def draw(
    kind: ModuleType,
    tables: Mapping[str, pd.DataFrame],
    options: Mapping[str, Any],
    stem: str | Path,
) -> list[Path]:
    """Draw the tables and write ``stem.pdf``, ``stem.png`` and ``stem.csv``; returns their paths.

    ``kind`` is the module of a kind of figure, ``tables`` maps an entry's name to its tidy table.
    ``options["sweeps"]`` gives the order of the panels; without it they stand in the order of
    ``tables``; ``options["title"]`` stands above them.  Raises UserError for an entry without
    table, and a table that is empty or lacks a column.
    """
    with drawing(kind, tables, options, Path(stem).name) as (figure, numbers):
        return _write(figure, numbers, Path(stem))


@contextmanager
def drawing(
    kind: ModuleType, tables: Mapping[str, pd.DataFrame], options: Mapping[str, Any], name: str
) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The figure and its numbers, in the style of all figures; see ``draw``."""
    order = options.get("sweeps") or list(tables)
    missing = [entry for entry in order if entry not in tables]
    if missing:
        raise UserError(f"figure {name}: there is no table of {missing[0]!r}")

    from wordsens.figures import style, summary, text
    from wordsens.figures.single import show_single_points

    chosen = {}
    for entry in order:
        if hasattr(kind, "prepare"):  # kinds with options of their own
            chosen[entry] = kind.prepare(entry, tables[entry], options)
        elif hasattr(kind, "NEEDED"):  # kinds with tables of their own
            chosen[entry] = summary.whole(entry, tables[entry], kind.NEEDED)
        else:
            chosen[entry] = summary.checked(entry, tables[entry])
    with style.context(), text.fonts(chosen.values(), f"figure {name}"):
        figure, numbers = kind.figure(chosen)
        show_single_points(figure)
        if options.get("title"):
            figure.suptitle(options["title"])
        yield figure, numbers


def _write(figure: Any, numbers: pd.DataFrame, stem: Path) -> list[Path]:
    """Each of the files whole or not at all."""
    import matplotlib.pyplot as plt

    written = []
    for ending in ("pdf", "png", "csv"):
        final = stem.with_name(f"{stem.name}.{ending}")
        with replacing(final) as part:
            if ending == "csv":
                numbers.to_csv(part, index=False)
            else:
                # Without the date, the same numbers give the same bytes.
                dated = {"CreationDate": None} if ending == "pdf" else {}
                figure.savefig(part, dpi=200, metadata=dated)
        written.append(final)
    plt.close(figure)
    return written
