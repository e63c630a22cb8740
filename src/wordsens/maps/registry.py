"""The maps that are known: the library's own, those of installed packages and of plugin files."""

from __future__ import annotations

import sys
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

from wordsens.errors import UserError
from wordsens.maps.base import FeatureMap
from wordsens.maps.qkv import QueryKeyValueFeatures
from wordsens.maps.raf import RandomAttentionFeatures, ReLUAttentionFeatures
from wordsens.maps.random_features import DeepRandomFeatures, RandomFeatures
from wordsens.maps.transformer import Transformer

if TYPE_CHECKING:
    Map = TypeVar("Map", bound=type[FeatureMap])

GROUP = "wordsens.maps"  # of entry points: name = "package.module:Class"

MAPS: dict[str, type[FeatureMap]] = {}


def register(cls: Map) -> Map:
    """Make a map known under its name; also a class decorator.

    A class that comes from the same line as one before takes its place, so that a file may be
    read twice.  Raises ``UserError`` for what is no map with a name of its own, and for a name that
    another map has, naming both places.
    """
    if not (isinstance(cls, type) and issubclass(cls, FeatureMap)):
        raise UserError(f"{cls!r} is no map; derive its class from wordsens.maps.FeatureMap")
    name = vars(cls).get("name")
    if not isinstance(name, str) or not name.isidentifier():
        raise UserError(
            f'{place(cls)} gives its map no name; write, for example, name = "my_map" in the class '
            "(letters, digits and _)"
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise UserError(f"{place(cls)} lacks {', '.join(missing)}, which every map defines")
    other = MAPS.get(name)
    if other is not None and place(other) != place(cls):
        raise UserError(
            f"map {name!r} is defined in {place(cls)} and in {place(other)}; rename one of them"
        )
    MAPS[name] = cls
    return cls


def is_map(value: object) -> bool:
    """Whether something is a class of maps with a name of its own."""
    return isinstance(value, type) and issubclass(value, FeatureMap) and "name" in vars(value)


def place(cls: type) -> str:
    """Where a class is defined: file and name, or its module where there is no file."""
    module = sys.modules.get(cls.__module__)
    return f"{getattr(module, '__file__', None) or cls.__module__}: {cls.__qualname__}"


def declared() -> dict[str, type[FeatureMap]]:
    """Every known map by name, to ask what it declares; nothing here imports Torch."""
    _installed()
    return dict(MAPS)


def map_class(name: str) -> type[FeatureMap]:
    """The map of that name; ``UserError`` names the known ones."""
    known = declared()
    if not isinstance(name, str) or name not in known:
        raise UserError(f"map {name!r} is not known; choose one of {', '.join(known)}")
    return known[name]


@cache
def _installed() -> None:
    """Register what installed packages offer."""
    for entry in metadata.entry_points(group=GROUP):
        try:
            cls: Any = entry.load()
        except Exception as error:
            origin = entry.dist.name if entry.dist else "an installed package"
            raise UserError(
                f"{origin} offers the map {entry.value} (entry point {entry.name} in {GROUP}), "
                f"which cannot be imported: {error}; repair or uninstall it"
            ) from error
        register(cls)


for _cls in (
    RandomFeatures,
    DeepRandomFeatures,
    RandomAttentionFeatures,
    ReLUAttentionFeatures,
    QueryKeyValueFeatures,
    Transformer,
):
    register(_cls)
