"""The pages of explanations: HTML files that need nothing else, for mouse, keyboard, light, dark.

``explanation_page`` is one page of any number of texts, ``explanation_pages`` a page for each and
an index.  A template may extend page.html and fill its block ``below``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.encoders.explanation import OUTPUT, Explanation

if TYPE_CHECKING:
    from jinja2 import Environment

FLIPS = 50  # rows of the table of words that change the verdict
BEGINS = 12  # word pieces of a text that the index shows
INDEX = "index.html"


def explanation_page(windows: Sequence[Explanation]) -> str:
    """One page of all windows, text after text."""
    return str(templates().get_template("page.html").render(**view(windows)))


def explanation_pages(windows: Sequence[Explanation]) -> dict[str, str]:
    """A page for each text and an index of them, by the names of their files."""
    known = templates()
    pages = {}
    for number, group in groupby(windows, key=lambda each: each.text):
        found = view(list(group))
        found["index"] = INDEX
        pages[_name(number)] = str(known.get_template("page.html").render(**found))
    every = view(windows)
    for text in every["texts"]:
        text["link"] = _name(text["number"])
    pages[INDEX] = str(known.get_template("index.html").render(**every))
    return pages


def explanation_fragment(windows: Sequence[Explanation]) -> str:
    """The coloured texts alone, for a notebook."""
    return str(templates().get_template("fragment.html").render(**view(windows)))


def templates(*packages: str) -> Environment:
    """The templates of this page, and those that lie in the folder templates of other packages."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    rooms = ("wordsens.encoders", *packages)
    return Environment(
        loader=ChoiceLoader([PackageLoader(room) for room in rooms]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def view(windows: Sequence[Explanation]) -> dict[str, Any]:
    """What the templates show, plain values only."""
    first = windows[0]
    shown = [target for target in first.targets if target != "layer 0"]
    words: list[dict[str, Any]] = []
    texts = []
    for number, group in groupby(windows, key=lambda each: each.text):
        texts.append(_text(number, list(group), shown[-1], words))
    scale = {
        target: {
            by: max((word["by"][target][by] or 0 for word in words if word["tried"]), default=0)
            for by in ("word", "delta")
        }
        for target in shown
    }
    return {
        "texts": texts,
        "words": words,
        "targets": shown,
        "default": shown[-1],
        "scale": scale,
        "model": first.model,
        "kind": first.kind,
        "head": first.head,
        "causal": first.causal,
        "tried": first.tried,
        "effort": first.effort,
        "names": {target: _named(target, first.kind) for target in shown},
        "index": None,
    }


def _text(
    number: int, windows: list[Explanation], default: str, words: list[dict[str, Any]]
) -> dict[str, Any]:
    """One text; its words are added to those of the page."""
    parts = []
    for found in windows:
        tried = {row: at for at, row in enumerate(found.positions)}
        first = len(words)
        words += [
            {
                "piece": piece.removeprefix("##"),
                "joined": piece.startswith("##"),
                "position": found.start + row,
                "tried": row in tried,
                "by": _of_word(found, tried[row]) if row in tried else {},
            }
            for row, piece in enumerate(found.pieces)
        ]
        flips = found.flips()
        parts.append(
            {
                "words": list(range(first, len(words))),
                "start": found.start,
                "stop": found.start + len(found.pieces),
                "verdict": found.verdict,
                "classes": _classes(found),
                "flips": flips.head(FLIPS).to_dict("records"),
                "flip_count": len(flips) if found.flipped is None else found.flipped,
            }
        )
    own = [word for part in parts for word in (words[i] for i in part["words"])]
    strongest = max(own, key=lambda word: word["by"][default]["word"] if word["tried"] else -1)
    begins = "".join(
        ("" if word["joined"] or not at else " ") + word["piece"]
        for at, word in enumerate(own[:BEGINS])
    )
    return {
        "number": number,
        "windows": parts,
        "tokens": windows[0].tokens,
        "read": sum(len(found.pieces) for found in windows),
        "begins": begins + (" …" if len(own) > BEGINS else ""),
        "strongest": strongest,
        "link": f"#text-{number + 1}",
    }


def _of_word(found: Explanation, at: int) -> dict[str, Any]:
    """Of each target, the largest change by real words and by any Δ, and the words."""
    part, by = found.replaced[at], {}
    for target in found.targets:
        every = found.changes(target)[at]
        order = np.argsort(-every, kind="stable")[: found.top]
        sup = found.sup.get(target)
        by[target] = {
            "word": float(every.max(initial=0)),
            "delta": None if sup is None else float(sup[at]),
            "new": [
                {
                    "word": found.named[int(part["word"][index])],
                    "change": float(every[index]),
                    "distance": float(part["distance"][index]),
                    "verdict": found.labels[int(part["verdict"][index])] if found.kind else None,
                }
                for index in order
            ],
        }
    return by


def _classes(found: Explanation) -> list[dict[str, Any]]:
    if found.kind != "classes" or found.logits is None:
        return []
    return [
        {"label": label, "logit": float(value)}
        for label, value in zip(found.labels, found.logits, strict=True)
    ]


def _named(target: str, kind: str | None) -> str:
    """A target in words."""
    if target != OUTPUT:
        return target
    return "the logits" if kind == "classes" else "the next-token probabilities"


def _name(number: int) -> str:
    return f"text-{number + 1}.html"
