"""Values of axes as parts of a path, written and read back exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What a wildcard of an axis may be.
PATTERNS = {
    int: r"-?[0-9]+",
    float: r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?",
    str: r"[A-Za-z0-9][A-Za-z0-9_.+-]*",
}


def spell(value: Any) -> str:
    """A value of an axis as it stands in a path: 16, 0.001, 1e-05, uniform."""
    return repr(value) if isinstance(value, float) else str(value)


def read(point: Mapping[str, str], axes: Mapping[str, type]) -> dict[str, Any]:
    """The values that a path spells, each of its axis' type."""
    return {axis: kind(point[axis]) for axis, kind in axes.items()}
