"""A BERT-style encoder as a function of its input embeddings, layer by layer.

X (batch, n, d) is the output of the embedding layer, which is layer 0; H_l(X) are the hidden
states after l blocks.  Samples have one common length, so that there is no padding and no mask.
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from wordsens.arguments import device_of
from wordsens.data.encoders import Encoder
from wordsens.errors import UserError
from wordsens.randomness import Stream

WEIGHTS = ("pretrained", "random")
# Where a word is moved: behind the embedding layer, or before it adds positions and normalises.
PERTURBED = ("layer0", "word_vector")


class LayeredEncoder:
    """An encoder's layers, differentiable in the input embeddings; weights are frozen."""

    def __init__(self, encoder: Encoder, model: Any, perturb: str = "layer0") -> None:
        if perturb not in PERTURBED:
            raise UserError(f"perturb {perturb!r} is not known; choose {' or '.join(PERTURBED)}")
        self.encoder, self.model, self.perturb = (
            encoder,
            model.eval().requires_grad_(False),
            perturb,
        )

    @classmethod
    def load(
        cls,
        encoder: Encoder | str | Path,
        weights: str = "pretrained",
        *,
        stream: Stream | None = None,
        perturb: str = "layer0",
        device: str = "cpu",
    ) -> LayeredEncoder:
        """The encoder with its pretrained weights, or with random ones drawn from ``stream``.

        Random weights follow the encoder's own initialisation: matrices and embeddings
        N(0, initializer_range²), biases 0, normalisations the identity.
        """
        opened = encoder if isinstance(encoder, Encoder) else Encoder.open(encoder)
        if weights not in WEIGHTS:
            raise UserError(f"weights {weights!r} are not known; choose {' or '.join(WEIGHTS)}")
        model = opened.model()
        if weights == "random":
            model = copy.deepcopy(model)
            _initialise(model, stream or Stream(0, "weights"))
        return cls(opened, model.to(device_of(device)), perturb)

    @property
    def depth(self) -> int:
        """The number of blocks L."""
        return len(self._blocks)

    @property
    def device(self) -> torch.device:
        return self.model.embeddings.word_embeddings.weight.device

    @property
    def _blocks(self) -> Any:
        return self.model.encoder.layer

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """What a word is moved in, (batch, n, d): layer 0, or the static word vectors.

        Raises UserError for more tokens than the encoder has positions.
        """
        n, most = token_ids.shape[-1], self.encoder.max_tokens
        if n > most:
            raise UserError(f"{self.encoder.key}: has positions for {most} tokens, not {n}")
        with torch.no_grad():
            ids = token_ids.to(self.device)
            if self.perturb == "word_vector":
                return self.model.embeddings.word_embeddings(ids)
            return self.model.embeddings(input_ids=ids)

    def layers(self, embedded: torch.Tensor) -> Generator[torch.Tensor, torch.Tensor | None, None]:
        """H_0, H_1, …, H_L for embeddings as from ``embed``, made one after the other.

        Where a gradient is wanted, a block keeps its input alone and runs again on the way back.
        A caller may ``send`` the states, or some samples of them, that the next block shall see.
        """
        states = embedded
        if self.perturb == "word_vector":
            states = self.model.embeddings(inputs_embeds=embedded)
        states = _sent((yield states), states)
        for block in self._blocks:
            if torch.is_grad_enabled() and states.requires_grad:
                states = _states(checkpoint(block, states, None, use_reentrant=False))
            else:
                states = _states(block(states, None))
            states = _sent((yield states), states)

    def first_attention(self, embedded: torch.Tensor) -> torch.Tensor:
        """The attention scores of the first block, (batch, heads, n, n), rows adding up to 1.

        Raises UserError where the model does not hand them out, as without eager attention.
        """
        seen: list[torch.Tensor] = []
        block = self._blocks[0]
        hook = block.attention.self.register_forward_hook(lambda *call: seen.append(call[2][1]))
        try:
            with torch.no_grad():
                states = next(self.layers(embedded))
                block(states, None)
        finally:
            hook.remove()
        batch, n = embedded.shape[:2]
        heads = block.attention.self.num_attention_heads
        if not seen or seen[0] is None or seen[0].shape != (batch, heads, n, n):
            raise UserError(f"{self.encoder.key}: the model returns no attention scores")
        return seen[0]

    def first_heads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """W_Q, W_K (heads, d', d) and the queries' bias (heads, d') of the first block."""
        own = self._blocks[0].attention.self
        shape = (own.num_attention_heads, own.attention_head_size)
        bias = own.query.bias
        if bias is None:
            bias = own.query.weight.new_zeros(own.all_head_size)
        queries = own.query.weight.reshape(*shape, -1)
        return queries, own.key.weight.reshape(*shape, -1), bias.reshape(shape)


def _sent(sent: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor:
    return states if sent is None else sent


def _states(output: Any) -> torch.Tensor:
    """A block's hidden states; earlier releases of transformers return them in a tuple."""
    return output[0] if isinstance(output, tuple) else output


def _initialise(model: torch.nn.Module, stream: Stream) -> None:
    std = float(model.config.initializer_range)  # type: ignore[union-attr, arg-type]
    with torch.no_grad():
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            if isinstance(module, torch.nn.LayerNorm):
                module.reset_parameters()
            elif weight is not None:
                weight.copy_(std * stream.child("matrix", name=name).normal(*weight.shape))
                if getattr(module, "bias", None) is not None:
                    module.bias.zero_()
