"""Sensitivity profiles: how many strings have which sensitivity (Definition 2.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wordsens.boolean.sampling import exact_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """K_0 … K_N of a Boolean function of N bits.

    ``counts`` (N + 1,) are whole numbers of strings, Python's own where 2^N exceeds 64 bits.
    ``exact`` profiles count all 2^N strings; else ``counts`` is of sampled strings, and minimum and
    maximum are those of the sample.  ``unclassified`` strings lie inside a recogniser's margin and
    are in none of the counts.
    """

    name: str
    counts: np.ndarray
    exact: bool = True
    unclassified: int = 0

    @classmethod
    def of(
        cls, name: str, counts: Sequence[int], *, exact: bool = True, unclassified: int = 0
    ) -> Profile:
        whole = [int(count) for count in counts]
        fits = sum(whole) < 2**63
        values = np.array(whole, dtype=np.int64 if fits else object)
        return cls(name, values, exact, int(unclassified))

    def __repr__(self) -> str:
        kind = "exact" if self.exact else f"{self.strings} strings"
        words = f"{self.name}, N={self.N}, {kind}, average={self.average:.4g}, "
        words += f"minimum={self.minimum}, maximum={self.maximum}"
        if self.unclassified:
            words += f", unclassified={self.unclassified}"
        return f"Profile({words})"

    @property
    def N(self) -> int:
        return len(self.counts) - 1

    @cached_property
    def strings(self) -> int:
        """Strings counted."""
        return int(sum(int(count) for count in self.counts))

    @cached_property
    def average(self) -> float:
        """as_N (3); nan where no string is classified."""
        total = sum(s * int(count) for s, count in enumerate(self.counts))
        return total / self.strings if self.strings else float("nan")

    @cached_property
    def maximum(self) -> int | None:
        """maxs_N (4)."""
        return max(self._present(), default=None)

    @cached_property
    def minimum(self) -> int | None:
        """mins_N (5)."""
        return min(self._present(), default=None)

    @cached_property
    def shares(self) -> np.ndarray:
        """K_s over the strings counted: (N + 1,)."""
        return np.array([int(count) / max(self.strings, 1) for count in self.counts])

    def intervals(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Low and high ends of exact binomial intervals for the shares of all strings.

        The shares themselves where the profile is exact.
        """
        if self.exact:
            return self.shares, self.shares
        return exact_interval(self.counts.astype(float), self.strings, confidence)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per sensitivity: its count, share and 95% interval."""
        import pandas as pd

        low, high = self.intervals()
        columns = {"sensitivity": np.arange(self.N + 1), "count": self.counts}
        return pd.DataFrame(columns | {"share": self.shares, "low": low, "high": high})

    def plot(self, axes: Axes | None = None) -> Axes:
        """The profile as bars on a log scale, with 95% intervals where it is sampled."""
        import wordsens  # which only forwards names, so that no cell depends on figures

        return wordsens.plot(self, axes=axes)

    def _present(self) -> list[int]:
        return [s for s, count in enumerate(self.counts) if count]
