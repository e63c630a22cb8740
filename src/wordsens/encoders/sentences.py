"""First-layer attention of sentences that differ in a word (Figure 1, left), and of one under Δ.

Tables are tidy, one row per query and key; special tokens take part in the attention but have no
rows of their own, so that a query's weights add up to less than 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from wordsens.data.samples import draw_tokens
from wordsens.encoders.attraction import attract
from wordsens.encoders.layered import LayeredEncoder
from wordsens.errors import UserError
from wordsens.randomness import Stream

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def attention_table(model: LayeredEncoder, sentences: Sequence[str], key: str) -> pd.DataFrame:
    """The first block's attention, averaged over heads, of every sentence.

    Columns: sentence, query and key (positions of word pieces), query_piece, key_piece, weight.
    Raises UserError for a sentence without word pieces, or longer than the encoder's positions.
    """
    import pandas as pd

    frames = []
    for number, sentence in enumerate(sentences):
        ids = model.encoder.tokenize([sentence])[0]
        if not ids:
            raise UserError(f"{key}.sentences[{number}]: {sentence!r} has no word pieces")
        whole, before = _whole(model, ids, f"{key}.sentences[{number}]")
        scores = model.first_attention(model.embed(whole[None]), whole)[0].mean(0)
        frames.append(_rows(model, ids, scores, before).assign(sentence=sentence))
    table = pd.concat(frames, ignore_index=True)
    return table[["sentence", *(name for name in table if name != "sentence")]]


def attraction_table(
    model: LayeredEncoder,
    text: Sequence[int],
    position: int,
    *,
    draws: int,
    stream: Stream,
    key: str,
) -> pd.DataFrame:
    """What the attracting Δ does to a text (``attract``), as one tidy table.

    quantity "relative_change" has one row per layer, under the perturbations of ``DIRECTIONS`` and,
    for each draw, "noise"; "attention" has one row per query and key of the first head, under
    "none" and ``DIRECTIONS``; "attention_to_word" is the attention that the changed word gets,
    averaged over all queries, of every head.  Raises UserError for a position that the text does
    not have.
    """
    import pandas as pd

    ids = list(text)
    joint = "_" if key.endswith("title") else "."
    if not 0 <= position < len(ids):
        raise UserError(
            f"{key}{joint}position: is {position}, but the text has {len(ids)} word pieces; "
            f"allowed: 0 to {len(ids) - 1}"
        )
    whole, before = _whole(model, ids, f"{key}.text")
    found = attract(model, whole, before + position, draws=draws, stream=stream)
    layers = range(model.depth + 1)
    frames = [
        _long("relative_change", name, change.tolist(), layer=layers)
        for name, change in found.change.items()
    ]
    frames += [
        _long("relative_change", "noise", noise.tolist(), layer=layers).assign(draw=draw)
        for draw, noise in enumerate(found.noise)
    ]
    for name, scores in found.scores.items():
        to_word = scores[:, :, before + position].mean(1).tolist()
        heads = range(len(to_word))
        frames.append(_long("attention_to_word", name, to_word, head=heads))
        rows = _rows(model, ids, scores[0], before).rename(columns={"weight": "value"})
        frames.append(rows.assign(quantity="attention", perturbation=name, head=0))
    table = pd.concat(frames, ignore_index=True)
    first = {
        "tokens": len(whole),
        "position": position,
        "piece": model.encoder.pieces(ids)[position],
    }
    ordered = ["quantity", "perturbation", "layer", "head", "draw", "query", "key"]
    ordered += ["query_piece", "key_piece", "value"]
    whole_numbers = ["layer", "head", "draw", "query", "key"]
    table[whole_numbers] = table[whole_numbers].astype("Int64")
    return table[ordered].assign(**first)


def chosen_text(
    model: LayeredEncoder,
    text: str | None,
    data: str | Path | None,
    tokens: int,
    stream: Stream,
    key: str,
) -> list[int]:
    """The word pieces of a text, or of a sample of ``tokens`` tokens drawn from a dataset."""
    if text is not None:
        return model.encoder.tokenize([text])[0]
    if data is None:
        raise ValueError("neither a text nor a dataset")
    special = sum(map(len, model.encoder.special_tokens()))
    ids, _ = draw_tokens(data, tokens, 1, stream, special=special, key=key)
    return [int(piece) for piece in ids[0]]


def _whole(model: LayeredEncoder, ids: Sequence[int], key: str) -> tuple[torch.Tensor, int]:
    """The ids between special tokens, and how many of those come before."""
    before, after = model.encoder.special_tokens()
    whole = torch.tensor([*before, *ids, *after])
    most = model.encoder.max_tokens
    if len(whole) > most:
        raise UserError(
            f"{key}: {len(whole)} tokens, special ones included, but the encoder has positions for "
            f"{most}; shorten the text"
        )
    return whole, len(before)


def _rows(
    model: LayeredEncoder, ids: Sequence[int], scores: torch.Tensor, before: int
) -> pd.DataFrame:
    import pandas as pd

    pieces = model.encoder.pieces(ids)
    inner = scores[before : before + len(ids), before : before + len(ids)].cpu()
    pairs = [(query, key) for query in range(len(ids)) for key in range(len(ids))]
    return pd.DataFrame(
        {
            "query": [query for query, _ in pairs],
            "key": [key for _, key in pairs],
            "query_piece": [pieces[query] for query, _ in pairs],
            "key_piece": [pieces[key] for _, key in pairs],
            "weight": inner.flatten().tolist(),
        }
    )


def _long(quantity: str, perturbation: str, values: list[float], **index: range) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {"quantity": quantity, "perturbation": perturbation, **index, "value": values}
    )
