"""An entry of attraction as a tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from wordsens.data.encoders import Encoder
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.sentences import attraction_table, chosen_text
from wordsens.randomness import Stream


def tables(cell: Mapping[str, Any], inputs: Mapping[str, str], device: str) -> dict[str, Any]:
    """``attraction_table`` of the entry's text; with a title, the attention is the title's."""
    key = f"attraction.{cell['study']}"
    encoder = Encoder.open(inputs["encoder"], f"encoders.{cell['encoder']}")
    model = LayeredEncoder.load(encoder, device=device)
    stream = Stream(cell["seed"], "attraction", encoder=cell["encoder"], position=cell["position"])
    options = {"draws": cell["draws"], "stream": stream}
    text = chosen_text(
        model, cell.get("text"), inputs.get("data"), cell["tokens"], stream.child("text"), key
    )
    table = attraction_table(model, text, cell["position"], key=key, **options)
    title = cell.get("title")
    if title is not None:
        ids = encoder.tokenize([title])[0]
        other = attraction_table(model, ids, cell["title_position"], key=f"{key}.title", **options)
        shown = ["attention", "attention_to_word"]
        table = pd.concat(
            [
                table[table["quantity"] != "attention"].assign(of="text"),
                other[other["quantity"].isin(shown)].assign(of="title"),
            ],
            ignore_index=True,
        )
    else:
        table = table.assign(of="text")
    return {"table": table.assign(encoder=cell["encoder"])}
