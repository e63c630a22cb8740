"""Kinds of study by name: those of this folder, of plugins and of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from wordsens.errors import UserError
from wordsens.studies.base import Study

__all__ = [
    "GROUP",
    "Study",
    "figure_kinds",
    "figure_module",
    "kind_named",
    "kinds",
    "register",
    "targets",
]

GROUP = "wordsens.studies"  # entry points of installed packages
# In the order of the configuration's sections and of the documentation.
BUILT_IN = (
    "sensitivity",
    "generalization",
    "vocabulary",
    "layers",
    "attraction",
    "attention",
    "prompts",
    "classifier",
    "explanation",
    "robustness",
    "text_robustness",
    "attack",
    "conditioning",
    "flow",
    "boolean_random",
    "boolean_volume",
    "boolean_trained",
    "depth",
    "training",
)
_known: dict[str, type[Study]] = {}


def register(study: type[Study]) -> None:
    """Make a kind of study known; ``UserError`` where its name or section is taken by another."""
    _shipped()
    _add(study)


def _add(study: type[Study]) -> None:
    for other in _known.values():
        if other.__module__ == study.__module__ and other.__qualname__ == study.__qualname__:
            _known.pop(other.kind)
            break
    for other in _known.values():
        clashes = set(study.figures) & set(other.figures)
        same = [
            f"{what} {mine!r}"
            for what, mine, theirs in (
                ("kind", study.kind, other.kind),
                ("section", study.section, other.section),
                ("folder", study.folder, other.folder),
            )
            if mine and mine == theirs
        ] + [f"figure kind {name!r}" for name in sorted(clashes)]
        if same:
            raise UserError(
                f"{study.home()}: {same[0]} is already that of {other.__module__}; choose another"
            )
    _known[study.kind] = study


@cache
def _shipped() -> None:
    for name in BUILT_IN:
        module = import_module(f"{__name__}.{name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Study) and value.kind:
                _add(value)
    for point in entry_points(group=GROUP):
        try:
            _add(point.load())
        except Exception as error:
            if isinstance(error, UserError):
                raise
            origin = point.dist.name if point.dist else "an installed package"
            raise UserError(
                f"{origin} offers the kind of study {point.value} (entry point {point.name} in "
                f"{GROUP}), which cannot be imported: {error}; repair or uninstall it"
            ) from error


def kinds() -> dict[str, type[Study]]:
    """All known kinds of study, by name."""
    _shipped()
    return dict(_known)


def kind_named(name: str) -> type[Study]:
    """The kind of that name; ``UserError`` names the known ones."""
    known = kinds()
    if name not in known:
        raise UserError(f"kind of study {name!r}: allowed are {', '.join(known)}")
    return known[name]


def figure_module(name: str) -> ModuleType:
    """The module that draws a kind of figure; ``UserError`` names the known kinds."""
    known = figure_kinds()
    if name not in known:
        raise UserError(f"figure kind {name!r}: allowed are {', '.join(known)}")
    return known[name].part(f"figures.{name}")


def figure_kinds() -> dict[str, type[Study]]:
    """The kind of study that each kind of figure shows."""
    return {figure: study for study in kinds().values() for figure in study.figures}


def targets() -> list[str]:
    """The rules that make all figures of several kinds of figure."""
    named = {study.target_of(figure) for figure, study in figure_kinds().items()}
    return sorted(target for target in named if target)
