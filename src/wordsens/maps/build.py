"""``build_map``: a map by name, with given or freshly drawn weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wordsens.arguments import device_of
from wordsens.deferred import torch
from wordsens.errors import UserError, whole_number
from wordsens.maps.declaration import DEFAULTS, MapOptions
from wordsens.maps.registry import declared, map_class
from wordsens.randomness import Stream

if TYPE_CHECKING:
    from wordsens.maps.base import FeatureMap


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
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    **more: Any,
) -> FeatureMap:
    """A feature map with given or freshly drawn weights, in float64 unless ``dtype`` says else.

    ``weights`` by name: ``V1`` (rf), ``V1`` … ``VL`` (drf), ``W`` (raf, relu_raf), ``WQ``,
    ``WK``, ``WV`` (qkv), ``WQ`` and perhaps others (transformer, see its class).  Without weights
    they are drawn from the stream named by ``seed``: rf and drf need ``n`` and ``d`` (width ``k``,
    default n·d), the attention maps ``d``.  ``more`` are options that only this map has.
    Raises ``UserError`` for unknown names, missing sizes and options that the map does not have.

    >>> import torch
    >>> raf = build_map("raf", d=16, seed=1)
    >>> raf.features(torch.randn(3, 8, 16)).shape
    torch.Size([3, 8, 16])
    >>> identity = build_map("raf", weights={"W": torch.eye(16)})
    """
    cls = map_class(name)
    sizes = {"n": n, "d": d, "k": k, "depth": depth, "heads": heads, "head_dim": head_dim}
    for size, value in sizes.items():
        if value is not None:
            whole_number(size, value)
    device = device_of(device)
    dtype = torch.float64 if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise UserError(f"dtype = {dtype} must be torch.float32 or torch.float64")
    options = MapOptions(k, depth or 1, activation, heads, head_dim, more)
    given: dict[str, tuple[str, Any]]
    given = {"k": ("width", k), "depth": ("depth", depth), "head_dim": ("head_dim", head_dim)}
    given["heads"] = ("heads", None if heads == DEFAULTS.heads else heads)
    given["activation"] = ("activation", None if activation == DEFAULTS.activation else activation)
    given |= {word: (word, value) for word, value in more.items()}
    for word, (option, value) in given.items():
        if value is not None and option not in cls.options:
            having = [other for other, each in declared().items() if option in each.options]
            raise UserError(
                f"{word} = {value} was given, but map {name} has none; "
                + (f"only for {' and '.join(having)}" if having else "no map has it")
            )
    if weights is not None and not isinstance(weights, Mapping):
        raise UserError(
            f"weights are {type(weights).__name__}; give them by name, as {{'W': W}} for map raf"
        )
    if weights is not None:
        return cls.with_weights(weights, options, dtype=dtype, device=device)
    missing = [size for size in cls.sizes if sizes[size] is None]
    if missing:
        raise UserError(f"build_map({name!r}) needs {' and '.join(missing)}, or weights")
    stream = Stream(seed, "map", map=name)
    drawn = cls.draw((n or 0, d or 0), [stream], options, dtype=dtype, device=device)
    drawn.batch = None  # one draw, for samples with any leading axes
    return drawn
