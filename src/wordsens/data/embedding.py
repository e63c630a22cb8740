"""Layer 0 of models whose embedding layer is LayerNorm(word + place), as BERT's is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from wordsens.data.blocks import Blocks


@torch.no_grad()
def normalised_sum(blocks: Blocks, max_tokens: int) -> dict[str, torch.Tensor]:
    """places, scale, shift and eps (see ``Encoder.embedding_layer``); {} of any other model."""
    layer: Any = getattr(blocks.model, "embeddings", None)
    norm: Any
    table: Any
    norm, table = getattr(layer, "LayerNorm", None), getattr(layer, "position_embeddings", None)
    if not isinstance(norm, torch.nn.LayerNorm) or not hasattr(table, "weight"):
        return {}
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    places = table.weight[first:][:max_tokens]
    types = getattr(layer, "token_type_embeddings", None)
    if types is not None:
        places = places + types.weight[0]
    parts = {
        "places": places,
        "scale": norm.weight,
        "shift": norm.bias,
        "eps": torch.tensor([norm.eps]),
    }
    return parts if _is_layer_zero(blocks, parts) else {}


def _is_layer_zero(blocks: Blocks, parts: dict[str, torch.Tensor]) -> bool:
    """Whether that is what the first block receives, on a text without padding."""
    vectors = blocks.embedding.weight
    padding = blocks.model.config.pad_token_id
    ids = [number for number in range(min(blocks.rows, 5)) if number != padding]
    text = torch.tensor([ids], device=blocks.device)
    if not blocks.stepwise or vectors.shape[1] != blocks.size:
        return False
    summed = vectors[text] + parts["places"][: len(ids)]
    found = torch.nn.functional.layer_norm(
        summed, (blocks.size,), parts["scale"], parts["shift"], float(parts["eps"])
    )
    return bool(torch.allclose(found, blocks.enter(text), rtol=1e-4, atol=1e-5))
