"""Which word of a text matters to a model, and which single word changes its answer.

For every word of the text two questions are asked.  Any Δ: how far can a layer, or the output,
be moved by ‖Δ‖ ≤ ‖x_i‖, equation (4), searched by gradient.  Real words: what do the words of the
vocabulary do in its place; every change is that of the model on the changed text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from wordsens.encoders.explanation import OUTPUT, Explanation
from wordsens.encoders.layered import LayeredEncoder, Measurable, layered
from wordsens.encoders.output_view import OutputView
from wordsens.encoders.outputs import NEXT_TOKEN, Head
from wordsens.encoders.replaced import Replaced, Text
from wordsens.encoders.sensitivity import layer_sensitivity
from wordsens.errors import UserError, whole_number
from wordsens.progress import advance
from wordsens.randomness import Stream
from wordsens.search.power import climb

# Searches of the ball (starts, steps) and words run at each position.
EFFORTS = {"page": (3, 15, 96), "quick": (1, 5, 24)}


def explain(
    model: Measurable,
    text: str | Sequence[int],
    *,
    tokenizer: Any = None,
    positions: str | Sequence[int] = "all",
    effort: str = "page",
    delta: bool = True,
    candidates: str | Sequence[str | int] = "shortlist",
    top: int = 5,
    seed: int = 0,
    device: str = "cpu",
) -> Explanation:
    """What each word of a text can do to the layers and to the output of a model.

    ``model`` is a path, an ``Encoder``, or a loaded model of transformers with its ``tokenizer``;
    a sequence classifier's output is its class logits, a causal model's the distribution of the
    next token, and any other model, a regression among them, has layers only.  ``positions``
    counts the text's own tokens.  ``candidates`` are "shortlist" (chosen at random and by
    gradient), "all" the words of the vocabulary, or a list of words or token ids, all of which
    run.  ``effort`` "quick" searches less than "page"; ``delta=False`` leaves the search of the
    ball out.  The ``top`` replacements of each word are kept for every layer and the output.

    Raises UserError for a text longer than the model's positions, or empty, and for words that are
    not in the vocabulary.
    """
    if effort not in EFFORTS:
        raise UserError(f"effort {effort!r} is not known; choose {' or '.join(EFFORTS)}")
    starts, steps, shortlist = EFFORTS[effort]
    top, seed = whole_number("top", top), whole_number("seed", seed, None)
    known, head = _opened(model, tokenizer, device)
    encoder = known.encoder
    ids = encoder.tokenize([text])[0] if isinstance(text, str) else [int(i) for i in text]
    if not ids:
        raise UserError("the text is empty")
    before, after = encoder.special_tokens()
    whole = torch.tensor([*before, *ids, *after])
    if len(whole) > encoder.max_tokens:
        room = encoder.max_tokens - len(before) - len(after)
        raise UserError(
            f"{encoder.key}: the text has {len(ids)} tokens and there is room for {room}; explain "
            f"it in windows, the token ids [0:{room}] first"
        )
    encoder.check_ids(whole)
    rows = _rows(positions, len(ids))
    state = Text(known, head, whole)
    words, exhaustive = _candidates(known, candidates)
    replaced = []
    for number, row in enumerate(rows):
        own = Stream(seed, "explain", position=row)
        at = len(before) + row
        others = words[words != whole[at]]
        if exhaustive:
            replaced.append(state.run(at, others))
        else:
            replaced.append(state.shortlisted(at, others, shortlist, own))
        advance(number, len(rows))
    sup: dict[str, np.ndarray] = {}
    if delta:
        layers = layer_sensitivity(
            known, ids, positions=rows, layers=[known.depth], starts=starts, steps=steps, seed=seed
        )
        sup[f"layer {known.depth}"] = layers.by_position[:, 0].numpy()
        if head is not None:
            at_rows = [len(before) + row for row in rows]
            sup[OUTPUT] = _searched(head, known, whole, at_rows, starts, steps, seed)
    return Explanation(
        pieces=encoder.pieces(ids),
        positions=rows,
        depth=known.depth,
        causal=known.causal,
        sup=sup,
        replaced=[_with_output(part, head, state) for part in replaced],
        named={int(w): p for w, p in _names(encoder, replaced).items()},
        labels=[] if head is None else head.labels,
        kind=None if head is None else head.kind,
        logits=None if state.logits is None else state.logits.double().cpu().numpy(),
        tried="all" if exhaustive else f"{shortlist} of {len(words):,}",
        top=top,
        effort=effort,
    )


def _opened(model: Any, tokenizer: Any, device: str) -> tuple[LayeredEncoder, Head | None]:
    from wordsens.data.encoders import Encoder

    if isinstance(model, LayeredEncoder):
        # Its weights may be drawn, or its word moved elsewhere; the output needs the whole model.
        raise UserError("explain takes no LayeredEncoder; give the path or the Encoder behind it")
    if isinstance(model, torch.nn.Module):
        encoder = Encoder.of(model, tokenizer)
    elif tokenizer is not None:
        return layered(model, tokenizer), None  # which says that it would be ignored
    elif isinstance(model, Encoder):
        encoder = model
    else:
        encoder = layered_path(model)
    whole = encoder.head()
    if whole is not None:
        whole.to(device)
    head = None if whole is None else Head(encoder)
    perturb = "layer0" if encoder.blocks().stepwise else "word_vector"
    return layered(encoder, perturb=perturb, device=device), head


def layered_path(path: Any) -> Any:
    """A path opened; anything else is refused as ``layered`` does it."""
    from pathlib import Path

    from wordsens.data.encoders import Encoder

    return Encoder.open(path) if isinstance(path, (str, Path)) else layered(path)


def _rows(positions: str | Sequence[int], n: int) -> list[int]:
    from wordsens.search.sensitivity import chosen_sets

    return chosen_sets(positions, 1, n, Stream(0, "positions"))[:, 0].tolist()


def _candidates(
    known: LayeredEncoder, candidates: str | Sequence[str | int]
) -> tuple[torch.Tensor, bool]:
    """Token ids of the words to try, and whether all of them run."""
    encoder = known.encoder
    pieces, special = encoder.word_pieces()
    if isinstance(candidates, str):
        if candidates not in ("all", "shortlist"):
            raise UserError(
                f"candidates {candidates!r} is not known; choose all, shortlist, or a list"
            )
        shown = encoder.pieces(range(min(len(encoder.tokenizer), len(pieces))), in_text=False)
        left = set(range(len(shown))) - set(special)
        # A piece that only continues a word is no word in a word's place.
        whole = [i for i in sorted(left) if shown[i].isalpha()]
        return torch.tensor(whole or sorted(left)), candidates == "all"
    found: list[int] = []
    for word in candidates:
        ids = [word] if isinstance(word, int) else _pieces_of(encoder, word)
        if len(ids) != 1 or not 0 <= ids[0] < len(pieces):
            raise UserError(
                f"{encoder.key}: {word!r} is no single word of the vocabulary; allowed: words that "
                "the tokenizer keeps whole, or token ids"
            )
        found += ids
    if not found:
        raise UserError("candidates is empty; give at least one")
    return torch.tensor(found).unique(), True


def _pieces_of(encoder: Any, word: str) -> list[int]:
    """The word as it stands inside a text, after a space where the tokenizer marks one."""
    alone, spaced = encoder.tokenize([word, f" {word}"])
    return min(spaced, alone, key=len)  # type: ignore[no-any-return]


def _searched(
    head: Head,
    known: LayeredEncoder,
    ids: torch.Tensor,
    rows: list[int],
    starts: int,
    steps: int,
    seed: int,
) -> np.ndarray:
    """The largest relative change of the output found in the ball of each position, (P,)."""
    view = OutputView(head, known, ids, torch.tensor(rows))
    shape = (starts, 1, view.tokens.shape[-1])
    drawn = [Stream(seed, "output", row=row).normal(*shape, dtype=torch.float64) for row in rows]
    noise = torch.stack(drawn)[None].to(view.tokens)
    found = climb(view, noise, anneal=0, steps=steps)
    return (found.value.sqrt() / view.norm)[0].double().cpu().numpy()


def _with_output(part: Replaced, head: Head | None, state: Text) -> dict[str, np.ndarray]:
    """What one position's words did, as arrays; the output's change is that of φ."""
    found = {
        "word": part.ids.numpy(),
        "change": part.change.double().numpy(),
        "distance": part.distance.double().numpy(),
    }
    if head is None or part.logits is None or state.logits is None:
        return found
    base = head.features(state.logits.cpu().double())
    after = part.logits.double()
    gap = (head.features(after) - base).norm(dim=1) / base.norm()
    found["output"] = gap.numpy()
    verdict = after.argmax(1)
    first = int(state.logits.argmax())
    scale = after.log_softmax(1) if head.kind == NEXT_TOKEN else after
    found["verdict"] = verdict.numpy()
    found["old_after"] = scale[:, first].numpy()
    found["new_after"] = scale.gather(1, verdict[:, None])[:, 0].numpy()
    own = state.logits.cpu().double()
    own = own.log_softmax(0) if head.kind == NEXT_TOKEN else own
    found["new_before"] = own[verdict].numpy()
    return found


def _names(encoder: Any, replaced: Sequence[Replaced]) -> dict[int, str]:
    ids = torch.cat([part.ids for part in replaced]).unique().tolist()
    return dict(zip(ids, encoder.pieces(ids, in_text=False), strict=True))
