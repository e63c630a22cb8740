"""An entry of prompts as a tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.encoders.prompts import CausalModel, prompts_table


def tables(cell: Mapping[str, Any], inputs: Mapping[str, str], device: str) -> dict[str, Any]:
    """``prompts_table`` of the entry's prompts."""
    model = CausalModel.open(inputs["model"], f"models.{cell['model']}", device)
    asked = (cell["prompts"], cell["answers"], cell["tokens"], f"prompts.{cell['study']}")
    return {"table": prompts_table(model, *asked).assign(model=cell["model"])}
