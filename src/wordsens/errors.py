"""The one error a user is meant to read."""

from __future__ import annotations


class UserError(ValueError):
    """A mistake in the input: what is wrong, where, what is allowed and what to do, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))
