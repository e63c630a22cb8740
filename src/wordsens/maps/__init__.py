"""Feature maps by name, and ``build_map``."""

from wordsens.maps.base import FeatureMap, position_sets
from wordsens.maps.build import build_map
from wordsens.maps.declaration import DEFAULTS, Effort, LossEffort, MapOptions
from wordsens.maps.registry import MAPS, declared, is_map, map_class, register

__all__ = [
    "DEFAULTS",
    "MAPS",
    "Effort",
    "FeatureMap",
    "LossEffort",
    "MapOptions",
    "build_map",
    "declared",
    "is_map",
    "map_class",
    "position_sets",
    "register",
]
