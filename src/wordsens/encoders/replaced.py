"""Words of the vocabulary in a word's place: every layer and the output in one run of the model.

Exhaustively every candidate runs.  Else a shortlist does: some at random, then those that the
gradient promises most (as in HotFlip, Ebrahimi et al., ACL 2018).  At a word u that has run,
F(e_v) ≈ F(e_u) + ⟨∇F(e_u), e_v − e_u⟩, with F = ‖H_l − H_l(X)‖² for the first and the last layer,
and at the text's own word the margin by which the model decides.  Every change that is returned is
exact, as the model has run on the changed text.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.outputs import Head
from wordsens.randomness import Stream

WORKING_BYTES = 1 << 25  # of activations that run together: little more than a cache holds
LEAST_TOKENS, WIDE = 1024, 8192  # tokens in a batch of a model whose L·d is larger than this


@dataclass(frozen=True)
class Replaced:
    """W words that ran at one position of a text.

    ids     their token ids, (W,)
    change  ‖H_l(X with the word) − H_l(X)‖ / ‖H_l(X)‖, (W, L+1)
    logits  of the output, (W, C); None without a head
    distance  ‖e_v − e_x‖ / ‖e_x‖ between word vectors, (W,)
    """

    ids: torch.Tensor
    change: torch.Tensor
    logits: torch.Tensor | None
    distance: torch.Tensor


class Text:
    """A text (n,) whose words are replaced; what it does unchanged is kept."""

    def __init__(self, model: LayeredEncoder, head: Head | None, token_ids: torch.Tensor) -> None:
        self.blocks, self.head = model.blocks, head
        self.ids = token_ids.to(model.device).long()
        with torch.no_grad():
            output = self._read(self.ids[None])
            self.base = [states[0] for states in output.hidden_states]
            self.norms = [float(states.norm()) for states in self.base]
            self.logits = None if head is None else head.answer(output)[0]

    def run(self, position: int, words: torch.Tensor) -> Replaced:
        """All of the words (W,) at a position."""
        return _joined(list(self.parts(position, words)))

    @torch.no_grad()
    def parts(self, position: int, words: torch.Tensor) -> Iterator[Replaced]:
        """The same in parts, as the logits of a vocabulary of words may be too large together."""
        words = words.to(self.ids)
        alone = self.blocks.causal and not (self.head is not None and self.head.reads_all)
        prefix = position if alone else 0
        before, table = self._before(prefix), self.blocks.embedding.weight
        own = table[self.ids[position]]
        for part in words.split(self._at_once(prefix)):
            texts = self.ids.repeat(len(part), 1)
            texts[:, position] = part
            output = self._read(texts, prefix, before)
            gaps = [
                (states - base[prefix:]).flatten(1).norm(dim=1) / norm
                for states, base, norm in zip(
                    output.hidden_states, self.base, self.norms, strict=True
                )
            ]
            logits = None if self.head is None else self.head.answer(output).cpu()
            distance = (table[part] - own).norm(dim=-1) / own.norm()
            yield Replaced(part.cpu(), torch.stack(gaps, 1).cpu(), logits, distance.cpu())

    def shortlisted(
        self, position: int, words: torch.Tensor, size: int, stream: Stream
    ) -> Replaced:
        """About ``size`` of the words: a quarter at random, the rest by their promise."""
        share = max(1, size // 4)
        chance = stream.generator().permutation(len(words))[:share]
        found = [self.run(position, words[torch.from_numpy(chance)])]
        vectors = self.blocks.embedding.weight.detach()
        left = torch.ones(self.blocks.rows, dtype=torch.bool)
        left[found[0].ids] = False
        for layer in (1, self.blocks.depth, None):
            if layer is None and self.head is None:
                continue
            u = int(self.ids[position])
            if layer is not None:
                best = [int(part.change[:, layer].argmax()) for part in found]
                tops = [
                    (part.change[i, layer], part.ids[i])
                    for part, i in zip(found, best, strict=True)
                ]
                u = int(max(tops, key=lambda top: float(top[0]))[1])
            waiting = words[left[words]]
            if not len(waiting):
                break
            slope = self._slope(position, u, layer)
            promise = (vectors[waiting.to(vectors.device)] - vectors[u]) @ slope
            chosen = waiting[promise.topk(min(share, len(waiting))).indices.cpu()]
            left[chosen] = False
            found.append(self.run(position, chosen))
        return _joined(found)

    def _slope(self, position: int, word: int, layer: int | None) -> torch.Tensor:
        """∇ of the layer's F, or of the margin of the runner-up, in the word's vector."""
        texts = self.ids[None].clone()
        texts[:, position] = word
        with torch.enable_grad():
            leaf = self.blocks.embedding(texts).detach().requires_grad_()
            if layer is None:
                assert self.head is not None
                logits = self.head.logits(texts, leaf)[0]
                first, second = logits.topk(2).indices.tolist()
                value = logits[second] - logits[first]
            else:
                with self.blocks.instead(leaf):
                    states = self.blocks.upto(texts, layer)
                value = (states[0] - self.base[layer]).square().sum()
            (slope,) = torch.autograd.grad(value, leaf)
        return slope[0, position]

    def _before(self, prefix: int) -> tuple[str, Any] | None:
        """What a decoder keeps of the first ``prefix`` tokens, which no batch reads again."""
        if not prefix:
            return None
        output = self.blocks.model(input_ids=self.ids[None, :prefix], use_cache=True)
        # Earlier releases of transformers call it past_key_values.
        name = "cache" if getattr(output, "cache", None) is not None else "past_key_values"
        return name, getattr(output, name)

    def _read(
        self, texts: torch.Tensor, prefix: int = 0, before: tuple[str, Any] | None = None
    ) -> Any:
        model = self.blocks.model if self.head is None else self.head.model
        options: dict[str, Any] = {"output_hidden_states": True}
        if self.head is not None:
            options |= self.head.sparing
        if before is not None:
            name, kept = before
            own = copy.deepcopy(kept)  # the model adds to it
            own.batch_repeat_interleave(len(texts))
            options |= {name: own, "use_cache": True}
        return model(input_ids=texts[:, prefix:], **options)

    def _at_once(self, prefix: int) -> int:
        n, d = self.base[-1].shape
        row = (16 + len(self.base)) * d + 3 * self.blocks.model.config.num_attention_heads * n
        out = 0 if self.logits is None else 2 * len(self.logits)
        kept = 2 * self.blocks.depth * prefix * d if prefix else 0
        fitting = WORKING_BYTES // (4 * (row * (n - prefix) + out + kept))
        # A large model reads its weights once for each batch, which must be worth it.
        return max(1, fitting, LEAST_TOKENS // (n - prefix) if self.blocks.depth * d > WIDE else 0)


def _joined(parts: Sequence[Replaced]) -> Replaced:
    logits = [part.logits for part in parts if part.logits is not None]
    return Replaced(
        torch.cat([part.ids for part in parts]),
        torch.cat([part.change for part in parts]),
        torch.cat(logits) if logits else None,
        torch.cat([part.distance for part in parts]),
    )
