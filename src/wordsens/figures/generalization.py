"""Test error on the changed sample against γ, a point per trial (as in the paper's Figures 4–7).

Rows for the fine-tuned and the re-trained model, a column for every map and n, and the line
(2 − γ)² that random features cannot pass.  Circles are Δ found by the losses of equation (25),
crosses by the test error itself.  Colours tell N apart; where there is one N, the penalties on γ;
where there is one of either, the two losses, which then both appear in both rows (Figure 7).
Above each panel stands how many points lie below the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import searches, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN = {
    "features": "finetuned",
    "alignment": "retrained",
    "error_finetuned": "finetuned",
    "error_retrained": "retrained",
}
NAMES = {
    "features": r"$\ell_{\theta_f}$ (145)",
    "alignment": r"$\ell_{\theta_r}$ (146)",
}
SHAPES = {"loss": ("o", r"losses of (25)"), "error": ("x", r"test error (16)")}
KEPT = [
    *("study", "map", "dataset", "d", "n", "N", "trial", "mode", "loss", "penalty"),
    *("gamma", "error", "below_line"),
]


def prepare(study: str, table: pd.DataFrame, options: Mapping[str, Any]) -> pd.DataFrame:
    """The searches to show; each loss with the training it belongs to, unless ``swapped``."""
    kept = searches.chosen(study, table, options)
    kept = kept[kept["limit"].isna() & kept["loss"].isin(OWN)]
    if not options.get("swapped"):
        kept = kept[kept["mode"] == kept["loss"].map(OWN)]
    if kept.empty:
        raise UserError(f"table of study {study!r} has none of the losses {', '.join(OWN)}")
    return kept


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Two panels per study and n; returns the figure and the points drawn in it."""
    points = pd.concat(tables.values(), ignore_index=True)
    column, values = _coloured(points)
    looks = dict(zip(values, style.looks(len(values)), strict=True))
    drawn, axes, parts = searches.grid(tables)
    top = max(4.2, 1.05 * min(8.0, points["error"].max()))
    right = max(2.1, 1.05 * min(4.0, points["gamma"].max()))
    for j, part in enumerate(parts):
        for i, mode in enumerate(searches.ROWS):
            panel = axes[i, j]
            _panel(panel, part[part["mode"] == mode], column, looks)
            panel.set_ylim(0, top)
            panel.set_xlim(0, right)
            searches.finish(panel, mode, i, j, r"$\gamma$ (difference of outputs)", "test error")
    drawn.legend(handles=_entries(points, column, looks), loc="outside right center")
    return drawn, points[[name for name in KEPT if name in points]]


def _coloured(points: pd.DataFrame) -> tuple[str, list[Any]]:
    """The column that colours tell apart, and its values in order."""
    for column in ("N", "penalty"):
        values = sorted(points[column].unique())
        if len(values) > 1:
            return column, values
    return "loss", sorted(points["loss"].unique(), key=list(OWN).index)


def _panel(axes: Axes, part: pd.DataFrame, column: str, looks: Mapping[Any, Any]) -> None:
    searches.draw_line(axes)
    counts = []
    for kind, (marker, _) in SHAPES.items():
        own = part[part["loss"].str.startswith("error") == (kind == "error")]
        if own.empty:
            continue
        sign = {"o": "○", "x": "×"}[marker]
        counts.append(f"{sign} {int(own['below_line'].sum())} of {len(own)}")
        for value, points in own.groupby(column, sort=True):
            edge = {"lw": 0.5, "edgecolor": "white"} if marker == "o" else {"lw": 1.1}
            axes.scatter(
                points["gamma"],
                points["error"],
                s=26,
                marker=marker,
                color=looks[value]["color"],
                alpha=0.85,
                zorder=3,
                **edge,
            )
    below = f"below the line: {', '.join(counts)}" if counts else ""
    title = searches.name(part) if len(part) else ""
    axes.set_title(f"{title}\n{below}", fontsize=9.5)


def _entries(points: pd.DataFrame, column: str, looks: Mapping[Any, Any]) -> list[Any]:
    def label(value: Any) -> str:
        if column == "loss":
            return NAMES.get(value, value.replace("_", ", "))
        return f"$N = {value}$" if column == "N" else f"$p = {value:g}$"

    handles = [
        style.entry(label(value), ls="", marker="o", color=look["color"])
        for value, look in looks.items()
    ]
    errors = points["loss"].str.startswith("error")
    for kind, (marker, text) in SHAPES.items():
        if (errors == (kind == "error")).any():
            handles.append(style.entry(text, ls="", marker=marker, color=style.NEUTRAL))
    handles.append(style.entry(searches.LINE, **(style.DASHED | {"color": "black"})))
    return handles
