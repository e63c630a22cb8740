"""What is measured is what the files say: every tensor from them, or one line that names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.encoders.zoo import random_model, with_head
from wordsens.data.encoders import Encoder
from wordsens.data.weights import load_model
from wordsens.errors import UserError

IDS = torch.tensor([[2, 9, 30, 17, 5, 3]])
Tensors = dict[str, torch.Tensor]


def changed(
    folder: Path, into: Path, change: Callable[[Tensors], Tensors], **config: object
) -> Path:
    """A copy of a model's folder with other tensors and another configuration."""
    shutil.copytree(folder, into)
    weights = into / "model.safetensors"
    tensors = {k: v.contiguous().clone() for k, v in change(load_file(weights)).items()}
    save_file(tensors, weights, {"format": "pt"})
    stated = json.loads((into / "config.json").read_text())
    (into / "config.json").write_text(json.dumps(stated | config))
    return into


def states(folder: Path) -> torch.Tensor:
    return Encoder.open(folder, "encoders.x").hidden_states(IDS, torch.ones_like(IDS) > 0, 3)


def fails(folder: Path, pattern: str) -> None:
    with pytest.raises(UserError, match=pattern) as caught:
        states(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("encoders.x: ")


@pytest.mark.parametrize(
    "prefix",
    ["module.", "bert.", "model.bert.", "0.auto_model.", "encoder.", "model.", "module.bert."],
)
def test_prefixes_that_training_scripts_leave_are_stripped(tiny_bert, tmp_path, prefix) -> None:
    folder = changed(
        tiny_bert, tmp_path / "m", lambda tensors: {prefix + k: v for k, v in tensors.items()}
    )
    assert torch.equal(states(folder), states(tiny_bert))


def test_heads_and_poolers_beside_the_model_are_no_matter(tiny_bert, tmp_path) -> None:
    def beside(tensors: Tensors) -> Tensors:
        kept = {f"bert.{k}": v for k, v in tensors.items() if "pooler" not in k}
        return kept | {"classifier.weight": torch.ones(2, 16), "cls.bias": torch.ones(44)}

    assert torch.equal(states(changed(tiny_bert, tmp_path / "m", beside)), states(tiny_bert))


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        ("encoder.layer.1.", r"lacks 16 .*encoder\.layer\.1\.attention\.output\.LayerNorm\.bias"),
        ("embeddings.position_embeddings", r"lacks 1 .*position_embeddings\.weight"),
        ("encoder.layer.2.output.dense.bias", r"lacks 1 .*layer\.2\.output\.dense\.bias"),
        ("embeddings.LayerNorm", r"lacks 2 .*embeddings\.LayerNorm\.bias"),
        ("", "lacks 5[0-9] "),
    ],
)
def test_a_tensor_that_is_needed_must_be_there(tiny_bert, tmp_path, lost, named) -> None:
    def without(tensors: Tensors) -> Tensors:
        kept = {k: v for k, v in tensors.items() if not k.startswith(lost)}
        return kept or {"other": torch.ones(1)}

    fails(changed(tiny_bert, tmp_path / "m", without), named)


def test_a_stray_prefix_hides_no_absent_block(tiny_bert, tmp_path) -> None:
    def without(tensors: Tensors) -> Tensors:
        return {f"module.{k}": v for k, v in tensors.items() if "layer.1." not in k}

    fails(changed(tiny_bert, tmp_path / "m", without), "lacks .* of the weights")


def test_more_layers_than_were_saved(tiny_bert, tmp_path) -> None:
    folder = changed(tiny_bert, tmp_path / "m", dict, num_hidden_layers=4)
    fails(folder, r"lacks 16 .*encoder\.layer\.3\.")


def test_two_models_in_one_file(tiny_bert, tmp_path) -> None:
    def twice(tensors: Tensors) -> Tensors:
        towers = [
            {f"{tower}.{k}": v + 1 for k, v in tensors.items()} for tower in ("ask", "answer")
        ]
        return towers[0] | towers[1]

    fails(changed(tiny_bert, tmp_path / "m", twice), r"holds several models \(answer, ask\)")


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
def test_positions_that_transformers_dropped(tiny_bert, tmp_path, kind) -> None:
    folder = changed(tiny_bert, tmp_path / "m", dict, position_embedding_type=kind)
    fails(folder, f"position_embedding_type '{kind}'.*allowed: absolute")


@pytest.mark.parametrize(
    "name",
    [
        "encoder.layer.0.attention.self.distance_embedding.weight",
        "bert.encoder.layer.1.attention.self.query.lora_A.weight",
    ],
)
def test_a_tensor_inside_a_block_that_is_not_used(tiny_bert, tmp_path, name) -> None:
    folder = changed(tiny_bert, tmp_path / "m", lambda t: t | {name: torch.ones(4, 16)})
    fails(folder, f"has a tensor {name} that a BertModel does not use")


