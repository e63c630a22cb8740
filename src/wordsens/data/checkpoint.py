"""Whether what a model took from its safetensors files is all that they hold for it.

Tensors by their names: those that a model's blocks lack or leave unused, those of another shape, in
a form that is no real number, or there twice, are each one line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

# Heads of a bare model that no hidden state passes through.
NOT_NEEDED = re.compile(r"(^|\.)pooler\.")
# What is computed and not trained; older checkpoints store it.
COMPUTED = ("inv_freq", "position_ids", "attn.bias", "masked_bias", "_float_tensor", "version")
REAL = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def stored_types(files: Iterable[Path]) -> dict[str, str]:
    """The type of every tensor in safetensors files, by its name there: F32, I8 and so on."""
    found: dict[str, str] = {}
    for file in files:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        found |= {k: str(v["dtype"]) for k, v in header.items() if k != "__metadata__"}
    return found


def needed(names: Iterable[Any], head: str | None) -> list[str]:
    """Those of the names that matter to the bare model, or to one with that head."""
    every = sorted(map(str, names))
    return [name for name in every if head is not None or not NOT_NEEDED.search(name)]


def prefix_of(absent: list[str], stored: Iterable[str], what: str) -> str | None:
    """What stands before the name of every absent tensor in the files, if one thing does."""
    names = set(stored)
    wanted = absent[0]
    ends = [name for name in names if name.endswith("." + wanted)]
    prefixes = sorted(name[: -len(wanted)] for name in ends)
    fitting = [p for p in prefixes if all(p + name in names for name in absent)]
    if len(fitting) > 1:
        raise UserError(
            f"{what} holds several models ({', '.join(p[:-1] for p in fitting)}); save "
            "the one to be measured by itself"
        )
    return fitting[0] if fitting else None


def refuse_other_shapes(
    found: Iterable[tuple[str, Iterable[int], Iterable[int]]], head: str | None, what: str
) -> None:
    """Tensors that the files hold in another shape than the configuration says."""
    shapes = {name: (stored, asked) for name, stored, asked in found}
    wrong = needed(shapes, head)
    if wrong:
        stored, asked = ("×".join(map(str, shape)) for shape in shapes[wrong[0]])
        others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UserError(
            f"{what} holds {wrong[0]} of shape {stored}, and its config.json asks for "
            f"{asked}{others}; put the model's own config.json and weights together again"
        )


def refuse_unreal(model: torch.nn.Module, types: Mapping[str, str], what: str) -> None:
    """Weights that are no real numbers by themselves: quantized ones, or complex ones."""
    names = {name for name, _ in model.named_parameters()}
    for stored, kind in types.items():
        if kind in REAL:
            continue
        parts = stored.split(".")
        if any(".".join(parts[at:]) in names for at in range(len(parts))):
            raise UserError(
                f"{what} holds {stored} as {kind}, which is no weight by itself; give the model "
                f"as it was before it was quantized or converted, in {', '.join(REAL)}, or as GGUF"
            )


def refuse_twice(model: Any, types: Mapping[str, str], what: str) -> None:
    """Two tensors that the model would take for the same one, whichever comes last."""
    base = f"{model.base_model_prefix}." if model.base_model_prefix else ""
    names = {name.removeprefix(base) for name, _ in model.named_parameters()}
    seen: dict[str, str] = {}
    for stored in types:
        name = stored.removeprefix(base)
        for old, new in RENAMED.items():
            name = name.replace(old, new)
        if name in names and name in seen:
            raise UserError(
                f"{what} holds {seen[name]} and {stored}, and the model has one place for "
                "both; save the one to be measured by itself"
            )
        seen[name] = stored


def refuse_unused(model: Any, unexpected: Iterable[str], what: str) -> None:
    """A tensor inside the model that it leaves unused: adapters, other kinds of attention, blocks.

    What belongs to another head stands beside the model, and is no matter.
    """
    body = getattr(model, "base_model", model)
    inner = {name for name, child in body.named_children() if any(True for _ in child.children())}
    blocks = Counter(
        f"{parent}.{name}."
        for parent, module in model.named_modules()
        if type(module).__name__ == "ModuleList"
        for name, _ in module.named_children()
    )
    base = f"{model.base_model_prefix}." if getattr(model, "base_model_prefix", "") else ""
    for name in sorted(str(name) for name in unexpected):
        inside = name.removeprefix(base).split(".")[0] in inner
        inside |= any(f".{block}" in f".{name}" for block in blocks)
        if inside and not name.endswith(COMPUTED) and not NOT_NEEDED.search(name):
            raise UserError(
                f"{what} has a tensor {name} that a {type(model).__name__} does not use, "
                "so that another model would be measured; merge adapters, and check "
                "model_type and num_hidden_layers"
            )


def refuse_other_code(model: Any, head: str | None, what: str) -> None:
    """A model whose folder names code of its own, in the place of which transformers has other."""
    auto = getattr(model.config, "auto_map", None)
    own = auto.get(head or "AutoModel") if isinstance(auto, dict) else None
    own = own[0] if isinstance(own, (list, tuple)) and own else own
    made = type(model).__name__
    if isinstance(own, str) and own.rpartition(".")[2].lower() != made.lower():
        raise UserError(
            f"{what} is a model of code of its own ({own}), which is never run, and a {made} of "
            "transformers would be another model; give one that transformers has"
        )
