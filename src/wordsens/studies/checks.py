"""What the declarations of studies may ask of a configuration, and how they say what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

Key = tuple[str, ...]


class Checks(Protocol):
    """The configuration as it is checked; defaults are filled in."""

    filled: dict[str, Any]  # the whole configuration
    opened: dict[str, Any]  # encoders of the user's own, by name

    def say(self, key: Iterable[Any], message: str) -> None:
        """One line on the value at a key: what is wrong, what is allowed."""

    def given(self, key: Key) -> dict[str, Any]:
        """The keys that the user wrote in an entry."""

    def known(self, key: Key, value: str, section: str) -> bool:
        """Whether a section has an entry of that name; if not, it is said."""

    def texts(self, key: Key, dataset: str) -> bool:
        """Whether a dataset is known and made of texts; if not, it is said."""

    def lengths(self, key: Key, entry: dict[str, Any]) -> None:
        """No n may exceed the samples of the entry's dataset."""

    def fits(self, key: Key, entry: dict[str, Any]) -> None:
        """No d may exceed the dataset's, no cell the memory of any machine."""

    def positions(self, key: Key, entry: dict[str, Any]) -> None:
        """The positions asked for exist at every n."""

    def layers(self, key: Key, entry: dict[str, Any]) -> None:
        """Layers and lengths that the user's own encoder has."""
