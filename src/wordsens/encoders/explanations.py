"""Explanations of several texts, or of the windows of a long one, as one object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from wordsens.encoders.explanation import Explanation

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Explanations(Sequence[Explanation]):
    """One ``Explanation`` per window of a text, text after text."""

    windows: tuple[Explanation, ...]

    @overload
    def __getitem__(self, index: int) -> Explanation: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Explanation]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self.windows[index]

    def __len__(self) -> int:
        return len(self.windows)

    def __repr__(self) -> str:
        cut = f", {len(self)} windows" if len(self) > len(self.texts) else ""
        return f"Explanations({len(self.texts)} texts{cut})"

    @property
    def texts(self) -> list[list[Explanation]]:
        """The windows of every text."""
        return [list(group) for _, group in groupby(self.windows, key=lambda each: each.text)]

    def to_dataframe(self) -> pd.DataFrame:
        """The tables of all windows, with the columns text and window (both from 0) before them."""
        return self._together("to_dataframe")

    def flips(self) -> pd.DataFrame:
        """The words that change a window's verdict, as ``Explanation.flips`` has them."""
        return self._together("flips")

    def save(self, path: str | Path) -> Path:
        """Write the pages; returns the page to open.

        A path that ends in .html becomes one page with all texts; any other a folder with a page
        for each text and their index, index.html.
        """
        import wordsens
        from wordsens.files import write_text

        path = Path(path)
        if path.suffix == ".html":
            write_text(path, wordsens.explanation_page(self.windows))
            return path
        for name, page in wordsens.explanation_pages(self.windows).items():
            write_text(path / name, page)
        return path / "index.html"

    def _repr_html_(self) -> str:
        import wordsens

        return str(wordsens.explanation_fragment(self.windows))

    def _together(self, name: str) -> pd.DataFrame:
        import pandas as pd

        return pd.concat(list(self._tables(name)), ignore_index=True)

    def _tables(self, name: str) -> Iterator[pd.DataFrame]:
        for windows in self.texts:
            for number, window in enumerate(windows):
                table = getattr(window, name)()
                table.insert(0, "text", window.text)
                table.insert(1, "window", number)
                yield table
