"""Figures by the name of their kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from wordsens import figures
from wordsens.studies import figure_module


def draw(
    kind: str, tables: Mapping[str, pd.DataFrame], options: Mapping[str, Any], stem: Path
) -> list[Path]:
    return figures.draw(figure_module(kind), tables, options, stem)
