"""Sensitivity spectra of random transformers (as in the Boolean paper's Figures 3 and 4).

A column per initialisation: above the share of strings that have a sensitivity, in the mean over
models and on a log scale; below how many models have an average sensitivity, on a log scale too.
Circles are what a uniformly random function has in the mean, and the dashed line is its average.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wordsens.boolean.sampling import exact_interval
from wordsens.figures import style
from wordsens.figures.spectra import Spectrum, draw_spectra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDED = ("init", "N", "epsilon", "trial", "average", "strings", "sensitivity", "count", "exact")
TITLES = {
    "uniform": "uniform",
    "gaussian": "Gaussian",
    "xavier-uniform": "Xavier uniform",
    "xavier-normal": "Xavier normal",
}


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """A column per entry, initialisation, N and ε; returns the figure and the numbers in it."""
    columns = []
    for table in tables.values():
        for (init, N, epsilon), rows in table.groupby(["init", "N", "epsilon"], sort=False):
            title = f"{TITLES[init]}, $N = {N}$"
            if table["epsilon"].nunique() > 1:
                title += rf", $\epsilon = {epsilon:g}$"
            random = np.array([comb(N, s) / 2**N for s in range(N + 1)])
            groups = [("", rows, style.COLOURS[0])]
            columns.append(Spectrum(title, groups, N, random, N / 2, "random function"))
    return draw_spectra(columns)


def contents(table: pd.DataFrame) -> str:
    """How many models, and the share of their strings that have sensitivity 0."""
    parts = []
    for (init, N, epsilon), rows in table.groupby(["init", "N", "epsilon"], sort=False):
        models, counted = rows["trial"].nunique(), rows[rows["sensitivity"] >= 0]
        zero = counted[counted["sensitivity"] == 0]
        every = counted.drop_duplicates("trial")["strings"]
        share = zero["count"].sum() / every.sum()
        constant = int((zero["count"] == zero["strings"]).sum())
        low, high = exact_interval(constant, models)
        of = "of all strings" if rows["exact"].all() else f"of {int(every.iloc[0])} strings a model"
        part = (
            f"{init}, N = {N}, ε = {epsilon:g}: {share:.4g} {of} have sensitivity 0 over {models} "
            f"models, of which {constant} show no other ({low:.2f} to {high:.2f} at 95%)"
        )
        unclassified = rows.loc[rows["sensitivity"] < 0, "count"].sum()
        parts.append(part + (f"; {unclassified} strings unclassified" if unclassified else ""))
    return "; ".join(parts)
