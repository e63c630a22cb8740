"""Attention of sentences and the attracting Δ, as tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.encoders.test_layered import sharp
from wordsens.data.encoders import Encoder
from wordsens.encoders.attraction import attract, attracting_directions
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.sentences import attention_table, attraction_table
from wordsens.errors import UserError
from wordsens.randomness import Stream


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


def options(draws: int = 3) -> dict:
    return {"draws": draws, "stream": Stream(0, "attraction")}


def test_attention_is_averaged_over_heads_and_special_tokens_are_hidden(encoder) -> None:
    model = sharp(encoder)
    table = attention_table(model, ["w1 w2 w3", "w1 w2 w4"], "attention.x")
    assert len(table) == 2 * 9
    assert table["query_piece"].tolist()[:9:3] == ["w1", "w2", "w3"]
    ids = torch.tensor([[2, 5, 6, 7, 3]])
    scores = model.first_attention(model.embed(ids), ids)[0].mean(0)[1:4, 1:4]
    found = torch.tensor(table["weight"].tolist()[:9]).reshape(3, 3).double()
    torch.testing.assert_close(found, scores)
    assert (found.sum(1) < 1).all(), "the special tokens' share is not redistributed"


def test_directions_are_those_of_the_definition(encoder) -> None:
    """Against a plain singular value decomposition of every head's form."""
    model = sharp(encoder)
    self_attention = model.model.encoder.layer[0].attention.self
    self_attention.query.bias.normal_(generator=torch.Generator().manual_seed(0))
    X = model.embed(torch.tensor([[2, 9, 30, 17, 3]]))[0]
    found = attracting_directions(model, X)
    vectors, rising = [], torch.zeros(16).double()
    for head in range(2):
        rows = slice(8 * head, 8 * head + 8)
        W_Q, W_K = self_attention.query.weight[rows], self_attention.key.weight[rows]
        u = torch.linalg.svd(W_Q.T @ W_K).Vh[0]
        asked = (X @ W_Q.T + self_attention.query.bias[rows]).sum(0)
        rising += W_K.T @ asked
        vectors.append(u * torch.sign(asked @ W_K @ u))
    mean = torch.stack(vectors).mean(0)
    torch.testing.assert_close(found["singular"], mean / mean.norm())
    torch.testing.assert_close(found["queries"], rising / rising.norm())


def test_the_attracting_delta_attracts_and_noise_keeps_its_length(encoder) -> None:
    """From near 1/n to most of the attention: the queries' direction climbs every mean score."""
    model = sharp(encoder)
    ids = torch.tensor([2, *range(5, 35), 3])
    found = attract(model, ids, 7, **options(5))
    received = {name: float(scores[:, :, 7].mean()) for name, scores in found.scores.items()}
    assert received["none"] < 3 / len(ids)
    assert received["queries"] > 2 * received["none"]
    X = model.embed(ids[None])[0]
    ratio = float(X[7].norm() / X.norm())
    for change in (*found.change.values(), *found.noise):
        assert float(change[0]) == pytest.approx(ratio, rel=1e-9)
    assert found.noise.shape == (5, model.depth + 1)


def test_attraction_table_is_tidy(encoder) -> None:
    model = LayeredEncoder.load(encoder)
    table = attraction_table(model, [9, 30, 17], 1, key="attraction.x", **options())
    assert table["quantity"].value_counts().to_dict() == {
        "relative_change": 4 * (2 + 3),
        "attention": 9 * 3,
        "attention_to_word": 2 * 3,
    }
    assert set(table["piece"]) == {"w26"}
    assert set(table["tokens"]) == {5}
    noise = table[table["perturbation"] == "noise"]
    assert sorted(noise["draw"].unique()) == [0, 1, 2]


def test_mistakes_are_one_line(encoder) -> None:
    model = LayeredEncoder.load(encoder)
    with pytest.raises(UserError, match=r"attraction\.x\.position: is 3, .* allowed: 0 to 2"):
        attraction_table(model, [9, 30, 17], 3, key="attraction.x", **options())
    with pytest.raises(UserError, match=r"attention\.x\.sentences\[1\]: 66 tokens"):
        attention_table(model, ["w1", "w1 " * 64], "attention.x")
    with pytest.raises(UserError, match=r"attention\.x\.sentences\[0\]: ' ' has no word pieces"):
        attention_table(model, [" "], "attention.x")
    with pytest.raises(UserError, match="position 5 is not in a text of 5 tokens"):
        attract(model, torch.tensor([2, 9, 30, 17, 3]), 5, **options())
