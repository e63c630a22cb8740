"""Figures, drawn from the tables of a run.

``draw`` writes a figure three times: as vector PDF, as PNG, and as the CSV of the numbers it
shows.  A kind is one module of this package with a function ``figure(tables)`` that returns the
drawn figure and those numbers.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.errors import UserError
from wordsens.files import replacing

if TYPE_CHECKING:
    import pandas as pd

# Named by module, so that asking for the kinds does not import Matplotlib.
KINDS = {
    "context_length": "wordsens.figures.context_length",
    "words": "wordsens.figures.words",
    "positions": "wordsens.figures.positions",
    "generalization": "wordsens.figures.generalization",
    "tradeoff": "wordsens.figures.tradeoff",
    "change": "wordsens.figures.change",
    "vocabulary": "wordsens.figures.vocabulary",
    "layers": "wordsens.figures.layers",
    "attraction": "wordsens.figures.attraction",
    "attention": "wordsens.figures.attention",
    "prompts": "wordsens.figures.prompts",
}


def draw(
    kind: str, tables: Mapping[str, pd.DataFrame], options: Mapping[str, Any], stem: str | Path
) -> list[Path]:
    """Draw the tables and write ``stem.pdf``, ``stem.png`` and ``stem.csv``; returns their paths.

    ``tables`` maps a sweep's name to its tidy table, one row per trial (and position, where a
    sweep visits several).  ``options["sweeps"]`` gives the order of the panels; without it they
    stand in the order of ``tables``; ``options["title"]`` stands above them.  Raises UserError
    for an unknown kind, a sweep without table, and a table that is empty or lacks a column.
    """
    if kind not in KINDS:
        raise UserError(f"figure kind {kind!r}: allowed are {', '.join(KINDS)}")
    order = options.get("sweeps") or list(tables)
    missing = [name for name in order if name not in tables]
    if missing:
        raise UserError(f"figure {Path(stem).name}: there is no table of sweep {missing[0]!r}")

    import matplotlib as mpl

    mpl.use("Agg")
    from wordsens.figures import style, summary, text
    from wordsens.figures.single import show_single_points

    module = importlib.import_module(KINDS[kind])
    chosen = {}
    for name in order:
        if hasattr(module, "prepare"):  # kinds with options of their own
            chosen[name] = module.prepare(name, tables[name], options)
        elif hasattr(module, "NEEDED"):  # kinds with tables of their own
            chosen[name] = summary.whole(name, tables[name], module.NEEDED)
        else:
            chosen[name] = summary.checked(name, tables[name])
    with style.context(), text.fonts(chosen.values(), f"figure {Path(stem).name}"):
        figure, numbers = module.figure(chosen)
        show_single_points(figure)
        if options.get("title"):
            figure.suptitle(options["title"])
        return _write(figure, numbers, Path(stem))


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
