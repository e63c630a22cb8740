"""Stopping at a layer changes nothing below it, and padding changes nothing before it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from wordsens.data.encoders import Encoder
from wordsens.errors import UserError


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


@pytest.fixture(scope="module")
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, 44, (3, 12), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([12, 7, 1])
    mask = torch.arange(12) < lengths[:, None]
    return torch.where(mask, ids, 0), mask


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_layer_equals_that_of_the_whole_model(tiny_bert, encoder, batch, layer: int) -> None:
    from transformers import BertModel

    ids, mask = batch
    whole = BertModel.from_pretrained(tiny_bert, attn_implementation="eager").eval()
    with torch.no_grad():
        outputs = whole(ids, attention_mask=mask.long(), output_hidden_states=True)
    expected = outputs.hidden_states[layer]
    found = encoder.hidden_states(ids, mask, layer)
    assert found.dtype == torch.float32
    assert not found.is_inference()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [0, 2])
def test_padding_does_not_reach_the_tokens(encoder, batch, layer: int) -> None:
    ids, mask = batch
    found = encoder.hidden_states(ids, mask, layer)
    alone = encoder.hidden_states(ids[1:2, :7], mask[1:2, :7], layer)
    torch.testing.assert_close(found[1:2, :7], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_layer_runs_the_blocks_below_it_and_no_other(encoder, batch, layer: int) -> None:
    ran = []
    blocks = encoder.blocks().list
    hooks = [block.register_forward_hook(lambda *call: ran.append(call[0])) for block in blocks]
    try:
        encoder.hidden_states(*batch, layer)
    finally:
        for hook in hooks:
            hook.remove()
    assert ran == list(blocks)[:layer]


def test_tokens_are_whole(encoder) -> None:
    text = " ".join(f"w{i % 40}" for i in range(30))
    plain, special = encoder.tokenize([text])[0], encoder.tokenize([text], special_tokens=True)[0]
    assert len(plain) == 30
    assert special == [2, *plain, 3]
    assert encoder.tokenize([]) == []


def test_sizes(encoder) -> None:
    assert (encoder.hidden_size, encoder.layers, encoder.max_tokens) == (16, 3, 64)
    assert encoder.embedding_layer()["words"].shape == (44, 16)
    assert encoder.padding_id == 0


def test_layer_and_length_limits(encoder, batch) -> None:
    ids, mask = batch
    with pytest.raises(UserError, match=r"encoders\.tiny: has layers 0 to 3, not 4"):
        encoder.hidden_states(ids, mask, 4)
    long = torch.ones(1, 65, dtype=torch.long)
    with pytest.raises(UserError, match="positions for 64 tokens, not 65"):
        encoder.hidden_states(long, long > 0, 0)


def test_roberta_positions_start_after_the_padding(tmp_path: Path, tiny_bert: Path) -> None:
    from transformers import RobertaConfig, RobertaModel

    shutil.copy(tiny_bert / "tokenizer.json", tmp_path)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    config = RobertaConfig(
        vocab_size=50, num_hidden_layers=1, max_position_embeddings=12, pad_token_id=1, **sizes
    )
    RobertaModel(config).save_pretrained(tmp_path)
    encoder = Encoder.open(tmp_path)
    assert encoder.max_tokens == 10
    ids = torch.full((1, 10), 5)
    assert encoder.hidden_states(ids, ids > 0, 1).shape == (1, 10, 8)
