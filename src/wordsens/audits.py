"""What an audit says in words: how far values are from those of a search ten times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

NOTABLE = 0.02  # share by which a longer search must find more to be a warning
# Columns that tell searches apart.
POINT = ("dataset", "map", "encoder", "weights", "vectors", "d", "n", "N", "depth", "words")
SEARCH = (*POINT, "trial", "layer", "loss", "penalty", "limit")


def sentence(largest: float, count: int, *, minimum: bool = False) -> str:
    """For captions and reports, of ``count`` audited searches; empty where there are none.

    Searches are for a maximum, or for a ``minimum``.
    """
    if not count:
        return ""
    said = f"within {largest:.1%} of a search ten times as long ({count} audited)"
    if largest <= NOTABLE:
        return said
    if minimum:
        return f"{said}: losses may be that much too high"
    return f"{said}: take more starts or steps, as values may be that much too low"


def of_table(table: pd.DataFrame) -> str:
    """The same, of a table whose column ``excess`` is NaN where a search was not audited."""
    if "excess" not in table:
        return ""
    own = [name for name in SEARCH if name in table]
    known = table[table["excess"].notna()].drop_duplicates(own)["excess"]
    largest = float(known.max()) if len(known) else 0.0
    return sentence(largest, len(known), minimum="loss" in table)
