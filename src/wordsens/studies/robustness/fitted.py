"""Exponents of input sensitivity beside the theory's, from the table of a study.

Against parameters p at fixed N and d, S² = (a p^s)² + b²: with E ϕ' = 0 (every even ϕ) theory has
s = −1/2, that is √(nd/p), and the fit also says where it meets the floor b.  With E ϕ' ≠ 0 nothing
falls and one power law is fitted, of exponent 0.  Against samples N one power law is fitted: theory
has 1/2 for tangent features with an even ϕ, and at least 1/6 for random ones with E ϕ' ≠ 0.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from wordsens.robustness.fits import NONE, Estimate, knee, slope
from wordsens.robustness.limits import ZERO


def fitted(table: pd.DataFrame) -> pd.DataFrame:
    """One row per activation and sweep against p or N, exponents with their 95 % intervals."""
    rows = []
    for against, fixed in (("parameters", ["N", "d"]), ("N", ["width"])):
        for key, points in table.groupby(["activation", *fixed], sort=False):
            if points[against].nunique() > 2 and (against == "N" or points["d"].nunique() == 1):
                at = dict(zip(["activation", *fixed], key, strict=True))
                rows.append(_row(points, against, at))
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = [
    *("study", "features", "dataset", "activation", "parity", "mean_slope", "against"),
    *("N", "d", "width", "exponent", "exponent_low", "exponent_high", "theory"),
    *("factor", "floor", "floor_low", "floor_high", "knee"),
]


def _row(points: pd.DataFrame, against: str, at: dict[str, Any]) -> dict[str, Any]:
    first = points.iloc[0]
    named = {name: first[name] for name in COLUMNS[:6] if name in first}
    x, S = points[against].to_numpy(), points["sensitivity"].to_numpy()
    few = bool((points["N"] <= points["d"]).all())
    centred = abs(first["mean_slope"]) < ZERO
    floor: Estimate = NONE
    meets, factor = float("nan"), float("nan")
    if against == "parameters" and centred:
        found = knee(x, S)
        exponent, floor, meets = found.exponent, found.floor, found.knee
        factor = found.factor.value
        if not (floor.high / max(floor.low, 1e-300) < 100):  # no floor within reach
            exponent, floor, meets, factor = slope(x, S), NONE, float("nan"), float("nan")
    else:
        exponent = slope(x, S)
    return {
        **named,
        "against": against,
        **{name: at.get(name) for name in ("N", "d", "width")},
        "exponent": exponent.value,
        "exponent_low": exponent.low,
        "exponent_high": exponent.high,
        "theory": theory(first["features"], bool(centred), against, few),
        "factor": factor,
        "floor": floor.value,
        "floor_low": floor.low,
        "floor_high": floor.high,
        "knee": meets,
    }


def theory(features: str, centred: bool, against: str, few: bool) -> str:
    """The exponent that the talk gives, or what its bound says of it; empty where there is none.

    Theorems have n of at most the order of d: ``few`` samples.
    """
    if against == "parameters" and not few:
        return ""
    if against == "parameters":
        return ("−1/2" if features == "ntk" else "") if centred else "0"
    if features == "ntk":
        return "1/2" if centred else ""
    return "" if centred else "≥ 1/6"
