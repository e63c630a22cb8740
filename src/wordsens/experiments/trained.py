"""Entries of the sections attention, attraction and prompts, each as one tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.data.encoders import Encoder
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.prompts import CausalModel, prompts_table
from wordsens.encoders.sentences import attention_table, attraction_table, chosen_text
from wordsens.randomness import Stream

if TYPE_CHECKING:
    import pandas as pd


def attention_entry(settings: Mapping[str, Any], folder: str | Path, *, name: str) -> pd.DataFrame:
    """``attention_table`` of an entry's sentences."""
    model = LayeredEncoder.load(Encoder.open(folder, f"encoders.{settings['encoder']}"))
    table = attention_table(model, settings["sentences"], f"attention.{name}")
    return table.assign(encoder=settings["encoder"])


def attraction_entry(
    settings: Mapping[str, Any],
    folder: str | Path,
    data: str | Path | None,
    *,
    name: str,
    seed: int,
    device: str,
) -> pd.DataFrame:
    """``attraction_table`` of an entry's text; with a title, the attention is the title's."""
    import pandas as pd

    key = f"attraction.{name}"
    encoder = Encoder.open(folder, f"encoders.{settings['encoder']}")
    model = LayeredEncoder.load(encoder, device=device)
    stream = Stream(seed, "attraction", encoder=settings["encoder"], position=settings["position"])
    options = {"draws": settings["draws"], "stream": stream}
    text = chosen_text(
        model, settings.get("text"), data, settings["tokens"], stream.child("text"), key
    )
    table = attraction_table(model, text, settings["position"], key=key, **options)
    title = settings.get("title")
    if title is not None:
        ids = encoder.tokenize([title])[0]
        other = attraction_table(
            model, ids, settings["title_position"], key=f"{key}.title", **options
        )
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
    return table.assign(encoder=settings["encoder"])


def prompts_entry(
    settings: Mapping[str, Any], folder: str | Path, *, name: str, device: str
) -> pd.DataFrame:
    """``prompts_table`` of an entry's prompts."""
    model = CausalModel.open(folder, f"models.{settings['model']}", device)
    table = prompts_table(
        model,
        settings["prompts"],
        settings["answers"],
        settings["tokens"],
        f"prompts.{name}",
    )
    return table.assign(model=settings["model"])
