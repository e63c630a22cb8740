"""What a model answers: class logits, or the distribution of the next token.

φ(X) is the vector of logits of a sequence classifier, and the vector of probabilities p of the
token that a decoder puts after the text.  Both are exact outputs of the model itself, run whole by
transformers' own code; only where a decoder reads a text up to the changed word, what it keeps of
the words before is taken over (keys and values do not depend on what comes later).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from wordsens.data.encoders import Encoder
from wordsens.errors import UserError

CLASSES, NEXT_TOKEN = "classes", "next_token"
WORKING_BYTES = 1 << 27  # what a batch of changed texts may take, roughly


class Head:
    """A model with its head; ``kind`` is "classes" or "next_token"."""

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
            return self._last(self.model(input_ids=ids, **self._sparing()))

    def features(self, logits: torch.Tensor) -> torch.Tensor:
        """φ: the logits of classes, the probabilities of next tokens."""
        return logits if self.kind == CLASSES else logits.softmax(-1)

    @torch.no_grad()
    def replaced(self, ids: torch.Tensor, position: int, words: torch.Tensor) -> torch.Tensor:
        """Logits (len(words), C) of a text (n,) with each of the words at a position."""
        ids, words = ids.to(self.blocks.device), words.to(self.blocks.device)
        prefix = position if self.kind == NEXT_TOKEN and self.blocks.causal else 0
        found = []
        for part in words.split(self.at_once(len(ids), prefix)):
            changed = ids.repeat(len(part), 1)
            changed[:, position] = part
            found.append(self._after(changed, prefix))
        return torch.cat(found)

    def at_once(self, n: int, prefix: int = 0) -> int:
        """Texts of n tokens that run together so that memory stays bounded."""
        config, d = self.model.config, self.blocks.size
        row = 24 * (n - prefix) * d + 3 * config.num_attention_heads * (n - prefix) * n
        kept = 2 * self.blocks.depth * prefix * d
        out = 3 * (self.blocks.rows if self.kind == NEXT_TOKEN else 1)
        return max(1, WORKING_BYTES // (4 * (row + kept + out)))

    def _after(self, texts: torch.Tensor, prefix: int) -> torch.Tensor:
        """Logits of texts that have the first ``prefix`` tokens in common."""
        if not prefix:
            return self.logits(texts)
        before = self.model(input_ids=texts[:1, :prefix], use_cache=True, **self._sparing())
        # transformers 5.20 renamed what earlier releases call past_key_values.
        name = "cache" if getattr(before, "cache", None) is not None else "past_key_values"
        kept = getattr(before, name)
        kept.batch_repeat_interleave(len(texts))
        given = {name: kept, "use_cache": True, **self._sparing()}
        return self._last(self.model(input_ids=texts[:, prefix:], **given))

    def _last(self, output: Any) -> torch.Tensor:
        logits: torch.Tensor = output.logits
        return logits[:, -1] if self.kind == NEXT_TOKEN else logits

    def _sparing(self) -> dict[str, int]:
        """A decoder's head is large and only its last token's answer is wanted."""
        return {"logits_to_keep": 1} if self.kind == NEXT_TOKEN else {}


def in_parts(count: int, at_once: int) -> Iterator[slice]:
    """0 … count - 1 in slices of at most ``at_once``."""
    for first in range(0, count, at_once):
        yield slice(first, min(count, first + at_once))
