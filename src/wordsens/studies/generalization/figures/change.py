"""|f(X^i(Δ)) − f(X)| of the re-trained model against √(N/n) (Appendix E, equation (144)).

Δ is searched to make the difference as large as it can be.  A point per trial, a colour per n,
and a line proportional to √(N/n) through the middle of them: where N is small against n, random
features cannot tell the two samples apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import style
from wordsens.studies.generalization.figures import searches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = ["study", "map", "dataset", "d", "n", "N", "trial", "ratio", "change"]


def prepare(study: str, table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The searches for the largest change."""
    kept = searches.chosen(study, table, {k: options.get(k) for k in ("n", "N")})
    kept = kept[(kept["loss"] == "change") & (kept["mode"] == "retrained") & kept["limit"].isna()]
    if kept.empty:
        raise UserError(f"study {study!r} did not search for the loss 'change'; add it to losses")
    return kept.assign(ratio=np.sqrt(kept["N"] / kept["n"]))


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """One panel per study; returns the figure and the points drawn in it."""
    drawn, axes = style.panels(1, len(tables))
    for panel, table in zip(axes[0], tables.values(), strict=True):
        style.logarithmic(panel, "x")
        style.logarithmic(panel, "y")
        lengths = sorted(table["n"].unique())
        handles = []
        for look, n in zip(style.looks(len(lengths)), lengths, strict=True):
            points = table[table["n"] == n]
            panel.scatter(points["ratio"], points["change"], s=14, alpha=0.5, lw=0, **look)
            means = points.groupby("ratio")["change"].mean()
            handles += panel.plot(means.index, means, **look, label=f"$n = {n}$")
        scale = (table["change"] / table["ratio"]).median()
        ends = np.array([table["ratio"].min(), table["ratio"].max()])
        line = style.DASHED | {"color": "black", "label": r"$\propto \sqrt{N/n}$"}
        handles += panel.plot(ends, scale * ends, zorder=1, **line)
        panel.set_title(style.title(str(table["map"].iloc[0])))
        panel.set_xlabel(r"$\sqrt{N/n}$")
        panel.set_ylabel(r"largest $|f(X^i(\Delta)) - f(X)|$, re-trained")
        style.legend_below(panel, handles)
    points = pd.concat(tables.values(), ignore_index=True)
    return drawn, points[[name for name in KEPT if name in points]]
