"""What the blocks of a random transformer are made of, as a table's columns say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wordsens.figures import style

if TYPE_CHECKING:
    import pandas as pd


def made_of(table: pd.DataFrame) -> str:
    """The parts of an entry's blocks; where they have no parts, the map's title."""
    row = table.iloc[0]
    if "layer_norm" not in table:
        return style.title(str(row["map"]))
    parts = ["Attention" if row["attention"] == "softmax" else "ReLU attention"]
    # in a table of fits a residual is theirs
    if row["residual_weight" if "residual_weight" in table else "residual"]:
        parts.append("residual")
    if row["layer_norm"] != "none":
        parts.append("norm" if row["layer_norm"] == "after" else "norm before")
    if row["mlp"]:
        parts.append("MLP")
    return " + ".join(parts)
