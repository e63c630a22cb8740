"""Explanations of a text, drawn for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import pandas as pd

from wordsens.figures import style
from wordsens.figures.text import fonts, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def explanation(found: Any, axes: Axes | None, target: str | None = None) -> Axes:
    """A bar for each word: the largest change of a target, by default the last."""
    target = target or found.targets[-1]
    most = [float(every.max(initial=0)) for every in found.changes(target)]
    pieces = [found.pieces[row] for row in found.positions]
    with style.context(), fonts([pd.DataFrame({"piece": pieces})], "explanation"):
        if axes is None:
            axes = plt.subplots(figsize=(max(4, 0.35 * len(most)), 3))[1]
        places = range(len(most))
        axes.bar(places, most, color=style.COLOURS[0], label="real words")
        if target in found.sup:
            any_delta: dict[str, Any] = {"color": style.COLOURS[1], "label": r"any $\Delta$"}
            axes.plot(places, found.sup[target], "o", **any_delta)
            axes.legend()
        axes.set_xticks(places, [shown(piece) for piece in pieces], rotation=90)
        axes.set_ylabel(f"relative change of {target}")
    return axes
