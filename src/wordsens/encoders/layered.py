"""A model as a function of its input embeddings, layer by layer.

X (batch, n, d) is what the first block receives, which is layer 0; H_l(X) are the hidden states
after l blocks.  Samples have one common length, so that there is no padding; a decoder's causal
mask is its own.
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from wordsens.arguments import device_of
from wordsens.data.blocks import Blocks
from wordsens.data.encoders import Encoder
from wordsens.encoders.heads import attention_scores, projections
from wordsens.errors import UserError
from wordsens.randomness import Stream

WEIGHTS = ("pretrained", "random")
# Where a word is moved: behind the embedding layer, or before it adds positions and normalises.
PERTURBED = ("layer0", "word_vector")


class LayeredEncoder:
    """A model's layers, differentiable in the input embeddings; weights are frozen."""

    def __init__(
        self, encoder: Encoder, model: Any, perturb: str = "layer0", weights: str = "pretrained"
    ) -> None:
        if perturb not in PERTURBED:
            raise UserError(f"perturb {perturb!r} is not known; choose {' or '.join(PERTURBED)}")
        blocks = model if isinstance(model, Blocks) else Blocks(model.eval(), encoder.key)
        if perturb == "layer0" and not blocks.stepwise:
            raise UserError(
                f"{encoder.key}: the blocks of a {type(blocks.model).__name__} cannot be followed "
                "one by one; perturb = word_vector moves a word all the same"
            )
        blocks.model.requires_grad_(False)
        self.encoder, self.blocks, self.perturb, self.weights = encoder, blocks, perturb, weights

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
        blocks = opened.blocks()
        if weights == "random":
            model = copy.deepcopy(blocks.model)
            _initialise(model, stream or Stream(0, "weights"))
            blocks = Blocks(model, opened.key)
        blocks.model.to(device_of(device))
        return cls(opened, blocks, perturb, weights)

    @property
    def model(self) -> Any:
        """The transformers model."""
        return self.blocks.model

    @property
    def depth(self) -> int:
        """The number of blocks L."""
        return self.blocks.depth

    @property
    def causal(self) -> bool:
        """Whether a word reaches only itself and what comes after it, as in a decoder."""
        return self.blocks.causal

    @property
    def device(self) -> torch.device:
        return self.blocks.device

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """What a word is moved in, (batch, n, d): layer 0, or the static word vectors.

        Raises UserError for more tokens than the encoder has positions, and for ids of no word.
        """
        self.encoder.check_ids(token_ids)
        with torch.no_grad():
            ids = token_ids.to(self.device)
            if self.perturb == "word_vector":
                vectors: torch.Tensor = self.blocks.embedding(ids)
                return vectors
            return self.blocks.enter(ids)

    def layers(
        self, embedded: torch.Tensor, token_ids: torch.Tensor, *, recompute: bool = True
    ) -> Generator[torch.Tensor, torch.Tensor | None, None]:
        """H_0, H_1, …, H_L for embeddings as from ``embed``, made one after the other.

        ``token_ids`` (n,) or (batch, n) are the texts whose words were moved: a model may count
        positions by them.  Where a gradient is wanted, a block keeps its input alone and runs again
        on the way back, unless ``recompute`` is False.  A caller may ``send`` the first samples of
        the states, to have the next blocks run on those alone.
        """
        ids = token_ids.to(self.device).expand(len(embedded), -1)
        if not self.blocks.stepwise:
            kept = len(embedded)
            for states in self.blocks.whole(ids, embedded):
                sent = yield states[:kept]
                kept = kept if sent is None else len(sent)
            return
        states = embedded
        if self.perturb == "word_vector":
            states = self.blocks.enter(ids, embedded)
        states = _sent((yield states), states)
        for layer in range(1, self.depth + 1):
            if recompute and torch.is_grad_enabled() and states.requires_grad:
                states = checkpoint(self.blocks.step, layer, states, ids, use_reentrant=False)
            else:
                states = self.blocks.step(layer, states, ids)
            states = _sent((yield states), states)

    def first_attention(self, embedded: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        """The attention scores of the first block, (batch, heads, n, n), rows adding up to 1.

        Raises UserError where the model does not hand them out.
        """
        ids = token_ids.to(self.device).expand(len(embedded), -1)
        with torch.no_grad():
            return attention_scores(self.blocks, next(self.layers(embedded, ids)), ids)

    @cached_property
    def attracts(self) -> bool:
        """Whether the first block's heads score layer 0 itself; see ``first_heads``."""
        try:
            self.first_heads()
        except UserError:
            return False
        return True

    def first_heads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """W_Q, W_K (heads, d', d) and the queries' bias (heads, d') of the first block."""
        ids = torch.arange(2, device=self.device)[None]
        return projections(self.blocks, self.blocks.enter(ids), ids)


Measurable = LayeredEncoder | Encoder | str | Path | torch.nn.Module


def layered(
    model: Measurable,
    tokenizer: Any = None,
    *,
    weights: str = "pretrained",
    stream: Stream | None = None,
    perturb: str = "layer0",
    device: str = "cpu",
) -> LayeredEncoder:
    """A path, an ``Encoder`` or a loaded model of transformers with its tokenizer, layer by layer.

    Raises UserError for anything else, and for an argument that the model would not follow.
    """
    if tokenizer is not None and not isinstance(model, torch.nn.Module):
        raise UserError(
            f"tokenizer goes with a loaded model of transformers; a {type(model).__name__} has its "
            "own, so leave it out"
        )
    if isinstance(model, LayeredEncoder):
        fixed = {"weights": model.weights, "perturb": model.perturb, "device": str(model.device)}
        asked = {"weights": weights, "perturb": perturb, "device": device}
        usual = {"weights": "pretrained", "perturb": "layer0", "device": "cpu"}
        for name, value in asked.items():
            if value not in (fixed[name], usual[name]):
                raise UserError(
                    f"{name} = {value!r} would be ignored: this encoder was loaded before; give "
                    f"LayeredEncoder.load {name}= instead, or this function the encoder's path"
                )
        return model
    if isinstance(model, torch.nn.Module):
        model = Encoder.of(model, tokenizer)
    elif not isinstance(model, (Encoder, str, Path)):
        raise UserError(
            f"a {type(model).__name__} is no model; allowed: a path, an Encoder, or a loaded model "
            "of transformers with tokenizer="
        )
    return LayeredEncoder.load(model, weights, stream=stream, perturb=perturb, device=device)


def _sent(sent: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor:
    return states if sent is None else sent


@torch.no_grad()
def _initialise(model: Any, stream: Stream) -> None:
    _as_the_family_does(model, stream)
    std = getattr(model.config, "initializer_range", None)
    if std is None:
        return
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, torch.nn.LayerNorm):
            module.reset_parameters()
        elif weight is not None and weight.ndim > 1:
            weight.copy_(float(std) * stream.child("matrix", name=name).normal(*weight.shape))
            if getattr(module, "bias", None) is not None:
                module.bias.zero_()


def _as_the_family_does(model: Any, stream: Stream) -> None:
    """transformers' own initialisation, which alone knows a family's normalisations and scales."""
    for parameter in model.parameters():
        parameter.fill_(torch.nan)
        parameter._is_hf_initialized = False
    with torch.random.fork_rng():
        torch.manual_seed(int(stream.child("family").generator().integers(2**62)))
        model.apply(model._init_weights)
        for parameter in model.parameters():
            if bool(parameter.isnan().any()):  # a family without a rule for it
                parameter.normal_(0, 0.02) if parameter.ndim > 1 else parameter.zero_()