@pytest.mark.parametrize(("value", "word"), [(torch.nan, "NaN"), (-torch.inf, "infinity")])
def test_a_weight_that_is_no_number_is_named(tiny_bert, tmp_path, value, word) -> None:
    def spoilt(tensors: Tensors) -> Tensors:
        tensors["encoder.layer.1.output.dense.weight"][3, 2] = value
        return tensors

    folder = changed(tiny_bert, tmp_path / "m", spoilt)
    fails(folder, rf"encoder\.layer\.1\.output\.dense\.weight holds {word}")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"hidden_size": 32}, r"holds embeddings\.LayerNorm\.bias of shape 16, .* 32 \(and \d+ mo"),
        ({"vocab_size": 40}, r"word_embeddings\.weight of shape 44×16, .* asks for 40×16; put"),
        (
            {"max_position_embeddings": 128},
            r"position_embeddings\.weight of shape 64×16, .* 128×16",
        ),
    ],
)
def test_another_shape_is_named(tiny_bert, tmp_path, config, says) -> None:
    """transformers would point to a report in its log."""
    fails(changed(tiny_bert, tmp_path / "m", dict, **config), says)


def test_half_precision_is_measured_as_it_was_stored(tiny_bert, tmp_path) -> None:
    halved = changed(tiny_bert, tmp_path / "h", lambda t: {k: v.bfloat16() for k, v in t.items()})
    rounded = changed(
        tiny_bert, tmp_path / "r", lambda t: {k: v.bfloat16().float() for k, v in t.items()}
    )
    assert torch.equal(states(halved), states(rounded))
    assert not torch.equal(states(halved), states(tiny_bert))


@pytest.mark.parametrize("save", [{"max_shard_size": "10KB"}, {}])
@pytest.mark.parametrize("auto", ["AutoModelForMaskedLM", "AutoModelForSequenceClassification"])
def test_models_with_heads_and_shards_are_those_of_transformers(tmp_path, tiny_bert, auto, save):
    whole = with_head("bert", auto)
    shutil.copy(tiny_bert / "tokenizer.json", tmp_path)
    whole.save_pretrained(tmp_path, **save)
    assert bool(save) == (tmp_path / "model.safetensors.index.json").exists()
    with torch.no_grad():
        expected = whole(input_ids=IDS, output_hidden_states=True).hidden_states[-1]
    assert torch.equal(states(tmp_path), expected)


def test_a_head_that_was_never_trained_is_no_head(tiny_bert) -> None:
    with pytest.raises(UserError, match=r"lacks 2 .*classifier\.bias, classifier\.weight"):
        load_model(tiny_bert, "models.x", "AutoModelForSequenceClassification")


def test_a_decoder_is_measured_with_its_mask(tiny_bert, tmp_path) -> None:
    """By its configuration alone the same weights make an encoder or a decoder."""
    folder = changed(tiny_bert, tmp_path / "m", dict, is_decoder=True)
    last = IDS.clone()
    last[0, -1] = 40
    encoder = Encoder.open(folder)
    assert encoder.blocks().causal
    one, other = (encoder.hidden_states(ids, torch.ones_like(ids) > 0, 3) for ids in (IDS, last))
    assert torch.equal(one[:, :-1], other[:, :-1])
    assert not torch.equal(one, states(tiny_bert))


@pytest.mark.parametrize("family", ["t5", "gpt2", "llama", "xlnet", "albert"])
def test_checkpoints_of_other_families_load_whole(tmp_path, tiny_bert, family) -> None:
    """Tied weights, buffers that older releases stored, an encoder out of a pair."""
    auto = {"t5": "AutoModelForSeq2SeqLM", "albert": "AutoModelForMaskedLM"}
    whole = with_head(family, auto.get(family, "AutoModelForCausalLM"))
    shutil.copy(tiny_bert / "tokenizer.json", tmp_path)
    whole.save_pretrained(tmp_path)
    if family in ("gpt2", "llama"):
        stored = load_file(tmp_path / "model.safetensors")
        prefix = "transformer.h.0.attn.bias" if family == "gpt2" else "model.rotary_emb.inv_freq"
        stored[prefix] = torch.ones(1, 1, 8, 8)
        save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    body = whole.get_encoder() if family == "t5" else whole.base_model
    with torch.no_grad():
        expected = body(input_ids=IDS, output_hidden_states=True).hidden_states[-1]
    assert torch.equal(states(tmp_path), expected)


