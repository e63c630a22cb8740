"""What studies of feature maps share: the map's own keys, and cells that carry no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.maps import MapOptions, declared
from wordsens.studies.base import Plain, Study
from wordsens.studies.checks import Checks


class MapStudy(Study):
    """An entry with a key ``map``; of the maps' options a cell has those of its own map."""

    @property
    def map(self) -> Any:
        """What the entry's map declares of itself."""
        return declared()[self.settings["map"]]

    def options_at(self, point: Mapping[str, Any]) -> MapOptions:
        """The options of the entry's map in one cell."""
        return MapOptions.of({**self.shared, **point}, self.map.options)

    @classmethod
    def allowed_maps(cls) -> list[str]:
        """The maps that can be in this kind of study."""
        return [name for name, each in declared().items() if cls.kind in each.studies]

    @property
    def shared(self) -> Plain:
        foreign = set().union(*(each.options for each in declared().values())) - set(
            self.map.options
        )
        return {key: value for key, value in super().shared.items() if key not in foreign}

    def cell(self, config: Any, point: Mapping[str, Any]) -> Plain:
        """All parameters of one cell, width and head_dim as the numbers they stand for."""
        return numbered(super().cell(config, point), point)

    def check(self, checks: Checks) -> None:
        key, name = (self.section, self.name), self.settings["map"]
        for option in checks.given(key):
            maps = [other for other, each in declared().items() if option in each.options]
            if maps and name not in maps:
                checks.say(
                    (*key, option),
                    f"map {name} has none; only for {' and '.join(maps)}; leave it out",
                )


def numbered(cell: Plain, point: Mapping[str, Any]) -> Plain:
    """A cell with the width D as n·d and the head_dim d as a number."""
    if cell.get("width") == "D":
        cell["width"] = point["n"] * point["d"]
    if cell.get("head_dim") == "d":
        cell["head_dim"] = point["d"]
    return cell
