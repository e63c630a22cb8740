"""A model, the words to try and how hard to search: explains one window of a text at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wordsens.arguments import device_of
from wordsens.data.encoders import Encoder
from wordsens.encoders.candidates import chosen_words
from wordsens.encoders.classifier import Classifier
from wordsens.encoders.explanation import OUTPUT, Explanation
from wordsens.encoders.layered import LayeredEncoder, Measurable, layered
from wordsens.encoders.output_view import OutputView
from wordsens.encoders.outputs import NEXT_TOKEN, Head, PooledHead
from wordsens.encoders.replaced import Replaced, Text
from wordsens.encoders.sensitivity import layer_sensitivity
from wordsens.encoders.windows import room, windows
from wordsens.errors import UserError, whole_number
from wordsens.progress import advance, stage
from wordsens.randomness import Stream
from wordsens.search.power import climb

# Starts and steps of the searches of the last layer and of the output, words run at each position.
# In a layer's search one start that goes on does more than several that stop early.
EFFORTS = {"page": ((1, 36), (3, 15), 96), "quick": ((1, 5), (1, 5), 24)}
BACKWARDS = 3  # what a step of a search costs, in runs of the model


class Explainer:
    """Opened once, for any number of texts; the arguments are those of ``explain``."""

    def __init__(
        self,
        model: Measurable,
        *,
        tokenizer: Any = None,
        classifier: Classifier | str | Path | None = None,
        effort: str = "page",
        delta: bool = True,
        candidates: str | Sequence[str | int] = "shortlist",
        top: int = 5,
        seed: int = 0,
        device: str = "cpu",
        name: str | None = None,
    ) -> None:
        if effort not in EFFORTS:
            raise UserError(f"effort {effort!r} is not known; choose {' or '.join(EFFORTS)}")
        self.top, self.seed = whole_number("top", top), whole_number("seed", seed, None)
        self.effort, self.delta = effort, delta
        self.encoder = _encoder(model, tokenizer)
        self.name = name or (self.encoder.folder.name if self.encoder.folder else "model")
        device_of(device)  # before the head goes there
        self.head = self._head(classifier, device)
        perturb = "layer0" if self.encoder.blocks().stepwise else "word_vector"
        self.known: LayeredEncoder = layered(self.encoder, perturb=perturb, device=device)
        self.before, self.after = self.encoder.special_tokens()
        self.words, self.exhaustive = chosen_words(self.encoder, candidates)

    @property
    def room(self) -> int:
        """The tokens of a text that the model has positions for."""
        return room(self.encoder)

    def tokens(self, text: str | Sequence[int]) -> list[int]:
        """The token ids of a text; raises UserError for one without any, and for ids of no word."""
        if isinstance(text, str):
            ids = self.encoder.tokenize([text])[0]
        else:
            ids = [whole_number("token id", i, None) for i in text]
        if not ids:
            raise UserError("the text is empty")
        rows = self.encoder.blocks().rows
        for i in ids:
            if not 0 <= i < rows:
                self.encoder.check_ids(torch.tensor([i]))
        return ids

    def windows(self, ids: Sequence[int], most: int | None = None) -> list[slice]:
        """The windows of a text, of ``most`` tokens where that is less than the model holds."""
        size = self.room if most is None else min(self.room, whole_number("tokens", most))
        return windows(self.encoder.pieces(ids), size)

    def explain(
        self, ids: Sequence[int], part: slice, rows: Sequence[int], text: int = 0
    ) -> Explanation:
        """What ``rows`` of the window ``part`` of a text can do; ``text`` is the text's number."""
        inside = list(ids[part])
        whole = torch.tensor([*self.before, *inside, *self.after])
        self.encoder.check_ids(whole)
        of_layer, of_output, shortlist = EFFORTS[self.effort]
        at = [len(self.before) + row for row in rows]
        runs = len(self.words) if self.exhaustive else shortlist
        gradients = math.prod(of_layer) + (self.head is not None) * math.prod(of_output)
        searched = BACKWARDS * gradients * self.delta
        with stage(runs / (runs + searched)):
            state = Text(self.known, self.head, whole)
            replaced, names = self._words(state, at, part.start, text, shortlist)
        sup: dict[str, np.ndarray] = {}
        if self.delta:
            with stage(searched / (runs + searched)):
                sup = self._searched(inside, whole, list(rows), at)
        return Explanation(
            pieces=self.encoder.pieces(inside),
            positions=list(rows),
            depth=self.known.depth,
            causal=self.known.causal,
            sup=sup,
            replaced=replaced,
            named=names,
            labels=[] if self.head is None else self.head.labels,
            kind=None if self.head is None else self.head.kind,
            logits=_scaled(state),
            tried="all" if self.exhaustive else f"{shortlist} of {len(self.words):,}",
            top=self.top,
            effort=self.effort,
            model=self.name,
            text=text,
            start=part.start,
            of=len(ids),
            head="" if self.head is None else self.head.about,
        )

    def _head(self, classifier: Classifier | str | Path | None, device: str) -> Head | None:
        if classifier is not None:
            if not isinstance(classifier, Classifier):
                classifier = Classifier.load(classifier)
            head: Head = PooledHead(self.encoder, classifier)
        elif self.encoder.head() is not None:
            head = Head(self.encoder)
        else:
            return None
        head.to(device)
        return head

    def _words(
        self, state: Text, at: Sequence[int], start: int, text: int, shortlist: int
    ) -> tuple[list[dict[str, np.ndarray]], dict[int, str]]:
        """What real words did at every position, and the words by their ids."""
        found = []
        for number, row in enumerate(at):
            own = Stream(self.seed, "explain", text=text, position=start + row - len(self.before))
            others = self.words[self.words != int(state.ids[row])]
            if self.exhaustive:
                parts = [_arrays(part, state) for part in state.parts(row, others)]
            else:
                parts = [_arrays(state.shortlisted(row, others, shortlist, own), state)]
            found.append(
                {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            )
            advance(number + 1, len(at))
        ids = np.unique(np.concatenate([part["word"] for part in found])).tolist()
        return found, dict(zip(ids, self.encoder.pieces(ids, in_text=False), strict=True))

    def _searched(
        self,
        inside: list[int],
        whole: torch.Tensor,
        rows: list[int],
        at: list[int],
    ) -> dict[str, np.ndarray]:
        """The largest relative changes found in the ball of each position, (P,), by target."""
        (starts, steps), of_output, _ = EFFORTS[self.effort]
        options: dict[str, Any] = {"starts": starts, "steps": steps, "seed": self.seed}
        depth, head = self.known.depth, self.head
        with stage(1 if head is None else 0.5):
            layers = layer_sensitivity(
                self.known, inside, positions=rows, layers=[depth], **options
            )
        sup = {f"layer {depth}": layers.by_position[:, 0].numpy()}
        if head is None:
            return sup
        view = OutputView(head, self.known, whole, torch.tensor(at))
        starts, steps = of_output
        shape = (starts, 1, view.tokens.shape[-1])
        drawn = [
            Stream(self.seed, "output", row=row).normal(*shape, dtype=torch.float64) for row in at
        ]
        with stage(0.5):
            best = climb(view, torch.stack(drawn)[None].to(view.tokens), anneal=0, steps=steps)
        return sup | {OUTPUT: (best.value.sqrt() / view.norm)[0].double().cpu().numpy()}


def _encoder(model: Measurable, tokenizer: Any) -> Encoder:
    if isinstance(model, LayeredEncoder):
        # Its weights may be drawn, or its word moved elsewhere; the output needs the whole model.
        raise UserError("explain takes no LayeredEncoder; give the path or the Encoder behind it")
    if isinstance(model, torch.nn.Module):
        return Encoder.of(model, tokenizer)
    if tokenizer is None and isinstance(model, (str, Path)):
        return Encoder.open(model)
    if tokenizer is None and isinstance(model, Encoder):
        return model
    return layered(model, tokenizer).encoder  # which says what is wrong


def _scaled(state: Text) -> np.ndarray | None:
    """The unchanged text's logits of classes, or log-probabilities of next tokens, (C,)."""
    if state.head is None or state.logits is None:
        return None
    own = state.logits.double().cpu()
    return (own.log_softmax(0) if state.head.kind == NEXT_TOKEN else own).numpy()


def _arrays(part: Replaced, state: Text) -> dict[str, np.ndarray]:
    """What words did, as arrays; the output's change is that of φ."""
    found = {
        "word": part.ids.numpy(),
        "change": part.change.double().numpy(),
        "distance": part.distance.double().numpy(),
    }
    head = state.head
    if head is None or part.logits is None or state.logits is None:
        return found
    own, after = state.logits.cpu().double(), part.logits.double()
    base = head.features(own)
    found["output"] = ((head.features(after) - base).norm(dim=1) / base.norm()).numpy()
    verdict, first = after.argmax(1), int(own.argmax())
    if head.kind == NEXT_TOKEN:
        own, after = own.log_softmax(0), after.log_softmax(1)
    found["verdict"] = verdict.numpy()
    found["old_after"] = after[:, first].numpy()
    found["new_after"] = after.gather(1, verdict[:, None])[:, 0].numpy()
    found["new_before"] = own[verdict].numpy()
    return found
