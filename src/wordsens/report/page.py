"""The pages of model_report: Markdown with its figures beside it, and one HTML file of all."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.encoders.explanation import Explanation
from wordsens.encoders.page import templates, view
from wordsens.report.parts import Part, introduction, parts

if TYPE_CHECKING:
    import pandas as pd


def page(
    settings: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    words: pd.DataFrame,
    counts: Mapping[str, int],
    shas: Mapping[str, str],
    causal: bool = False,
) -> str:
    """The report as Markdown, its figures named beside it; see ``parts``."""
    lines = [f"# Word sensitivity of {_plain(settings['encoder'])}"]
    for sentence in introduction(settings, counts, shas):
        lines += ["", _plain(sentence)]
    for part in parts(tables, words, causal):
        lines += ["", *_markdown(part)]
    return "\n".join(lines) + "\n"


def html(
    settings: Mapping[str, Any],
    windows: Sequence[Explanation],
    tables: Mapping[str, pd.DataFrame],
    words: pd.DataFrame,
    counts: Mapping[str, int],
    shas: Mapping[str, str],
    figures: Mapping[str, str | Path],
) -> str:
    """The report as one HTML file: the texts in colour, and what the Markdown says below.

    ``figures`` are PNG files by the names of their entries; they become part of the file.
    """
    found = view(windows)
    below = parts(tables, words, found["causal"])
    pictures = {
        name: base64.b64encode(Path(path).read_bytes()).decode() for name, path in figures.items()
    }
    values = {
        **found,
        "encoder": settings["encoder"],
        "introduction": introduction(settings, counts, shas),
        "parts": [vars(part) | {"sentences": part.sentences} for part in below],
        "pictures": pictures,
    }
    return str(templates("wordsens.report").get_template("report.html").render(**values))


def _markdown(part: Part) -> Iterator[str]:
    yield f"{'#' * part.level} {part.title}"
    for sentence in part.sentences:
        yield ""
        yield _plain(sentence)
    if part.columns:
        yield ""
        yield "| " + " | ".join(part.columns) + " |"
        marks = ["---" if i in part.text_columns else "--:" for i in range(len(part.columns))]
        yield "|" + "|".join(marks) + "|"
        for row in part.rows:
            yield "| " + " | ".join(_plain(cell) for cell in row) + " |"
    for sentence in part.after:
        yield ""
        yield _plain(sentence)
    if part.figure:
        name = part.figure
        yield ""
        yield f"![{name.rsplit('_', 1)[1]}]({name}.png)"
        yield ""
        yield f"Numbers: [{name}.csv]({name}.csv); to print: [{name}.pdf]({name}.pdf)."


def _plain(text: Any) -> str:
    """Text that is no Markdown, but for the word of a context between [[ and ]], set bold."""
    safe = "".join(f"\\{c}" if c in "\\`*_{}<>#|~" else c for c in str(text))
    return re.sub(r"\[\[(.*?)\]\]", r"**\1**", safe)
