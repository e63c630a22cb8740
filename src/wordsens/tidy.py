"""What results have in a notebook: a short repr, a table, and the workflow's figure of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Tidy(ABC):
    """A result that can be looked at; ``summary`` says the most important numbers in one line."""

    @abstractmethod
    def summary(self) -> str:
        """The numbers that matter, without the class's name."""

    @abstractmethod
    def to_dataframe(self) -> pd.DataFrame:
        """The result as a tidy table, its columns named as those of the workflow's tables."""

    def plot(self, **options: Any) -> Figure:
        """The figure that the workflow would draw of this result (see ``wordsens.plot``)."""
        import wordsens  # which only forwards names; what draws is imported when it is asked to

        return wordsens.plot(self, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"


def several(values: Any, digits: int = 4) -> str:
    """One number, or the range of several, for a summary."""
    listed = values.reshape(-1).tolist() if hasattr(values, "reshape") else values
    if not isinstance(listed, list):
        return f"{listed:.{digits}g}"
    if len(listed) == 1:
        return f"{listed[0]:.{digits}g}"
    known = [value for value in listed if value == value]
    if not known:
        return "nan"
    return f"{min(known):.{digits}g} to {max(known):.{digits}g}"
