"""A classifier on an encoder's mean states: its fit, its file, the words that flip a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import wordsens
from tests.encoders.zoo import random_model
from wordsens.data.encoders import Encoder
from wordsens.encoders.classifier import Classifier, mean_states, train_classifier
from wordsens.encoders.outputs import PooledHead
from wordsens.errors import UserError

GOOD, BAD = "w3 w9 w11", "w20 w21 w22"


def texts(count: int = 40, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of random words, half of them with three good ones and half with three bad ones."""
    rng = np.random.default_rng(seed)
    found, labels = [], []
    for number in range(count):
        words = [f"w{i}" for i in rng.integers(0, 40, rng.integers(4, 12))]
        found.append(" ".join([*words, GOOD if number % 2 else BAD]))
        labels.append("fresh" if number % 2 else "rotten")
    return found, labels


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    """A tiny BERT whose layers tell words apart."""
    return Encoder.of(random_model("bert"), Encoder.open(tiny_bert).tokenizer)


@pytest.fixture(scope="module")
def trained(encoder: Encoder) -> Classifier:
    return train_classifier(encoder, *texts(), held_out=0.25)


def test_held_out_accuracy_is_that_of_the_held_out_texts(encoder, trained) -> None:
    assert trained.labels == ["fresh", "rotten"]
    assert (trained.trained, trained.held_out) == (30, 10)
    assert trained.accuracy >= 0.8, "three words of about eleven say which"
    # Labels that say nothing: right on the training texts, and by chance on the held-out ones.
    given, labels = texts(120)
    shuffled = np.random.default_rng(1).permutation(labels).tolist()
    chance = train_classifier(encoder, given, shuffled)
    assert chance.training_accuracy > chance.accuracy
    # 30 fair coins show 27 or more heads with probability 4e-6 / 2 …
    assert chance.accuracy < 27 / 30


def test_logits_are_those_of_the_mean_state(encoder, trained) -> None:
    ids = encoder.tokenize(["w3 w1 w9", "w21 w1 w20 w7"])
    means = mean_states(encoder, ids, "cpu")
    head = PooledHead(encoder, trained)
    for row, each in enumerate(ids):
        whole = torch.tensor([[2, *each, 3]])
        with torch.no_grad():
            expected = encoder.blocks().model(input_ids=whole).last_hidden_state[0].mean(0)
            found = head.logits(whole)[0]
        torch.testing.assert_close(
            torch.from_numpy(means[row]).float(), expected, rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(
            found, trained.weight @ expected + trained.bias, rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(found.sum(), torch.tensor(0.0), rtol=0, atol=1e-4)


def test_the_words_that_flip_its_verdict_recomputed_by_transformers(encoder, trained) -> None:
    found = wordsens.explain(
        encoder, "w3 w1 w21 w5", classifier=trained, candidates="all", effort="quick"
    )
    assert found.kind == "classes"
    assert set(found.sup) == {"layer 3", "output"}
    assert "held-out" in found.head
    model, ids = encoder.blocks().model, [2, 7, 5, 25, 9, 3]

    def logits(changed: list[int]) -> torch.Tensor:
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([changed])).last_hidden_state[0].mean(0)
        return trained.weight @ mean + trained.bias

    before = logits(ids)
    assert found.verdict == trained.labels[int(before.argmax())]
    flips = {(row.position, row.new): row for row in found.flips().itertuples()}
    assert 0 < len(flips) < 4 * 39
    for position in range(4):
        for word in range(4, 44, 3):
            if word == ids[1 + position]:
                continue
            changed = list(ids)
            changed[1 + position] = word
            after = logits(changed)
            row = flips.get((position, f"w{word - 4}"))
            assert (row is not None) == (int(after.argmax()) != int(before.argmax()))
            if row is not None:
                new = int(after.argmax())
                assert row.verdict_after == pytest.approx(float(after[1 - new]), abs=1e-4)
                assert row.becomes_after == pytest.approx(float(after[new]), abs=1e-4)
                assert row.becomes_before == pytest.approx(float(before[new]), abs=1e-4)


def test_a_decoders_states_before_the_word_count_in_the_mean(tiny_bert: Path) -> None:
    decoder = Encoder.of(random_model("llama"), Encoder.open(tiny_bert).tokenizer)
    own = train_classifier(decoder, *texts())
    found = wordsens.explain(
        decoder, "w3 w1 w21 w5", classifier=own, candidates=["w8"], delta=False, positions=[2]
    )
    with torch.no_grad():
        mean = decoder.blocks().model(input_ids=torch.tensor([[2, 7, 5, 12, 9, 3]]))[0][0].mean(0)
    after = own.weight @ mean + own.bias
    part = found.replaced[0]
    assert part["new_after"][0] == pytest.approx(float(after.max()), abs=1e-4)


def test_several_classes_and_windows_of_long_texts(encoder) -> None:
    given, labels = texts(60)
    labels = [label if at % 3 else "mixed" for at, label in enumerate(labels)]
    found = train_classifier(encoder, given, labels, tokens=5, most=20)
    assert found.labels == ["fresh", "mixed", "rotten"]
    assert found.weight.shape == (3, 16)
    assert found.trained + found.held_out == 60


def test_saved_whole_without_pickle_and_refused_elsewhere(
    trained, encoder, tmp_path, tiny_bert
) -> None:
    path = trained.save(tmp_path / "c.json")
    again = Classifier.load(path)
    assert torch.equal(again.weight, trained.weight)
    assert replace(again, weight=trained.weight, bias=trained.bias) == trained
    values = json.loads(path.read_text())
    values["bias"][0] += 0.5
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match="damaged or changed"):
        Classifier.load(path)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read as a classifier"):
        Classifier.load(path)
    with pytest.raises(UserError, match="fitted on the states of another encoder"):
        wordsens.explain(tiny_bert, "w1", classifier=trained)


def test_mistakes_are_one_line(encoder) -> None:
    for given, says in (
        ((["w1", "w2"], ["a"]), "2 texts and 1 labels"),
        ((["w1", "w2"], ["a", "a"]), "needs two or more"),
        ((["w1", "w2", "w3"], ["a", "a", "b"]), "two or more texts of each"),
    ):
        with pytest.raises(UserError, match=says):
            train_classifier(encoder, *given)
    with pytest.raises(UserError, match="held_out = 2 must lie"):
        train_classifier(encoder, *texts(), held_out=2)
