"""Sensitivity spectra of trained transformers (as in the Boolean paper's Figures 3 and 5 to 7).

A column per language: above the share of strings that have a sensitivity, in the mean over models
and on a log scale; below how many models have an average sensitivity, on a log scale too. Models
that have learnt the language and models that have not stand side by side. Circles are the
language's own profile, a random function's in the mean, and the dashed line is its average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.boolean.languages import language, random_function_counts
from wordsens.figures import style
from wordsens.figures.spectra import Spectrum, draw_spectra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDED = (
    *("language", "N", "trial", "average", "strings", "sensitivity", "count"),
    *("learnt", "accuracy", "target"),
)


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A column per entry and language; returns the figure and the numbers drawn in it."""
    columns = []
    for table in tables.values():
        for (name, N), rows in table.groupby(["language", "N"], sort=False):
            groups = [
                (said, rows[rows["learnt"] == learnt], colour)
                for said, learnt, colour in (
                    ("learnt", True, style.COLOURS[0]),
                    ("not learnt", False, style.COLOURS[1]),
                )
                if (rows["learnt"] == learnt).any()
            ]
            counts = language(name, N).counts or random_function_counts(N)
            own = np.array([count / 2**N for count in counts])
            average = float(rows["target"].iloc[0])
            columns.append(
                Spectrum(f"{_title(name)}, $N = {N}$", groups, N, own, average, "language")
            )
    return draw_spectra(columns)


def _title(name: str) -> str:
    if name == "random":
        return "Random labels"
    kind, _, number = name.rpartition("-")
    words = kind.removeprefix("sparse-")
    if kind.startswith("sparse-"):
        return f"{number}-sparse {words}"
    return name.capitalize() if not kind else f"Dictator {number}"


def contents(table: pd.DataFrame) -> str:
    """How many models learnt what, and how well."""
    parts = []
    for (name, N), rows in table.groupby(["language", "N"], sort=False):
        models = rows.drop_duplicates("trial")
        accuracy = models["accuracy"]
        parts.append(
            f"{name}, N = {N}: {int(models['learnt'].sum())} of {len(models)} models have learnt it"
            f" (accuracies {accuracy.min():.3f} to {accuracy.max():.3f}); average sensitivity "
            f"{models['average'].mean():.3g}, where the language has {models['target'].iloc[0]:.3g}"
        )
    return "; ".join(parts)
