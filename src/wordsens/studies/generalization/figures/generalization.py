"""Test error on the changed sample against γ, a point per trial (as in the paper's Figures 4–7).

Rows for the fine-tuned and the re-trained model, a column for every map and n, and the line
(2 − γ)² that random features cannot pass.  Circles are Δ found by the losses of equation (25),
crosses by the test error itself.  Colours tell N apart; where there is one N, the penalties on γ;
where there is one of either, the two losses, which then both appear in both rows (Figure 7).
Above each panel stands how many points lie below the line, and how many by more than the slack
1/√n that the theorems leave to random features (the dotted line).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from wordsens.errors import UserError
from wordsens.figures import style
from wordsens.studies.generalization.figures import searches

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
OUTSIDE = "^"  # hollow, at the edge of the panel that a point lies beyond
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
    right = max(2.1, 1.02 * min(4.0, points["gamma"].max()))
    top = max(4.2, 1.02 * min(8.0, points["error"].max()))
    outside = bool(((points["gamma"] > right) | (points["error"] > top)).any())
    for j, part in enumerate(parts):
        for i, mode in enumerate(searches.ROWS):
            panel = axes[i, j]
            _panel(panel, part[part["mode"] == mode], column, looks, (right, top))
            panel.set_ylim(0, top)
            panel.set_xlim(0, right)
            searches.finish(panel, mode, i, j, r"$\gamma$ (difference of outputs)", "test error")
    handles = _entries(points, column, looks)
    if outside:
        hollow: dict[str, Any] = {
            "ls": "",
            "marker": OUTSIDE,
            "markerfacecolor": "none",
            "color": style.NEUTRAL,
        }
        handles.append(style.entry("outside the panel", **hollow))
    searches.legend_beside(drawn, handles, len(parts))
    return drawn, points[[name for name in KEPT if name in points]]


def _coloured(points: pd.DataFrame) -> tuple[str, list[Any]]:
    """The column that colours tell apart, and its values in order."""
    for column in ("N", "penalty"):
        values = sorted(points[column].unique())
        if len(values) > 1:
            return column, values
    return "loss", sorted(points["loss"].unique(), key=list(OWN).index)


def _panel(
    axes: Axes,
    part: pd.DataFrame,
    column: str,
    looks: Mapping[Any, Any],
    limits: tuple[float, float],
) -> None:
    searches.draw_line(axes)
    counts, clearly = [], []
    if len(part):
        searches.draw_slack(axes, int(part["n"].iloc[0]))
    for kind, (marker, _) in SHAPES.items():
        own = part[part["loss"].str.startswith("error") == (kind == "error")]
        if own.empty:
            continue
        sign = {"o": "○", "x": "×"}[marker]
        counts.append(f"{sign} {int(own['below_line'].sum())}/{len(own)}")
        clearly.append(f"{sign} {int(searches.clearly_below(own).sum())}")
        for value, points in own.groupby(column, sort=True):
            colour = looks[value]["color"]
            inside = (points["gamma"] <= limits[0]) & (points["error"] <= limits[1])
            edge: dict[str, Any] = (
                {"lw": 0.5, "edgecolor": "white"} if marker == "o" else {"lw": 1.1}
            )
            at: dict[str, Any] = {"s": 26, "alpha": 0.85, "zorder": 3, "clip_on": False}
            shown = points[inside]
            axes.scatter(shown["gamma"], shown["error"], marker=marker, color=colour, **at, **edge)
            beyond = points[~inside]
            axes.scatter(
                beyond["gamma"].clip(upper=limits[0]),
                beyond["error"].clip(upper=limits[1]),
                marker=OUTSIDE,
                facecolor="none",
                edgecolor=colour,
                **at,
            )
    if counts:
        below = rf"below: {', '.join(counts)}; by over $1/\sqrt{{n}}$: {', '.join(clearly)}"
        axes.set_title(f"{searches.name(part)}\n{below}", fontsize=9.5)


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
    handles.append(style.entry(searches.SLACK_LINE, **searches.DOTTED))
    return handles
