"""The attention heads of a model's first block, of whatever family it is."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from wordsens.data.blocks import Blocks
from wordsens.errors import UserError

# What the projections of queries and keys are called.
PROJECTIONS = (("query", "key"), ("q_lin", "k_lin"), ("q_proj", "k_proj"), ("q", "k"))


def attention_scores(blocks: Blocks, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The first block's attention on H_0, (batch, heads, n, n), rows adding up to 1.

    It is whatever a part of the block returns that has this shape.  Raises UserError where no part
    does.
    """
    batch, n = states.shape[:2]
    heads = blocks.model.config.num_attention_heads
    seen: list[torch.Tensor] = []

    def look(module: torch.nn.Module, given: Any, returned: Any) -> None:
        for part in returned if isinstance(returned, tuple) else (returned,):
            if torch.is_tensor(part) and part.shape == (batch, heads, n, n):
                seen.append(part)

    with ExitStack() as hooks, torch.no_grad():
        for module in _first(blocks).modules():
            hooks.callback(module.register_forward_hook(look).remove)
        blocks.step(1, states, ids)
    for scores in seen:
        if torch.allclose(scores.sum(-1), torch.ones_like(scores[..., 0]), atol=1e-4):
            return scores
    raise UserError(f"{blocks.key}: the first block hands out no attention scores")


def projections(
    blocks: Blocks, states: torch.Tensor, ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """W_Q, W_K (heads, d', d) and the queries' bias (heads, d') of the first block.

    Raises UserError where the block does not score x_jᵀW_QᵀW_K x_k of its own input: behind a
    normalisation, with rotary positions, with fewer heads of keys, or fused into one matrix.
    """
    block = _first(blocks)
    heads = blocks.model.config.num_attention_heads
    linear = {
        name.rsplit(".", 1)[-1]: module
        for name, module in block.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    pair = next((p for p in PROJECTIONS if set(p) <= set(linear)), None)
    fed: list[torch.Tensor] = []
    if pair is not None:
        query, key = (linear[name] for name in pair)
        with torch.no_grad():
            handle = key.register_forward_pre_hook(lambda _, given: fed.append(given[0]))
            try:
                blocks.step(1, states, ids)
            finally:
                handle.remove()
    plain = pair is not None and query.weight.shape == key.weight.shape
    if not plain or not fed or not torch.equal(fed[0].reshape(states.shape), states):
        raise UserError(
            f"{blocks.key}: the first block of a {type(blocks.model).__name__} has no queries and "
            "keys of layer 0 itself, from which attracting directions are made"
        )
    bias = query.bias if query.bias is not None else query.weight.new_zeros(len(query.weight))
    shape = (heads, len(query.weight) // heads)
    return (
        query.weight.reshape(*shape, -1),
        key.weight.reshape(*shape, -1),
        bias.reshape(shape),
    )


def _first(blocks: Blocks) -> torch.nn.Module:
    if blocks.list is None:
        raise UserError(f"{blocks.key}: has no blocks that can be followed one by one")
    return blocks.list[0]
