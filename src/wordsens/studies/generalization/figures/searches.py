"""What the figures of generalization studies share: their tables, panels and the line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import style, summary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDED = ("map", "d", "n", "N", "trial", "mode", "loss", "penalty", "limit", "gamma", "error")
ROWS = {"finetuned": "fine-tuned", "retrained": "re-trained"}
LINE = r"$(2 - \gamma)^2$"
SLACK_LINE = r"$(2 - \gamma - 1/\sqrt{n})^2$"
DOTTED: dict[str, Any] = {"color": style.NEUTRAL, "lw": 0.9, "ls": ":"}
FILTERS = {"n": "n", "N": "N", "losses": "loss", "penalties": "penalty"}


def chosen(study: str, table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The rows that the options n, N, losses and penalties name; all where one is absent.

    Raises UserError for a table without a column that is needed, or with nothing left to draw.
    """
    kept = summary.whole(study, table, NEEDED)
    for option, column in FILTERS.items():
        if options.get(option):
            kept = kept[kept[column].isin(options[option])]
            if kept.empty:
                raise UserError(
                    f"table of study {study!r} has no rows with {column} in {options[option]}; "
                    f"change the figure's {option} or the study"
                )
    return kept.assign(study=study)


def grid(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, np.ndarray, list[pd.DataFrame]]:
    """Rows for fine-tuned and re-trained, a column for every study and n; the columns' data."""
    columns = [part for table in tables.values() for _, part in table.groupby("n", sort=True)]
    drawn, axes = style.panels(len(ROWS), len(columns))
    return drawn, axes, columns


def legend_beside(drawn: Figure, handles: list[Artist], columns: int) -> None:
    """One legend for all panels: at their right, or under a single column of wide titles."""
    if columns > 1:
        drawn.legend(handles=handles, loc="outside right center")
    else:
        drawn.legend(handles=handles, loc="outside lower center", ncols=2)


def name(part: pd.DataFrame) -> str:
    """A column's title."""
    short = style.short(str(part["map"].iloc[0]))
    return rf"{short}, $n = {part['n'].iloc[0]}$"


def draw_line(axes: Axes) -> None:
    """The lower bound (2 − γ)² that random features obey up to O(1/√n)."""
    gamma = np.linspace(0, 2, 101)
    axes.plot(gamma, (2 - gamma) ** 2, zorder=2.5, **(style.DASHED | {"color": "black"}))


def draw_slack(axes: Axes, n: int) -> None:
    """The line less a slack of 1/√n in the root of the error."""
    gamma = np.linspace(0, 2 - n**-0.5, 101)
    axes.plot(gamma, (2 - gamma - n**-0.5) ** 2, zorder=2.5, **DOTTED)


def clearly_below(points: pd.DataFrame) -> pd.Series:
    """Which points lie below the line by more than 1/√n in the root of the error."""
    return np.sqrt(points["error"]) < 2 - points["gamma"] - points["n"] ** -0.5


def finish(axes: Axes, mode: str, row: int, column: int, xlabel: str, ylabel: str) -> None:
    """Labels at the outer panels only."""
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    if row == len(ROWS) - 1:
        axes.set_xlabel(xlabel)
    if column == 0:
        axes.set_ylabel(f"{ylabel}, {ROWS[mode]}")
