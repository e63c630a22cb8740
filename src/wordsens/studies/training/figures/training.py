"""What word sensitivity in the loss does to small transformers trained on real texts.

Against the weight λ of word sensitivity in the loss, rewarded to the left of 0 and penalised to the
right.  Left, the sensitivity of the tokens behind the last block, before and after training; right,
the accuracy on all texts judged, on those that one word decides, and on these with the word's
opposite in its place and the other label.  Means over models with a band of one standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACCURACIES = {
    "accuracy": "all texts",
    "accuracy_decided": "decided by one word",
    "accuracy_changed": "that word changed",
}
SENSITIVITIES = {"sup_before": "before training", "sup": "after training"}
NEEDED = ("study", "weight", "trial", "flipped", "decided", *ACCURACIES, *SENSITIVITIES)


def figure(tables: Mapping[str, pd.DataFrame]) -> tuple[Figure, pd.DataFrame]:
    """Two panels per entry; returns the figure and the numbers drawn in it."""
    drawn, axes = style.panels(len(tables), 2)
    parts = []
    for row, table in zip(axes, tables.values(), strict=True):
        grouped = table.groupby(["study", "weight"])
        columns = [*SENSITIVITIES, *ACCURACIES, "flipped"]
        means = grouped[columns].mean()
        numbers = means.join(grouped[columns].std().add_suffix("_std")).reset_index()
        parts.append(numbers.assign(trials=grouped.size().to_numpy()))
        _lines(row[0], numbers, SENSITIVITIES)
        row[0].set_ylim(bottom=0)
        row[0].set_ylabel(r"word sensitivity $\mathcal{S}$ (ratio)")
        _lines(row[1], numbers, ACCURACIES)
        row[1].axhline(0.5, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
        row[1].set_ylim(0, 1)
        row[1].set_ylabel("accuracy (share of texts)")
    return drawn, pd.concat(parts, ignore_index=True)


def _lines(panel: Axes, numbers: pd.DataFrame, names: Mapping[str, str]) -> None:
    handles = []
    for look, (name, label) in zip(style.looks(len(names)), names.items(), strict=True):
        handles += style.mean_and_band(
            panel, numbers["weight"], numbers[name], numbers[f"{name}_std"], **look, label=label
        )
    # weights lie apart by factors, to both sides of 0
    small = numbers["weight"].abs()
    panel.set_xscale("symlog", linthresh=small[small > 0].min() if small.any() else 1, linscale=0.7)
    panel.set_xticks(numbers["weight"], [f"{weight:g}" for weight in numbers["weight"]])
    panel.minorticks_off()
    panel.axvline(0, color=style.NEUTRAL, lw=0.8, ls=":", zorder=1)
    panel.set_xlabel(r"weight $\lambda$ of $\mathcal{S}$ in the loss")
    panel.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def contents(table: pd.DataFrame) -> str:
    """How many models and texts there are, and what came out."""
    first = table.iloc[0]
    said = [
        f"dataset {first['dataset']}, n = {first['n']}",
        f"{table['trial'].nunique()} models of {first['depth']} blocks at every weight",
        f"trained on {first['examples']} texts, {table['decided'].mean():.0f} of those judged are "
        "decided by one word",
    ]
    for weight, rows in table.groupby("weight"):
        said.append(
            f"λ = {weight:g}: sensitivity {rows['sup_before'].mean():.2f} before and "
            f"{rows['sup'].mean():.2f} after, accuracy {rows['accuracy'].mean():.3f}, "
            f"{rows['accuracy_decided'].mean():.3f} where a word decides, "
            f"{rows['accuracy_changed'].mean():.3f} with it changed, "
            f"{rows['flipped'].mean():.3f} of verdicts flipped"
        )
    return "; ".join(said)
