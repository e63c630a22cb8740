"""Stopping at a layer changes nothing below it, and padding changes nothing before it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
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
    assert encoder.embedding_layer()["vectors"].shape == (44, 16)
    assert encoder.padding_id == 0


def test_layer_and_length_limits(encoder, batch) -> None:
    ids, mask = batch
    with pytest.raises(UserError, match=r"encoders\.tiny: has layers 0 to 3, not 4"):
        encoder.hidden_states(ids, mask, 4)
    long = torch.ones(1, 65, dtype=torch.long)
    with pytest.raises(UserError, match="positions for 64 tokens, not 65"):
        encoder.hidden_states(long, long > 0, 0)


def roberta(folder: Path, tiny_bert: Path, padding: int = 1) -> Path:
    from transformers import RobertaConfig, RobertaModel

    shutil.copytree(tiny_bert, folder)
    config = RobertaConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=12,
        pad_token_id=padding,
        initializer_range=0.5,
    )
    RobertaModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_roberta_positions_start_after_the_padding(tmp_path, tiny_bert, padding: int) -> None:
    encoder = Encoder.open(roberta(tmp_path / "r", tiny_bert, padding))
    assert encoder.max_tokens == 11 - padding, "known without loading the model"
    ids = torch.full((1, 11 - padding), 5)
    assert encoder.hidden_states(ids, ids > 0, 1).shape == (1, 11 - padding, 8)
    with pytest.raises(UserError, match=f"positions for {11 - padding} tokens"):
        encoder.hidden_states(torch.full((1, 12 - padding), 5), torch.ones(1, 1), 1)


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
def test_padding_inside_a_text_counts_as_the_model_counts_it(tmp_path, tiny_bert, perturb) -> None:
    """RoBERTa gives the padding no position, and what follows it the one before."""
    from wordsens.encoders.layered import LayeredEncoder

    model = LayeredEncoder.load(roberta(tmp_path / "r", tiny_bert), perturb=perturb)
    ids = torch.tensor([[5, 9, 1, 17, 1, 20, 6]])
    with torch.no_grad():
        expected = model.model(input_ids=ids, output_hidden_states=True).hidden_states
        found = list(model.layers(model.embed(ids), ids))
    for states, others in zip(found, expected, strict=True):
        torch.testing.assert_close(states, others)


def test_a_table_of_positions_decides_over_the_configuration(tmp_path, tiny_bert) -> None:
    """A family that is not known to count from the padding on is found out when it is loaded."""
    from wordsens.data import encoders

    folder = roberta(tmp_path / "r", tiny_bert)
    encoder = Encoder(folder, json.loads((folder / "config.json").read_text()), "encoders.r")
    encoder.max_tokens = 12
    encoder.blocks()
    assert encoder.max_tokens == 10
    assert "roberta" in encoders.FROM_PADDING


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"hidden_size": None}, "hidden_size is None; allowed: a whole number of 1 or more"),
        ({"hidden_size": "16"}, "hidden_size is '16'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"max_position_embeddings": -1}, "max_position_embeddings is -1"),
        ({"max_position_embeddings": [512]}, r"max_position_embeddings is \[512\]"),
        ({"model_type": "no_such_model", "hidden_size": ...}, "configuration cannot be loaded"),
        ({"model_type": None, "hidden_size": ...}, "configuration cannot be loaded"),
    ],
)
def test_odd_configurations_are_one_line(tiny_bert, tmp_path, change, pattern) -> None:
    shutil.copytree(tiny_bert, tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    stated = json.loads(file.read_text()) | change
    file.write_text(json.dumps({k: v for k, v in stated.items() if v is not ...}))
    with pytest.raises(UserError, match=rf"encoders\.x: .*{pattern}") as caught:
        Encoder.open(tmp_path / "m", "encoders.x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"[]", b"3", b"", b"\xff\xfe{}"])
def test_what_is_no_configuration_is_one_line(tiny_bert, tmp_path, content) -> None:
    shutil.copytree(tiny_bert, tmp_path / "m")
    (tmp_path / "m" / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=r"encoders\.x: .*config\.json"):
        Encoder.open(tmp_path / "m", "encoders.x")


def test_sizes_by_a_familys_own_names(tiny_bert, tmp_path) -> None:
    from tests.encoders.zoo import random_model

    for family in ("gpt2", "t5", "distilbert", "xlnet"):
        folder = tmp_path / family
        random_model(family).save_pretrained(folder)
        shutil.copy(tiny_bert / "tokenizer.json", folder)
        encoder = Encoder.open(folder)
        limit = 1 << 30 if family in ("t5", "xlnet") else 40
        assert (encoder.hidden_size, encoder.layers, encoder.max_tokens) == (16, 3, limit)


def test_an_old_layout_gets_a_hint(tiny_bert, tmp_path) -> None:
    shutil.copytree(tiny_bert, tmp_path / "m" / "0_Transformer")
    (tmp_path / "m" / "modules.json").write_text("[]")
    with pytest.raises(UserError, match=r"no config\.json; its folder 0_Transformer has one: give"):
        Encoder.open(tmp_path / "m", "encoders.x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("part", ["config.json", "model.safetensors", "tokenizer.json", "."])
def test_what_may_not_be_read_is_one_line(tiny_bert, part) -> None:
    def tokens(folder: Path) -> None:
        Encoder.open(folder, "encoders.x").tokenize(["w1"])

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "m"
        shutil.copytree(tiny_bert, place)
        Path(folder).chmod(0o755)
        place.chmod(0o755)
        for file in place.iterdir():
            file.chmod(0o644)
        (place / part).chmod(0o600)
        os.seteuid(65534)
        try:
            with pytest.raises(UserError, match=r"encoders\.x: .* may not be read") as caught:
                tokens(place)
            assert "\n" not in str(caught.value)
        finally:
            os.seteuid(0)


def test_special_tokens_around_a_text_in_any_script(tiny_bert, tmp_path) -> None:
    """A tokenizer that knows no letter a drops it; its special tokens stand around others."""
    from tokenizers import Tokenizer, models, processors
    from transformers import PreTrainedTokenizerFast

    shutil.copytree(tiny_bert, tmp_path / "m")
    words = ["[PAD]", "[CLS]", "[SEP]", *"абвг", "аб"]
    bpe = models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[("а", "б")])
    tokenizer = Tokenizer(bpe)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(tmp_path / "m")
    encoder = Encoder.open(tmp_path / "m")
    assert encoder.tokenize(["a"]) == [[]]
    assert encoder.special_tokens() == ([1], [2])


def test_what_a_tokenizer_cannot_read_is_one_line(tiny_bert, tmp_path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    shutil.copytree(tiny_bert, tmp_path / "m")
    bare = Tokenizer(models.WordLevel({"one": 0, "[PAD]": 1}))
    PreTrainedTokenizerFast(tokenizer_object=bare, pad_token="[PAD]").save_pretrained(
        tmp_path / "m"
    )
    with pytest.raises(UserError, match=r"encoders\.x: its tokenizer cannot read the text"):
        Encoder.open(tmp_path / "m", "encoders.x").tokenize(["two"])


def test_layers_of_a_text_by_any_whole_number(tiny_bert) -> None:
    import numpy as np

    import wordsens

    one = wordsens.embed("w1 w2", tiny_bert, layer=1)
    assert torch.equal(wordsens.embed("w1 w2", tiny_bert, layer=np.int64(1)), one)
    for wrong in (True, 1.5, "first", -1):
        with pytest.raises(UserError, match="layer = "):
            wordsens.embed("w1 w2", tiny_bert, layer=wrong)
