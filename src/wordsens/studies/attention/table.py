"""An entry of attention as a tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wordsens.data.encoders import Encoder
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.sentences import attention_table


def tables(cell: Mapping[str, Any], inputs: Mapping[str, str], device: str) -> dict[str, Any]:
    """``attention_table`` of the entry's sentences."""
    name = cell["encoder"]
    model = LayeredEncoder.load(Encoder.open(inputs["encoder"], f"encoders.{name}"))
    table = attention_table(model, cell["sentences"], f"attention.{cell['study']}")
    return {"table": table.assign(encoder=name)}
