"""Inputs that several tests share, made here and never downloaded."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

# Workers side by side share the cores; with all of them each they would wait for each other.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))

import pytest
import torch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Triton reads this when it is first imported, by whichever test that may be.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


# A shell makes what it starts in the background deaf to Ctrl-C, and so what that starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


WORDS = [f"w{number}" for number in range(40)]


def word_level(vocabulary: list[str]) -> Tokenizer:
    """A tokenizer whose pieces are whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    index = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(index, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 3 blocks, hidden size 16 and 40 words, in transformers format."""
    from tokenizers import processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder") / "tiny bert"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    tokenizer = word_level(vocabulary)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # As in real encoders' folders: a truncation that must not be applied.
    tokenizer.enable_truncation(8)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=16,
                num_hidden_layers=3,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
            )
        )
    model.save_pretrained(folder)
    return folder


TEMPLATE = (
    "{% for message in messages %}user {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}bot{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random causal model of 2 blocks with a chat template and a context of 32 tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model") / "tiny chat"
    vocabulary = ["[PAD]", "[UNK]", "[EOS]", "user", "bot", "Yes", "No", *WORDS]
    tokenizer = word_level(vocabulary)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(vocabulary),
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=32,
                initializer_range=0.5,
                bos_token_id=None,
                eos_token_id=2,
                pad_token_id=0,
            )
        )
    model.save_pretrained(folder)
    return folder
