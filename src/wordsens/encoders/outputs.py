"""What a model answers: class logits, or the distribution of the next token.

φ(X) is the vector of logits of a sequence classifier, and the vector of probabilities p of the
token that a decoder puts after the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from wordsens.data.encoders import Encoder
from wordsens.encoders.classifier import Classifier
from wordsens.errors import UserError
from wordsens.memory import batch_bytes

CLASSES, NEXT_TOKEN = "classes", "next_token"
WORKING_BYTES = 1 << 27  # what a batch of changed texts may take, roughly


class Head:
    """A model with its head; ``kind`` is "classes" or "next_token"."""

    about = ""  # what it is, where it is no head of the model's own
    reads_all = False  # whether an answer needs the states of all tokens at once

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.model = encoder, encoder.head()
        if self.model is None:
            raise UserError(
                f"{encoder.key}: has no head for sequences or next tokens; its layers can be "
                "measured all the same"
            )
        self.blocks = encoder.blocks()
        self.kind = CLASSES if type(self.model).__name__.endswith("Classification") else NEXT_TOKEN
        if self.kind == CLASSES and self.model.config.pad_token_id is None:
            self.model.config.pad_token_id = -1  # a decoder reads the last token that is not this
        self.model.requires_grad_(False)

    def to(self, device: str) -> None:
        self.model.to(device)

    @property
    def labels(self) -> list[str]:
        """The names of the classes, or the vocabulary as it is shown."""
        if self.kind == CLASSES:
            names = self.model.config.id2label
            return [str(names[i]) for i in range(len(names))]
        known = min(len(self.encoder.tokenizer), self.blocks.rows)
        return [
            *self.encoder.pieces(range(known), in_text=False),
            *[""] * (self.blocks.rows - known),
        ]

    def logits(
        self,
        ids: torch.Tensor,
        vectors: torch.Tensor | None = None,
        states: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits (batch, C) of texts (batch, n), of word vectors or of H_0 in their places."""
        with self.blocks.instead(vectors, states):
            return self.answer(self.model(input_ids=ids, **self.sparing))

    def features(self, logits: torch.Tensor) -> torch.Tensor:
        """φ: the logits of classes, the probabilities of next tokens."""
        return logits if self.kind == CLASSES else logits.softmax(-1)

    def answer(self, output: Any) -> torch.Tensor:
        """The logits (batch, C) that count in an output of the model: of a decoder, the last."""
        logits: torch.Tensor = output.logits
        return logits[:, -1] if self.kind == NEXT_TOKEN else logits

    def at_once(self, n: int) -> int:
        """Texts of n tokens that run together so that memory stays bounded."""
        config, d = self.model.config, self.blocks.size
        row = 24 * n * d + 3 * config.num_attention_heads * n * n
        out = 3 * (self.blocks.rows if self.kind == NEXT_TOKEN else 1)
        return max(1, batch_bytes(WORKING_BYTES, self.blocks.device) // (4 * (row + out)))

    @property
    def sparing(self) -> dict[str, int]:
        """A decoder's head is large and only its last token's answer is wanted."""
        return {"logits_to_keep": 1} if self.kind == NEXT_TOKEN else {}


class PooledHead(Head):
    """A classifier on the mean of a model's last hidden states."""

    reads_all = True

    def __init__(self, encoder: Encoder, classifier: Classifier) -> None:
        classifier.check(encoder)
        self.encoder, self.blocks = encoder, encoder.blocks()
        self.model, self.kind, self.about = self.blocks.model, CLASSES, classifier.about
        self.names, self.weight, self.bias = classifier.labels, classifier.weight, classifier.bias
        self.model.requires_grad_(False)

    def to(self, device: str) -> None:
        super().to(device)
        self.weight, self.bias = self.weight.to(device), self.bias.to(device)

    @property
    def labels(self) -> list[str]:
        return list(self.names)

    def answer(self, output: Any) -> torch.Tensor:
        mean = output.last_hidden_state.mean(1)
        return mean @ self.weight.to(mean).T + self.bias.to(mean)


def in_parts(count: int, at_once: int) -> Iterator[slice]:
    """0 … count - 1 in slices of at most ``at_once``."""
    for first in range(0, count, at_once):
        yield slice(first, min(count, first + at_once))
