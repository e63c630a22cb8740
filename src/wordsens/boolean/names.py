"""Names of languages, checked without loading what computes them."""

from __future__ import annotations

import re

from wordsens.errors import UserError, whole_number

NAMES = (
    *("parity", "majority", "first", "dictator-n", "sparse-parity-m", "sparse-majority-m"),
    "random",
)
_NUMBERED = re.compile(r"(dictator|sparse-parity|sparse-majority)-(\d+)")


def check_language(name: str, N: int, key: str = "language") -> None:
    """Raises a UserError where there is no language of this name on N bits."""
    whole_number("N", N)
    match = _NUMBERED.fullmatch(str(name))
    if match is None and name not in ("parity", "majority", "first", "random"):
        raise UserError(
            f"{key}: language {name!r} is not known; choose one of {', '.join(NAMES)}, with whole "
            "numbers n and m, as in sparse-parity-5"
        )
    if match is not None and not 1 <= int(match[2]) <= N:
        raise UserError(
            f"{key}: language {name} needs at least {match[2]} bits (and at least one), but N = {N}"
            if int(match[2])
            else f"{key}: language {name} reads no bit; the number must be from 1 to N = {N}"
        )
