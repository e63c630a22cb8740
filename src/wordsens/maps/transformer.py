"""A random transformer: blocks of attention and MLPs, every part of which can be taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wordsens.activations import activation
from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.maps.attention.layer import AttentionMap, temperature
from wordsens.maps.attention.normalization import Normalization, ReLU, Softmax
from wordsens.maps.attention.state import Projection
from wordsens.maps.base import FeatureMap
from wordsens.maps.blocks.block import Block, Design
from wordsens.maps.blocks.view import WORKING_BYTES, BlocksView
from wordsens.maps.declaration import DEFAULTS, Effort, LossEffort, MapOptions
from wordsens.perturbation import OneTokenView
from wordsens.randomness import Stream

NORMALIZATIONS: dict[str, type[Normalization]] = {"softmax": Softmax, "relu": ReLU}
OWN: dict[str, dict[str, Any]] = {
    "attention": {
        "description": "How scores become weights over the keys.",
        "enum": list(NORMALIZATIONS),
        "default": "softmax",
    },
    "residual": {
        "description": "Weight ρ of the residual connections; 0 is none.",
        "type": "number",
        "minimum": 0,
        "maximum": 1000,
        "default": 1,
    },
    "layer_norm": {
        "description": "Layer norm: none, before attention and MLP, or after their sum with ρ x.",
        "enum": ["none", "before", "after"],
        "default": "after",
    },
    "mlp": {
        "description": "Width r of the MLP in units of d; 0 is none.",
        "type": "integer",
        "minimum": 0,
        "maximum": 64,
        "default": 4,
    },
}


class Transformer(FeatureMap):
    """L blocks of H heads of attention (2) and an MLP, with residual connections and layer norms.

    Heads have dimension d/H and stand side by side; all weights are N(0, 1/fan-in).  With one block
    and ``residual=0, layer_norm="none", mlp=0`` it is ``qkv`` with head_dim = d/H, drawn alike.

    Weights of your own are ``WQ`` (L, H, d', d) and perhaps ``WK``, ``WV`` alike (else the
    identity), ``WO`` (L, d, H d'), ``W1`` (L, r d, d) and ``W2`` (L, d, r d).
    """

    name = "transformer"
    title = "Random transformer"
    short = "TF"
    options = {  # noqa: RUF012
        "depth": None,
        "heads": None,
        "activation": None,
        "temperature": None,
        **OWN,
    }
    needs = ("depth",)
    weight_names = ("WQ",)
    effort = Effort(starts=8, anneal=0, steps=56)  # exploring and refining (search.momentum)

    def __init__(self, weights: Mapping[str, torch.Tensor], options: MapOptions) -> None:
        """``weights`` with a first axis of draws, before those of the class's description."""
        WQ = weights["WQ"]
        if any(len(W) != len(WQ) or W.shape[1] != WQ.shape[1] for W in weights.values()):
            shapes = ", ".join(f"{name} {tuple(W.shape[1:])}" for name, W in weights.items())
            raise UserError(f"weights of transformer have different numbers of layers: {shapes}")
        self.batch: int | None = len(WQ)
        self.dtype, self.device, self.chosen = WQ.dtype, WQ.device, options
        design, tau = _design(options), temperature(options)
        query = WQ / (WQ.shape[-2] ** 0.5 * tau)
        key, value, out, up, down = (weights.get(x) for x in ("WK", "WV", "WO", "W1", "W2"))
        self.blocks = [
            Block(
                design,
                Projection(query[:, layer]),
                Projection(_layer(key, layer)),
                Projection(_layer(value, layer)),
                *(_layer(W, layer) for W in (out, up, down)),
            )
            for layer in range(WQ.shape[1])
        ]

    @classmethod
    def with_weights(
        cls,
        weights: Mapping[str, Any],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> Transformer:
        names = [x for x in ("WQ", "WK", "WV", "WO", "W1", "W2") if x in weights or x == "WQ"]
        given = cls.taken(weights, names, dtype, device)
        made = cls({name: W[None] for name, W in zip(names, given, strict=True)}, options)
        made.batch = None
        return made

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> Transformer:
        d, heads, depth = shape[1], options.heads, options.depth
        if d % heads:
            raise UserError(f"heads = {heads} must divide d = {d}; the heads share a token's space")
        hidden = _own("mlp", options) * d
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("WQ", "WK", "WV"), (heads, d // heads, d)
        )
        if hidden:
            shapes |= {"W1": (hidden, d), "W2": (d, hidden)}

        def drawn(stream: Stream, name: str, layer: int) -> torch.Tensor:
            own = stream.child(name, layer=layer) if layer else stream.child(name)  # qkv's
            return own.normal(*shapes[name], dtype=dtype) / shapes[name][-1] ** 0.5

        def each(name: str) -> torch.Tensor:
            rows = [torch.stack([drawn(s, name, layer) for layer in range(depth)]) for s in streams]
            return torch.stack(rows).to(device)

        return cls({name: each(name) for name in shapes}, options)

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X), (..., n, d) → (..., n, d)."""
        X = self.cast(X)
        x = X.reshape(self.batch or 1, -1, *X.shape[-2:])
        for block in self.blocks:
            x = block(x)
        return x.reshape(*X.shape[:-1], x.shape[-1])

    def check_size(self, n: int, d: int) -> None:
        matrix = self.blocks[0].query.matrix
        if matrix is not None and matrix.shape[-1] != d:
            raise UserError(
                f"X has tokens of dimension {d}; this {self.name} map was built for d = "
                f"{matrix.shape[-1]}"
            )

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> OneTokenView:
        return BlocksView(self.blocks, X, sets)

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        # one layer is smooth, and searched as attention alone is; layers pile up small hills
        one = options.depth == 1 and _own("attention", options) == "softmax"
        return AttentionMap.effort if one else cls.effort

    @classmethod
    def loss_effort_for(cls, n: int, d: int) -> LossEffort:
        # an evaluation is a pass through all layers
        return LossEffort(8, explore=20, polish=30, rounds=2, beside=2)

    # Sizes

    @classmethod
    def score_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return n * n * options.heads

    @classmethod
    def weight_count(cls, d: int, options: MapOptions = DEFAULTS) -> int:
        """Numbers in the weights of one draw."""
        return options.depth * d * d * (3 + 2 * _own("mlp", options))

    @classmethod
    def trial_bytes(
        cls, n: int, d: int, options: MapOptions, *, effort: Effort, sets: int, size: int
    ) -> int:
        """Weights, and the candidates' ways back, which go through in chunks."""
        kept = options.depth * n * (d * (10 + 2 * _own("mlp", options)) + 3 * options.heads * n)
        return size * (cls.weight_count(d, options) + min(effort.starts * kept, 1 << 26))

    @classmethod
    def sensitivity_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return 4 * 8 * cls.weight_count(d, options) + 2 * WORKING_BYTES

    @classmethod
    def generalization_bytes(
        cls, n: int, d: int, options: MapOptions = DEFAULTS, *, size: int = 4
    ) -> int:
        return 4 * size * cls.weight_count(d, options) + 2 * WORKING_BYTES

    @classmethod
    def vocabulary_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return 32 * cls.weight_count(d, options) + 2 * WORKING_BYTES


def _layer(W: torch.Tensor | None, layer: int) -> torch.Tensor | None:
    """One layer's part of weights (T, L, ...)."""
    return None if W is None else W[:, layer]


def _own(name: str, options: MapOptions) -> Any:
    """An option of this map alone, checked; its default where it was not given."""
    rule, value = OWN[name], options.more.get(name, OWN[name]["default"])
    if "enum" in rule:
        if value not in rule["enum"]:
            raise UserError(f"{name} = {value!r}; allowed: {', '.join(rule['enum'])}")
        return value
    kind = int if rule["type"] == "integer" else (int, float)
    low, high = rule["minimum"], rule["maximum"]
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        a_number = "an integer" if kind is int else "a number"
        raise UserError(f"{name} = {value!r} must be {a_number} from {low} to {high}")
    return value


def _design(options: MapOptions) -> Design:
    return Design(
        NORMALIZATIONS[_own("attention", options)](),
        float(_own("residual", options)),
        _own("layer_norm", options),
        activation(options.activation),
    )
