"""A tiny random model of each of 18 families, made with transformers' own classes."""

from __future__ import annotations

from typing import Any

import torch

# Sizes by the names that a family's configuration gives them.
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
LLAMA = BERT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": BERT,
    "roberta": BERT | {"pad_token_id": 1},
    "electra": BERT | {"embedding_size": 8},
    "distilbert": {
        "dim": 16,
        "n_layers": 3,
        "n_heads": 2,
        "hidden_dim": 32,
        "max_position_embeddings": 40,
    },
    "mpnet": BERT | {"pad_token_id": 1},
    "albert": BERT | {"embedding_size": 8},
    "deberta-v2": BERT
    | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    "modernbert": BERT | {"local_attention": 6, "global_attn_every_n_layers": 3},
    "gpt2": {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40},
    "opt": BERT | {"ffn_dim": 32, "word_embed_proj_dim": 16},
    "gpt_neox": BERT,
    "phi": BERT,
    "llama": LLAMA,
    "mistral": LLAMA | {"sliding_window": 4},
    "qwen2": LLAMA | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "gemma2": LLAMA | {"sliding_window": 4},
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 3, "num_heads": 2},
    "xlnet": {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 32},
}
ENCODERS = {"bert", "roberta", "electra", "distilbert", "mpnet", "albert", "deberta-v2"}
ENCODERS |= {"modernbert", "t5", "xlnet"}
DECODERS = set(FAMILIES) - ENCODERS
VOCABULARY = 50


def config_of(family: str, **changes: Any) -> Any:
    from transformers import AutoConfig

    marks = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2}
    marks |= {"sep_token_id": 3, "vocab_size": VOCABULARY, "initializer_range": 0.3}
    config = AutoConfig.for_model(family, **(marks | FAMILIES[family] | changes))
    return config


def random_model(family: str, **changes: Any) -> Any:
    """The family's bare model with large random weights, so that words matter; eager, eval."""
    return _made("AutoModel", family, changes)


def with_head(family: str, auto: str, **changes: Any) -> Any:
    """As ``random_model`` with the head that ``auto`` (such as AutoModelForCausalLM) gives it."""
    return _made(auto, family, changes)


def _made(auto: str, family: str, changes: dict[str, Any]) -> Any:
    import transformers

    config = config_of(family, **changes)
    with torch.random.fork_rng():
        torch.manual_seed(len(family))
        if family == "t5" and auto == "AutoModel":
            model = transformers.T5EncoderModel(config)
        else:
            model = getattr(transformers, auto).from_config(config, attn_implementation="eager")
        # Zero biases and unit scales would hide a part that is left out.
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(0.2 * torch.randn_like(parameter))
    model.set_attn_implementation("eager")
    return model.eval()
