"""The one error a user is meant to read."""

from __future__ import annotations

from numbers import Integral
from typing import Any


class UserError(ValueError):
    """A mistake in the input: what is wrong, where, what is allowed and what to do, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


def whole_number(name: str, value: Any, least: int | None = 1) -> int:
    """``value`` as an int of at least ``least``; else a UserError that calls it ``name``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and (least is None or int(value) >= least):
        return int(value)
    above = "" if least is None else f" of at least {least}"
    raise UserError(f"{name} = {value!r} must be a whole number{above}")
