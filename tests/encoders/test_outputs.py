"""What a model answers when a word is moved or replaced, against transformers' own answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.encoders.zoo import DECODERS, FAMILIES, random_model, with_head
from wordsens.data.encoders import Encoder
from wordsens.encoders import replaced as module
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.output_view import OutputView
from wordsens.encoders.outputs import Head
from wordsens.encoders.replaced import Text
from wordsens.errors import UserError
from wordsens.randomness import Stream

TEXT = torch.tensor([2, 9, 30, 17, 5, 41, 8, 3])
WORDS = torch.tensor([7, 11, 30, 4, 6, 22, 39])
CLOSE = {"rtol": 1e-5, "atol": 1e-7}
CLASSIFIERS = sorted(set(FAMILIES) - {"t5"})


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_bert)


def swapped(position: int) -> torch.Tensor:
    texts = TEXT.repeat(len(WORDS), 1)
    texts[:, position] = WORDS
    return texts


def text_of(head: Head) -> Text:
    return Text(LayeredEncoder(head.encoder, head.blocks, "word_vector"), head, TEXT)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_class_logits_are_those_of_transformers(family: str, tokenizer, monkeypatch) -> None:
    whole = with_head(family, "AutoModelForSequenceClassification", num_labels=3)
    head = Head(Encoder.of(whole, tokenizer, family))
    assert (head.kind, len(head.labels)) == ("classes", 3)
    monkeypatch.setattr(module, "WORKING_BYTES", 60_000)  # several batches
    for position in (0, 3, 7):
        with torch.no_grad():
            expected = torch.cat([whole(input_ids=text[None]).logits for text in swapped(position)])
        found = text_of(head).run(position, WORDS).logits
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", sorted(DECODERS))
def test_next_tokens_are_those_of_transformers(family: str, tokenizer, monkeypatch) -> None:
    """With the words before the changed one read once."""
    whole = with_head(family, "AutoModelForCausalLM")
    head = Head(Encoder.of(whole, tokenizer, family))
    assert head.kind == "next_token"
    read = []
    head.blocks.embedding.register_forward_hook(lambda *call: read.append(call[1][0].numel()))
    monkeypatch.setattr(module, "WORKING_BYTES", 1 << 20)  # one batch
    for position in (0, 3, 7):
        text = text_of(head)
        read.clear()
        found = text.run(position, WORDS).logits
        assert sum(read) == position + len(WORDS) * (8 - position)
        with torch.no_grad():
            expected = whole(input_ids=swapped(position)).logits[:, -1]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(head.features(found).sum(1), torch.ones(len(WORDS)))


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
@pytest.mark.parametrize(
    ("family", "auto"),
    [
        ("bert", "AutoModelForSequenceClassification"),
        ("xlnet", "AutoModelForSequenceClassification"),
        ("phi", "AutoModelForSequenceClassification"),
        ("gpt_neox", "AutoModelForCausalLM"),
        ("gpt2", "AutoModelForCausalLM"),
    ],
)
def test_view_is_the_models_answer_and_its_gradient(family, auto, perturb, tokenizer) -> None:
    head = Head(Encoder.of(with_head(family, auto), tokenizer, family))
    head.model.double()
    model = LayeredEncoder(head.encoder, head.blocks, perturb)
    view = OutputView(head, model, TEXT, torch.tensor([3, 6]))
    generator = torch.Generator().manual_seed(0)
    d = view.tokens.shape[-1]
    torch.testing.assert_close(
        view.tokens.norm(dim=-1).flatten(), torch.full((2,), d**0.5).double()
    )
    v = view.tokens[:, :, None] + torch.randn(1, 2, 3, 1, d, generator=generator).double()
    value, grad = view.value_and_grad(v)
    features = view.features(v)
    torch.testing.assert_close((features - view.base).square().sum(-1), value)
    # Another row of the vocabulary in the word's place is the text with that word.
    word = head.blocks.embedding.weight[22] if perturb == "word_vector" else None
    if word is not None:
        put = (word / view.unit[0, 0, 0])[None, None, None, None].expand(1, 2, 1, 1, d)
        changed = TEXT.clone()
        changed[3] = 22
        with torch.no_grad():
            expected = head.features(head.logits(changed[None]))[0]
        torch.testing.assert_close(view.features(put)[0, 0, 0], expected)
    along = torch.randn(v.shape, generator=generator).double()
    # These families' softmax is in float32 whatever the model is in.
    single = family in ("phi", "gpt_neox")
    step, close = (1e-3, {"rtol": 5e-3, "atol": 1e-3}) if single else (1e-6, CLOSE)
    ahead, behind = (view.value_and_grad(v + sign * step * along)[0] for sign in (1, -1))
    slope = (grad * along).sum((-2, -1))
    torch.testing.assert_close(slope, (ahead - behind) / (2 * step), **close)
    u = torch.randn(1, 2, features.shape[-1], generator=generator).double()
    values, pullback = view.linear(v, u)
    torch.testing.assert_close(values, torch.einsum("tpso,tco->tpsc", features, u))
    weights = torch.randn(values.shape, generator=generator).double()
    ahead, behind = (view.linear(v + sign * step * along, u)[0] for sign in (1, -1))
    numeric = ((ahead - behind) * weights).sum(-1) / (2 * step)
    torch.testing.assert_close((pullback(weights) * along).sum((-2, -1)), numeric, **close)


def test_heads_are_found_in_folders(tmp_path: Path, tiny_bert: Path, tiny_chat: Path) -> None:
    import shutil

    whole = with_head("distilbert", "AutoModelForSequenceClassification")
    whole.save_pretrained(tmp_path / "m")
    shutil.copy(tiny_bert / "tokenizer.json", tmp_path / "m")
    opened = Encoder.open(tmp_path / "m")
    opened.blocks()  # without its head first
    head = Head(opened)
    with torch.no_grad():
        torch.testing.assert_close(head.logits(TEXT[None]), whole(input_ids=TEXT[None]).logits)
    assert Head(Encoder.open(tiny_chat)).kind == "next_token"
    with pytest.raises(UserError, match="has no head for sequences or next tokens"):
        Head(Encoder.open(tiny_bert))


@pytest.mark.parametrize("family", FAMILIES)
def test_changes_of_every_layer_are_those_of_transformers(family: str, tokenizer) -> None:
    model = LayeredEncoder(Encoder.of(random_model(family), tokenizer), random_model(family))
    text = Text(model, None, TEXT)
    found = text.run(3, WORDS)
    with torch.no_grad():
        before = model.model(input_ids=TEXT[None], output_hidden_states=True).hidden_states
        after = model.model(input_ids=swapped(3), output_hidden_states=True).hidden_states
    for layer, (one, other) in enumerate(zip(before, after, strict=True)):
        expected = (other - one).flatten(1).norm(dim=1) / one.norm()
        torch.testing.assert_close(found.change[:, layer], expected, rtol=1e-4, atol=1e-6)
    assert found.change[2, 0] > 0
    vectors = model.blocks.embedding.weight
    apart = (vectors[WORDS] - vectors[17]).norm(dim=1) / vectors[17].norm()
    torch.testing.assert_close(found.distance, apart)
    own = text.run(3, TEXT[3:4])
    assert own.change.max() < 1e-6


def test_a_shortlist_finds_more_than_chance_and_is_exact(tokenizer) -> None:
    whole = with_head("bert", "AutoModelForSequenceClassification", num_labels=3)
    text = text_of(Head(Encoder.of(whole, tokenizer)))
    words = torch.arange(4, 50)
    every = text.run(3, words)
    assert every.logits is not None
    reached = chance = 0.0
    for seed in range(20):
        found = text.shortlisted(3, words, 12, Stream(seed, "words"))
        assert len(found.ids) == len(found.ids.unique()) == 12
        at = torch.searchsorted(words, found.ids)
        torch.testing.assert_close(found.change, every.change[at], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.logits, every.logits[at], rtol=1e-4, atol=1e-4)
        drawn = Stream(seed, "words").generator().permutation(len(words))[:12]
        reached += float(found.change[:, -1].max())
        chance += float(every.change[drawn, -1].max())
    assert reached > chance
    assert len(text.shortlisted(3, words, 400, Stream(0, "words")).ids) == len(words)
