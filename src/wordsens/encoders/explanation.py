"""What ``explain`` found, as an object: tables, a coloured text, a page, a figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

OUTPUT = "output"


@dataclass(frozen=True, repr=False)
class Explanation:
    """What each word of one text, or of one window of a longer text, can do to a model.

    pieces     the window's word pieces, as they are shown
    positions  those that were tried, in the window
    depth, causal   the number of layers; whether a word reaches only what comes after it
    sup        by layer or "output", the largest change found with any ‖Δ‖ ≤ ‖x_i‖, (P,)
    replaced   of every position: word, change (W, L+1), distance, and of a model with an output
               also output, verdict, and the logits (log-probabilities of next tokens) old_after,
               new_after and new_before of the verdicts
    named      the words by their token ids
    labels, kind, logits   the output's classes or tokens, "classes" or "next_token", and logits
               of classes, log-probabilities of tokens
    tried      which words ran: "all", or how many of how many
    model      what the model is called
    text, start, of   the text's number; the tokens before the window; those of the text, if more
    head       where the output is no head of the model's own, what it is
    flipped    how many words changed the verdict, where not all of them are kept
    """

    pieces: list[str]
    positions: list[int]
    depth: int
    causal: bool
    sup: dict[str, np.ndarray]
    replaced: list[dict[str, np.ndarray]]
    named: dict[int, str]
    labels: list[str]
    kind: str | None
    logits: np.ndarray | None
    tried: str
    top: int
    effort: str
    model: str = ""
    text: int = 0
    start: int = 0
    of: int = 0
    head: str = ""
    flipped: int | None = None

    def __repr__(self) -> str:
        shown = f", {self.kind} {self.verdict!r}" if self.kind else ""
        return f"Explanation({len(self.positions)} words, {self.depth} layers{shown})"

    @property
    def tokens(self) -> int:
        """The tokens of the whole text."""
        return self.of or len(self.pieces)

    @property
    def targets(self) -> list[str]:
        """What is moved: "layer 0" … "layer L", and "output" where there is one."""
        layers = [f"layer {layer}" for layer in range(self.depth + 1)]
        return [*layers, *([OUTPUT] if self.kind else [])]

    @property
    def verdict(self) -> str | None:
        """The class, or the next token, that the unchanged text gets."""
        return None if self.logits is None else self.labels[int(self.logits.argmax())]

    def changes(self, target: str) -> list[np.ndarray]:
        """The change of a target by every word that ran, position by position."""
        if target == OUTPUT:
            return [part["output"] for part in self.replaced]
        return [part["change"][:, int(target.split()[1])] for part in self.replaced]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per position, target, kind of change and rank; positions count the whole text.

        Columns: position, piece, target, by ("any Δ" or "real word"), rank, new, change, distance
        (in units of the word vector's own length), verdict.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for target in self.targets:
            for at, (row, every) in enumerate(
                zip(self.positions, self.changes(target), strict=True)
            ):
                first = {"position": self.start + row, "piece": self.pieces[row], "target": target}
                if target in self.sup:
                    change = float(self.sup[target][at])
                    rows.append(first | {"by": "any Δ", "rank": 1, "change": change})
                for rank, index in enumerate(np.argsort(-every, kind="stable")[: self.top], 1):
                    rows.append(
                        first | {"by": "real word", "rank": rank} | self._word(at, index, every)
                    )
        columns = ["position", "piece", "target", "by", "rank", "new", "change", "distance"]
        return pd.DataFrame(rows, columns=[*columns, "verdict"])

    def flips(self) -> pd.DataFrame:
        """The single words that change the verdict, those that do so most clearly first.

        Columns: position, piece, new, distance, verdict, becomes, and the two verdicts' logits
        before and after (of next tokens, log-probabilities): verdict_before, verdict_after,
        becomes_before, becomes_after.
        """
        import pandas as pd

        columns = ["position", "piece", "new", "distance", "verdict", "becomes", "verdict_before"]
        columns += ["verdict_after", "becomes_before", "becomes_after"]
        rows = []
        if self.logits is not None:
            first = int(self.logits.argmax())
            own = self.logits
            for row, part in zip(self.positions, self.replaced, strict=True):
                for index in np.flatnonzero(part["verdict"] != first):
                    values = [own[first], part["old_after"][index]]
                    values += [part["new_before"][index], part["new_after"][index]]
                    names = [self.pieces[row], self.named[int(part["word"][index])]]
                    verdicts = [self.labels[first], self.labels[int(part["verdict"][index])]]
                    distance = float(part["distance"][index])
                    rows.append(
                        [self.start + row, *names, distance, *verdicts, *map(float, values)]
                    )
        table = pd.DataFrame(rows, columns=columns)
        lead = table["becomes_after"] - table["verdict_after"]
        return table.loc[lead.sort_values(ascending=False, kind="stable").index].reset_index(
            drop=True
        )

    def largest(self, target: str) -> np.ndarray:
        """The largest change of a target by a word that ran, of every position, (P,)."""
        return np.array([every.max(initial=0) for every in self.changes(target)])

    def save(self, path: str | Path) -> Path:
        """Write the page, one HTML file that needs nothing else; returns its path."""
        import wordsens
        from wordsens.files import write_text

        write_text(path, wordsens.explanation_page([self]))
        return Path(path)

    def _repr_html_(self) -> str:
        import wordsens

        return str(wordsens.explanation_fragment([self]))

    def plot(self, target: str | None = None, axes: Axes | None = None) -> Axes:
        """A bar for each word: the largest change of a target, by default the last."""
        import wordsens  # which only forwards names, so that no cell depends on figures

        return wordsens.plot(self, target=target, axes=axes)

    def _word(self, at: int, index: int, every: np.ndarray) -> dict[str, Any]:
        part = self.replaced[at]
        found = {
            "new": self.named[int(part["word"][index])],
            "change": float(every[index]),
            "distance": float(part["distance"][index]),
        }
        if self.kind:
            found["verdict"] = self.labels[int(part["verdict"][index])]
        return found
