"""Words in a word's place in a trained encoder, against running the encoder on each text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from wordsens.encoders import words as module
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.words import word_changes
from wordsens.errors import UserError
from wordsens.randomness import Stream

TEXT = torch.tensor([2, 7, 19, 33, 4, 12, 40, 3])


@pytest.fixture(scope="module")
def model(tiny_bert: Path) -> LayeredEncoder:
    """Random weights large enough that words differ in what they do."""
    loaded = LayeredEncoder.load(tiny_bert, "random", stream=Stream(1, "weights"))
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            if weight.ndim == 2:
                weight *= 12 if "encoder" in name else 1
    return loaded


def brute_force(model: LayeredEncoder, position: int, layer: int, ids: list[int]) -> torch.Tensor:
    def states(tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            out = model.model(input_ids=tokens[None], output_hidden_states=True)
        return out.hidden_states[layer]

    before, found = states(TEXT), []
    for word in ids:
        changed = TEXT.clone()
        changed[position] = word
        found.append((states(changed) - before).norm() / before.norm())
    return torch.stack(found)


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
@pytest.mark.parametrize(("position", "layer"), [(0, 1), (3, 1), (7, 0), (5, 3)])
def test_exhaustively_equals_running_every_text(model, perturb, position, layer, monkeypatch):
    monkeypatch.setattr(module, "WORKING_BYTES", 200_000)  # several batches
    seen = LayeredEncoder(model.encoder, model.model, perturb)
    found = word_changes(seen, TEXT, position, layer=layer, top=40)
    ids = list(range(4, 44))
    expected = brute_force(model, position, layer, ids)
    ids = [word for word in ids if word != TEXT[position]]
    assert sorted(found.word.tolist()) == ids, "every other word, and no special token"
    assert torch.allclose(found.change, expected[found.word - 4], rtol=1e-4, atol=1e-6)
    assert (found.change.diff() <= 0).all()
    assert (found.position == position).all()
    assert (found.distance > 0).all()


def test_gradient_promises_what_the_encoder_keeps(model):
    """The first-order growth of F is its derivative towards the other word."""
    text = module._Text(model, TEXT, 3, 2)
    u, v = torch.tensor(9), torch.tensor(30)
    gradient = text.gradient(u)
    start, end = text.vectors(torch.stack([u, v]))
    embedded, ids = text._embedded(u[None])

    def square(t: float) -> float:
        moved = embedded.clone()
        moved[0, 3] = start + t * (end - start)
        with torch.no_grad():
            return float(((text._states(moved, ids) - text.before).double() ** 2).sum())

    slope = (square(5e-3) - square(-5e-3)) / 1e-2
    assert float(gradient @ (end - start)) == pytest.approx(slope, rel=2e-2)


def test_a_shortlist_is_exact_and_finds_more_than_chance(model):
    whole = word_changes(model, TEXT, 3, layer=2, top=40)
    exact = dict(zip(whole.word.tolist(), whole.change.tolist(), strict=True))
    reached, chance = 0.0, 0.0
    for seed in range(12):
        stream = Stream(seed, "words")
        found = word_changes(model, TEXT, 3, layer=2, shortlist=3, rounds=2, stream=stream)
        assert len(found) == 9, "three at random, and three in either round"
        assert len(set(found.word.tolist())) == 9
        for word, change in zip(found.word.tolist(), found.change.tolist(), strict=True):
            assert change == pytest.approx(exact[word], rel=1e-4)
        others = [word for word in range(4, 44) if word != TEXT[3]]
        order = [others[i] for i in Stream(seed, "words").generator().permutation(39)[:9]]
        reached += float(found.change[0])
        chance += max(exact[int(word)] for word in order)
    assert reached > chance
    again = word_changes(model, TEXT, 3, layer=2, shortlist=3, rounds=2, stream=Stream(1, "words"))
    other = word_changes(model, TEXT, 3, layer=2, shortlist=3, rounds=2, stream=Stream(1, "words"))
    assert torch.equal(again.word, other.word)
    everything = word_changes(model, TEXT, 3, layer=2, shortlist=13, rounds=9, top=40)
    assert torch.equal(everything.word, whole.word)


def test_listed_candidates(model):
    found = word_changes(model, TEXT, 2, candidates=[11, 2, 11, 30])
    assert sorted(found.word.tolist()) == [2, 11, 30]


def test_a_word_is_no_substitute_for_itself(model):
    """Neither the text's own token nor another row with the same vector."""
    with torch.no_grad():
        words = model.model.embeddings.word_embeddings.weight
        kept = words[20].clone()
        words[20] = words[TEXT[2]]
        found = word_changes(model, TEXT, 2, candidates=[int(TEXT[2]), 20, 11])
        words[20] = kept
    assert found.word.tolist() == [11]
    assert len(word_changes(model, TEXT, 2, candidates=[int(TEXT[2])])) == 0


@pytest.mark.parametrize(
    ("position", "options", "message"),
    [
        (8, {}, "position 8 is not in a text of 8 tokens; allowed: 0 to 7"),
        (0, {"layer": 4}, "has layers 0 to 3, not 4"),
        (0, {"candidates": [44]}, "token ids from 0 to 43"),
        (0, {"candidates": []}, "at least one"),
        (0, {"shortlist": 0}, "shortlist = 0"),
        (0, {"top": 0}, "top = 0"),
        (1.5, {}, "position = 1.5 must be a whole number"),
        (0, {"layer": 1.5}, "layer = 1.5 must be a whole number"),
        (0, {"rounds": 1.5}, "rounds = 1.5 must be a whole number"),
    ],
)
def test_bad_questions_are_one_line(model, position, options, message):
    with pytest.raises(UserError, match=message) as error:
        word_changes(model, TEXT, position, **options)
    assert "\n" not in str(error.value)
