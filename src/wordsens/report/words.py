"""The words that change an encoder's layers most, on the texts that its layers are searched on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wordsens.data.encoders import Encoder
from wordsens.data.samples import draw_tokens
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.words import word_changes
from wordsens.randomness import Stream

if TYPE_CHECKING:
    import pandas as pd

SHORTLIST = 128  # words run at a time, chosen by gradient from the whole vocabulary
AROUND = 4  # word pieces of context shown on either side


def report_words(
    study: Mapping[str, Any],
    data: str | Path,
    folder: str | Path,
    *,
    encoder: str,
    seed: int,
    device: str,
    top: int = 5,
    rounds: int = 2,
) -> pd.DataFrame:
    """The ``top`` substitutions of a word of trial 0's text, at every n of a layers study.

    The word is the one at the study's ``position``.

    They are those of the first and of the last layer, each change exact and the best of the words
    that the gradient proposed (``word_changes``).  Columns: n, layer, rank, position, word, new,
    change, distance (in units of the word's length), context.
    """
    import pandas as pd

    opened = Encoder.open(folder, f"encoders.{encoder}")
    model = LayeredEncoder.load(opened, device=device)
    row = study["position"]
    before, after = opened.special_tokens()
    rows = []
    for n in study["n"]:
        texts = Stream(seed, "layers", dataset=study["dataset"], n=n)
        special = len(before) + len(after)
        ids, _ = draw_tokens(data, n, 1, texts, special=special, key=f"report.n, n = {n}")
        words = [int(piece) for piece in ids[0]]
        whole = torch.tensor([*before, *words, *after])
        pieces = opened.pieces(words)
        around = [*pieces[max(0, row - AROUND) : row], f"[[{pieces[row]}]]"]
        context = " ".join([*around, *pieces[row + 1 : row + 1 + AROUND]])
        for layer in sorted({1, model.depth}):
            found = word_changes(
                model,
                whole,
                len(before) + row,
                layer=layer,
                shortlist=SHORTLIST,
                rounds=rounds,
                top=top,
                stream=texts.child("words", layer=layer),
            )
            new = opened.pieces(found.word.tolist(), in_text=False)
            for rank, (word, change, distance) in enumerate(
                zip(new, found.change.tolist(), found.distance.tolist(), strict=True), 1
            ):
                rows.append(
                    {
                        **{"n": n, "layer": layer, "rank": rank, "position": row},
                        **{"word": pieces[row], "new": word, "change": change},
                        **{"distance": distance, "context": context},
                    }
                )
    return pd.DataFrame(rows)
