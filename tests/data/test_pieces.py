"""Word pieces of the three kinds of tokenizer, as a reader sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordsens.data.pieces import BYTES, joined, shown, shown_in_text, style_of


@pytest.fixture(scope="module")
def byte_level():
    """A byte-level tokenizer without merges: every byte a piece, and a few whole words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    texts = ["the café is naïve, the café is open — Привет, Привет 世界 🙂"] * 20
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def test_bytes_are_decoded(byte_level) -> None:
    encoded = byte_level.encode("the café — Привет 世界 🙂, opened")
    assert style_of(byte_level.get_vocab()) == BYTES
    pieces = shown_in_text(encoded.tokens, BYTES)
    assert pieces[:4] == ["the", "café", "—", "Привет"]
    assert {"世界", "🙂", ",", "##ed"} & set(pieces) >= {"世界", "🙂", ","}
    assert not any("Ġ" in piece or "Ã" in piece for piece in pieces)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_joined_bytes_are_the_text(byte_level, text: str) -> None:
    tokens = byte_level.encode(text).tokens
    assert joined(tokens, BYTES) == text.strip()
    for piece in shown_in_text(tokens, BYTES) + shown(tokens, BYTES):
        assert piece
        assert piece.isprintable()


@pytest.mark.parametrize(
    ("pieces", "style", "alone", "in_text"),
    [
        (["syn", "##esthesia", "."], "wordpiece", ["syn", "##esthesia", "."], None),
        (["▁syn", "esthesia", "."], "sentencepiece", ["syn", "##esthesia", "."], None),
        (["Ġsyn", "esthesia", "."], "bytes", ["syn", "##esthesia", "."], None),
        (["syn", "esthesia"], "bytes", ["##syn", "##esthesia"], ["syn", "##esthesia"]),
        (["(", "and", ")"], "bytes", ["(", "##and", ")"], ["(", "and", ")"]),
        (["▁", "世", "界"], "sentencepiece", ["␣", "世", "界"], None),
        (["Ġ", "Ċ", "ĉ"], "bytes", ["␣", "↵", "⇥"], None),
        (["âĢ", "Ļ", "s"], "bytes", ["<0xE2><0x80>", "<0x99>", "##s"], None),
        (["don", "âĢĻ", "t"], "bytes", ["##don", "’", "##t"], ["don", "’", "t"]),
        (["[CLS]", "w1"], "plain", ["[CLS]", "w1"], None),
        (["\u200b"], "plain", ["<U+200B>"], None),
    ],
)
def test_marks(pieces, style, alone, in_text) -> None:
    assert shown(pieces, style) == alone
    assert shown_in_text(pieces, style) == (in_text or alone)


def test_a_word_and_its_continuation_are_told_apart() -> None:
    """Of every tokenizer that marks either."""
    for style, word, rest in [
        ("wordpiece", "esthesia", "##esthesia"),
        ("sentencepiece", "▁esthesia", "esthesia"),
        ("bytes", "Ġesthesia", "esthesia"),
    ]:
        assert shown([word, rest], style) == ["esthesia", "##esthesia"]


def test_style_is_that_of_most_pieces() -> None:
    assert style_of(["the", "##ing", "▁"] * 5) == "wordpiece"
    assert style_of(["▁the", "ing"] * 5 + ["##"]) == "sentencepiece"
    assert style_of([f"w{i}" for i in range(200)] + ["##"]) == "plain"
    assert style_of([]) == "plain"
