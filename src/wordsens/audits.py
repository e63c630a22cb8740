"""What an audit says in words: how far values lie below those of a search ten times as long."""

from __future__ import annotations

from collections.abc import Sequence

NOTABLE = 0.02  # share by which a longer search must find more to be a warning


def sentence(largest: float, count: int) -> str:
    """For captions and reports, of ``count`` audited trials; empty where there are none."""
    if not count:
        return ""
    said = f"within {largest:.1%} of a search ten times as long ({count} audited)"
    if largest <= NOTABLE:
        return said
    return f"{said}: take more starts or steps, as values may be that much too low"


def of_table(excess: Sequence[float]) -> str:
    """The same, of a column of a table in which a trial that was not audited has NaN."""
    known = [value for value in excess if value == value]
    return sentence(max(known, default=0.0), len(known))
