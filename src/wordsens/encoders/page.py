"""The page of an explanation: one HTML file, offline, for mouse, keyboard, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jinja2 import Environment

FLIPS = 50  # rows of the table of words that change the verdict


def html(found: Any) -> str:
    """The whole page."""
    view = _view(found)
    return _templates().get_template("page.html").render(**view)


def fragment(found: Any) -> str:
    """The coloured text alone, for a notebook."""
    return _templates().get_template("text.html").render(**_view(found))


def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("wordsens", "encoders/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _view(found: Any) -> dict[str, Any]:
    """What the templates show, plain values only."""
    tried = {row: at for at, row in enumerate(found.positions)}
    words: list[dict[str, Any]] = [
        {
            "piece": piece.removeprefix("##"),
            "joined": piece.startswith("##"),
            "position": row,
            "tried": row in tried,
            "by": _of_word(found, tried[row]) if row in tried else {},
        }
        for row, piece in enumerate(found.pieces)
    ]
    shown = [target for target in found.targets if target != "layer 0"]
    scale = {
        target: {
            by: max((word["by"][target][by] or 0 for word in words if word["tried"]), default=0)
            for by in ("word", "delta")
        }
        for target in shown
    }
    flips = found.flips()
    return {
        "words": words,
        "targets": shown,
        "default": shown[-1],
        "scale": scale,
        "verdict": found.verdict,
        "kind": found.kind,
        "causal": found.causal,
        "tried": found.tried,
        "effort": found.effort,
        "flips": flips.head(FLIPS).to_dict("records"),
        "flip_count": len(flips),
        "classes": _classes(found),
    }


def _of_word(found: Any, at: int) -> dict[str, Any]:
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


def _classes(found: Any) -> list[dict[str, Any]]:
    if found.kind != "classes" or found.logits is None:
        return []
    return [
        {"label": label, "logit": float(value)}
        for label, value in zip(found.labels, found.logits, strict=True)
    ]
