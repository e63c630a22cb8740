"""Figures of single results, drawn as a workflow would draw them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from wordsens.errors import UserError
from wordsens.figures import drawing
from wordsens.studies import figure_module

# The kind of figure that shows a result, by its class; where there are two, one for several
# positions and one for a single one.
KINDS = {
    "Sensitivity": ("positions", "context_length"),
    "VocabularySensitivity": ("vocabulary",),
    "LayerSensitivity": ("layers",),
    "SearchResult": ("generalization",),
}


# Results that have a drawing of their own on one pair of axes: module and function.
DRAWN = {
    "Explanation": ("explanation", "explanation"),
    "Profile": ("boolean", "profile"),
    "InputSensitivity": ("robustness", "input_sensitivity"),
    "TangentKernel": ("robustness", "tangent_kernel"),
}


def plot(result: Any, *, title: str | None = None, axes: Any = None, **options: Any) -> Any:
    """The figure of a result, and of several of one kind together when given as a list.

    Sensitivities are drawn against n or, where several positions were searched, as distributions
    over them; layers and discrete words against n; losses as test error against γ.  Results of
    ``wordsens.robustness``, Boolean profiles and explanations (``target``) are drawn on ``axes``,
    which are then returned.
    Raises ``UserError`` for what no figure shows.
    """
    if type(result).__name__ in DRAWN:
        module, name = DRAWN[type(result).__name__]
        return getattr(import_module(f"{__name__}.{module}"), name)(result, axes, **options)
    results = list(result) if isinstance(result, list | tuple) else [result]
    names = {type(each).__name__ for each in results}
    if len(names) != 1 or not names <= set(KINDS):
        raise UserError(
            f"plot shows {', '.join(KINDS)}, one or a list of one kind; got "
            f"{', '.join(sorted(names)) or 'nothing'}"
        )
    import pandas as pd

    tables = [each.to_dataframe() for each in results]
    table = pd.concat(tables, ignore_index=True)
    kinds = KINDS[names.pop()]
    kind = kinds[0] if len(kinds) == 1 or "sup_at_position" in table else kinds[1]
    with drawing(figure_module(kind), {"": table}, {"title": title}, kind) as (figure, _):
        return figure