def test_a_loaded_model_is_left_as_it_is(tiny_bert) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    whole = with_head("bert", "AutoModelForSequenceClassification").bfloat16().train()
    whole.config.use_cache = True
    encoder = Encoder.of(whole, tokenizer)
    encoder.hidden_states(IDS, IDS > 0, 3)
    assert whole.training
    assert whole.config.use_cache
    assert {weight.dtype for weight in whole.parameters()} == {torch.bfloat16}
    assert all(weight.requires_grad for weight in whole.parameters())
    kept = random_model("bert")
    shared = Encoder.of(kept, tokenizer).blocks().embedding.weight
    assert shared.data_ptr() == kept.get_input_embeddings().weight.data_ptr()
    with torch.no_grad():
        kept.encoder.layer[1].output.dense.bias[0] = torch.nan
    with pytest.raises(UserError, match=r"model: the weight .*dense\.bias holds NaN"):
        Encoder.of(kept, tokenizer)
    with pytest.raises(UserError, match="no model of transformers with its tokenizer"):
        Encoder.of(kept, None)


# What would make another model of the same files


def with_type(kind: torch.dtype) -> Callable[[Tensors], Tensors]:
    name = "encoder.layer.1.output.dense.weight"
    return lambda tensors: tensors | {name: (50 * tensors[name]).to(kind)}


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (torch.int8, "I8"),
        (torch.bool, "BOOL"),
        (torch.complex64, "C64"),
        (torch.float8_e4m3fn, "F8_E4M3"),
    ],
)
def test_weights_that_are_no_real_numbers(tiny_bert, tmp_path, kind, name) -> None:
    """transformers converts them, without the scales or the imaginary part."""
    folder = changed(tiny_bert, tmp_path / "m", with_type(kind))
    fails(folder, rf"layer\.1\.output\.dense\.weight as {name}, which is no weight by itself")


@pytest.mark.parametrize(
    ("tensors", "config", "names"),
    [
        ({}, {"num_hidden_layers": 2}, r"encoder\.layer\.2\..* does not use, .* num_hidden_layers"),
        ({"embeddings.extra_norm": 16}, {}, r"embeddings\.extra_norm "),
        ({"bert.embeddings.extra_norm": 16}, {}, r"embeddings\.extra_norm "),
        ({"encoder.relative_attention_bias.weight": 16}, {}, r"relative_attention_bias\.weight "),
    ],
)
def test_a_tensor_of_the_model_that_is_not_used(tiny_bert, tmp_path, tensors, config, names):
    more = {name: torch.ones(size) for name, size in tensors.items()}
    folder = changed(tiny_bert, tmp_path / "m", lambda own: own | more, **config)
    with pytest.raises(UserError, match=f"has a tensor .*{names}"):
        Encoder.open(folder, "encoders.x").blocks()


@pytest.mark.parametrize(
    "other", [lambda name: f"bert.{name}", lambda name: name.replace("Norm.weight", "Norm.gamma")]
)
def test_two_tensors_for_one_place(tiny_bert, tmp_path, other) -> None:
    """Whichever transformers reads last would be measured."""
    folder = changed(
        tiny_bert, tmp_path / "m", lambda own: own | {other(k): 2 * v for k, v in own.items()}
    )
    fails(folder, r"holds \S+ and \S+, and the model has one place for both")


def test_code_of_ones_own(tiny_bert, tmp_path) -> None:
    """It is not run; a class of transformers by the same name is the same model."""
    own = {"AutoConfig": "configuration_x.XConfig", "AutoModel": "modeling_x.XBertModel"}
    fails(changed(tiny_bert, tmp_path / "m", dict, auto_map=own), r"\(modeling_x\.XBertModel\)")
    same = {"auto_map": {"AutoModel": "modeling_bert.BertModel"}}
    assert torch.equal(states(changed(tiny_bert, tmp_path / "n", dict, **same)), states(tiny_bert))


def test_an_adapter_is_refused(tiny_bert, tmp_path) -> None:
    """With peft it would be applied, without it not."""
    folder = changed(tiny_bert, tmp_path / "m", dict)
    (folder / "adapter_config.json").write_text("{}")
    fails(folder, r"holds an adapter \(adapter_config\.json\)")
    (folder / "config.json").unlink()
    fails(folder, r"holds an adapter .* merge_and_unload")


def test_an_index_of_no_files(tiny_bert, tmp_path) -> None:
    folder = changed(tiny_bert, tmp_path / "m", dict)
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    fails(folder, "names no files")


@pytest.mark.parametrize("how", ["weights", "config"])
def test_finite_weights_that_overflow(tiny_bert, tmp_path, how) -> None:
    def huge(tensors: Tensors) -> Tensors:
        return {k: 1e30 * v if "dense.weight" in k else v for k, v in tensors.items()}

    change, config = (huge, {}) if how == "weights" else (dict, {"layer_norm_eps": float("nan")})
    fails(changed(tiny_bert, tmp_path / "m", change, **config), r"layer \d is not finite on a text")


def test_a_feed_forward_in_chunks_is_the_same(tiny_bert, tmp_path) -> None:
    folder = changed(tiny_bert, tmp_path / "m", dict, chunk_size_feed_forward=4)
    assert torch.equal(states(folder), states(tiny_bert))
