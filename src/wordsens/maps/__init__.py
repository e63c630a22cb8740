"""Feature maps by name, and ``build_map``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from wordsens.activations import activation as activation_by_name
from wordsens.arguments import device_of, real_tensor
from wordsens.errors import UserError, whole_number
from wordsens.maps.base import FeatureMap, MapOptions, position_sets
from wordsens.maps.qkv import QueryKeyValueFeatures
from wordsens.maps.raf import RandomAttentionFeatures, ReLUAttentionFeatures
from wordsens.maps.random_features import DeepRandomFeatures, RandomFeatures, dense
from wordsens.randomness import Stream

MAPS: dict[str, type[FeatureMap]] = {
    cls.name: cls
    for cls in (
        RandomFeatures,
        DeepRandomFeatures,
        RandomAttentionFeatures,
        ReLUAttentionFeatures,
        QueryKeyValueFeatures,
    )
}

__all__ = ["MAPS", "FeatureMap", "MapOptions", "build_map", "position_sets"]


def map_class(name: str) -> type[FeatureMap]:
    """The map of that name; ``UserError`` names the known ones."""
    if not isinstance(name, str) or name not in MAPS:
        raise UserError(f"map {name!r} is not known; choose one of {', '.join(MAPS)}")
    return MAPS[name]


def build_map(
    name: str,
    *,
    weights: Mapping[str, Any] | None = None,
    n: int | None = None,
    d: int | None = None,
    k: int | None = None,
    seed: int = 0,
    activation: str = "relu",
    depth: int | None = None,
    heads: int = 1,
    head_dim: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """A feature map with given or freshly drawn weights.

    ``weights`` by name: ``V1`` (rf), ``V1`` … ``VL`` (drf), ``W`` (raf, relu_raf), ``WQ``,
    ``WK``, ``WV`` (qkv).  Without weights they are drawn from the stream named by ``seed``: rf
    and drf need ``n`` and ``d`` (width ``k``, default n·d), the attention maps ``d``.
    Raises ``UserError`` for unknown names and missing sizes.
    """
    cls = map_class(name)
    sizes = {"n": n, "d": d, "k": k, "depth": depth, "heads": heads, "head_dim": head_dim}
    for size, value in sizes.items():
        if value is not None:
            whole_number(size, value)
    device = device_of(device)
    if dtype not in (torch.float32, torch.float64):
        raise UserError(f"dtype = {dtype} must be torch.float32 or torch.float64")
    random_features = issubclass(cls, DeepRandomFeatures)
    if depth is not None and name != "drf":
        raise UserError(f"depth = {depth} was given, but only map drf has layers, not {name}")
    if name != "qkv" and (heads != 1 or head_dim is not None):
        raise UserError(f"heads and head_dim are only for map qkv, not {name}")
    if k is not None and not random_features:
        raise UserError(f"k = {k} was given, but only maps rf and drf have a width, not {name}")
    if weights is not None and not isinstance(weights, Mapping):
        raise UserError(
            f"weights are {type(weights).__name__}; give them by name, as {{'W': W}} for map raf"
        )
    if weights is not None:
        return _with_weights(cls, weights, activation, dtype, device)
    missing = [key for key, value in {"n": n, "d": d}.items() if value is None]
    if not random_features:
        missing = [key for key in missing if key == "d"]
    if missing:
        raise UserError(f"build_map({name!r}) needs {' and '.join(missing)}, or weights")
    options = MapOptions(k, depth or 1, activation, heads, head_dim)
    stream = Stream(seed, "map", map=name)
    drawn = cls.draw((n or 0, d or 0), [stream], options, dtype=dtype, device=device)
    drawn.batch = None  # one draw, for samples with any leading axes
    return drawn


def _with_weights(
    cls: type[FeatureMap],
    weights: Mapping[str, Any],
    activation: str,
    dtype: torch.dtype,
    device: torch.device | str,
) -> FeatureMap:
    def take(*names: str) -> list[Any]:
        absent = [name for name in names if name not in weights]
        if absent:
            raise UserError(
                f"map {cls.name} needs weights {', '.join(names)}; got {', '.join(weights)}"
            )
        return [weights[name] for name in names]

    if issubclass(cls, DeepRandomFeatures):
        depth = 1 if cls is RandomFeatures else sum(name.startswith("V") for name in weights)
        given = take(*(f"V{layer}" for layer in range(1, max(depth, 1) + 1)))
        layers = [dense(f"V{i}", V, dtype, device) for i, V in enumerate(given, start=1)]
        return cls(layers, activation_by_name(activation))
    names = ("WQ", "WK", "WV") if cls is QueryKeyValueFeatures else ("W",)
    given = [
        real_tensor(f"weights {each}", W).to(dtype=dtype, device=device)
        for each, W in zip(names, take(*names), strict=True)
    ]
    return cls(*given)  # type: ignore[call-arg]
