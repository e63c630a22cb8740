"""The search of an encoder's layers: what it returns is attained, and no random Δ beats it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import wordsens
from tests.encoders.test_layered import sharp
from wordsens.data.encoders import Encoder
from wordsens.errors import UserError

IDS = torch.tensor([[9, 30, 17, 5], [40, 41, 8, 8]])


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


@pytest.mark.parametrize(("starts", "steps"), [(4, 40), (1, 1)])
def test_sup_is_attained_by_delta_of_the_words_length(encoder, starts: int, steps: int) -> None:
    model = sharp(encoder)
    found = wordsens.layer_sensitivity(model, IDS, positions="all", starts=starts, steps=steps)
    assert found.sup.shape == found.norm.shape == (2, 4)
    assert found.by_position.shape == (2, 4, 4)
    whole = torch.cat([torch.full((2, 1), 2), IDS, torch.full((2, 1), 3)], 1)
    X = model.embed(whole)
    with torch.no_grad():
        base = list(model.layers(X, whole))
        for trial in range(2):
            for layer in range(4):
                row = 1 + int(found.position[trial, layer])
                delta = found.delta[trial, layer, 0]
                torch.testing.assert_close(delta.norm(), X[trial, row].norm())
                moved = X[trial : trial + 1].clone()
                moved[0, row] += delta
                changes = [
                    (states[0] - still[trial]).norm() / still[trial].norm()
                    for states, still in zip(model.layers(moved, whole[0]), base, strict=True)
                ]
                torch.testing.assert_close(changes[layer], found.sup[trial, layer])
                # What is found for one layer is tried on all others.
                assert (torch.stack(changes) <= found.sup[trial] * (1 + 1e-9)).all()
    assert torch.equal(found.by_position.amax(1), found.sup)


def test_no_random_delta_does_more(encoder) -> None:
    model = sharp(encoder)
    found = wordsens.layer_sensitivity(model, IDS[0], positions=[2], starts=6, steps=60)
    whole = torch.tensor([2, *IDS[0].tolist(), 3])
    X = model.embed(whole[None])
    noise = torch.randn(500, 16, generator=torch.Generator().manual_seed(0)).double()
    radius = torch.rand(500, 1, generator=torch.Generator().manual_seed(1)).double()
    radius[:250] = 1  # on the sphere, and inside the ball
    moved = X.repeat(500, 1, 1)
    moved[:, 3] += radius * noise * X[0, 3].norm() / noise.norm(dim=1, keepdim=True)
    with torch.no_grad():
        layers = zip(model.layers(moved, whole), model.layers(X, whole), strict=True)
        largest = [float(((a - b).flatten(1).norm(dim=1) / b.norm()).max()) for a, b in layers]
    assert all(sup >= other - 1e-9 for sup, other in zip(found.sup.tolist(), largest, strict=True))
    assert found.sup[0] == pytest.approx(float(X[0, 3].norm() / X.norm()), rel=1e-9)
    assert found.sup[3] > 1.2 * largest[3], "the search found nothing that chance would not"


def test_batching_layers_and_text_change_nothing(encoder) -> None:
    options = {"starts": 3, "steps": 15, "seed": 4}
    model = sharp(encoder)  # in float64, where a climb does not depend on the order of sums
    both = wordsens.layer_sensitivity(model, IDS, **options)
    first = wordsens.layer_sensitivity(model, IDS[0], **options)
    torch.testing.assert_close(first.sup, both.sup[0], rtol=1e-6, atol=1e-9)
    alone = wordsens.layer_sensitivity(encoder, IDS[0], **options)
    text = wordsens.layer_sensitivity(encoder, "w5 w26 w13 w1", **options)
    assert torch.equal(text.sup, alone.sup)
    assert text.start == alone.start
    last = wordsens.layer_sensitivity(encoder, IDS[0], layers=[3], **options)
    assert last.layers.tolist() == [3]
    one = wordsens.layer_sensitivity(encoder, IDS[0], layers=1, **options)
    assert 0 < one.sup[0] <= alone.sup[1] * (1 + 1e-4), "the first block is searched the same"
    plain = wordsens.layer_sensitivity(encoder, IDS[0], special_tokens=False, **options)
    assert plain.sup[0] > alone.sup[0], "four tokens instead of six"


def test_random_weights_and_word_vectors(encoder) -> None:
    one, two = (
        wordsens.layer_sensitivity(encoder, IDS[0], weights="random", seed=seed, steps=5)
        for seed in (0, 1)
    )
    assert not torch.allclose(one.sup[1:], two.sup[1:])
    words = wordsens.layer_sensitivity(encoder, IDS[0], perturb="word_vector", words=2, steps=5)
    vector = encoder.embedding_layer()["vectors"][IDS[0, :2]]
    torch.testing.assert_close(words.delta[2].norm(dim=-1), vector.norm(dim=-1))


def test_mistakes_are_one_line(encoder, tiny_bert: Path, tmp_path: Path) -> None:
    def fails(pattern: str, *arguments, **options) -> None:
        with pytest.raises(UserError, match=pattern) as caught:
            wordsens.layer_sensitivity(*arguments, **options)
        assert "\n" not in str(caught.value)

    fails(r"nowhere is not a folder", tmp_path / "nowhere", "w1 w2")
    fails("positions for 64 tokens, not 72", encoder, "w1 " * 70)
    fails("position", encoder, "w1 w2", positions=[2])
    fails(r"layers \[4\]: the encoder has layers 0 to 3", encoder, "w1 w2", layers=[4])
    fails("is not empty", encoder, "")


@pytest.mark.parametrize(
    ("text", "options", "pattern"),
    [
        ("w1 w2", {"starts": 0}, "starts = 0 must be a whole number of at least 1"),
        ("w1 w2", {"starts": 1.5}, "starts = 1.5 must be a whole number"),
        ("w1 w2", {"steps": None}, "steps = None must be a whole number"),
        ("w1 w2", {"layers": [1.5]}, "layer = 1.5 must be a whole number"),
        ("w1 w2", {"layers": 7}, "layers 7: the encoder has layers 0 to 3"),
        ("w1 w2", {"layers": []}, "choose all or a list"),
        ("w1 w2", {"layers": None}, "layers None: the encoder has layers 0 to 3"),
        ("w1 w2", {"seed": "one"}, "seed = 'one' must be a whole number"),
        ("w1 w2", {"perturb": "word"}, "perturb 'word' is not known"),
        (["w1", "w2"], {}, "text is a list of texts"),
        ([[5, 6], [7]], {}, "text is no array of numbers"),
        ([], {}, "is not empty"),
        (torch.empty(0, 4, dtype=torch.long), {}, "is not empty"),
        ([1.5, 2.0], {}, "text must be token ids"),
        ([True, False], {}, "text must be token ids"),
        (None, {}, "text is no array of numbers"),
        ([5, 44], {}, "the token id 44; allowed: 0 to 43"),
        ([5, -1], {}, "the token id -1; allowed: 0 to 43"),
        ("w1 \ud83d", {}, "holds half a character"),
        ("w1 w2", {"device": "gpu"}, "device = 'gpu' cannot be used: "),
    ],
)
def test_arguments_of_the_wrong_kind_are_one_line(encoder, text, options, pattern) -> None:
    with pytest.raises(UserError, match=pattern) as caught:
        wordsens.layer_sensitivity(encoder, text, **options)
    assert "\n" not in str(caught.value)


def test_numbers_and_arrays_of_numpy_are_numbers(encoder) -> None:
    options = {"starts": np.int64(2), "steps": np.int32(3)}
    found = wordsens.layer_sensitivity(
        encoder, np.array([9, 30, 17]), layers=np.int64(2), positions=np.array([1]), **options
    )
    other = wordsens.layer_sensitivity(
        encoder, [9, 30, 17], layers=[2], positions=[1], starts=2, steps=3
    )
    assert torch.equal(found.sup, other.sup)


def test_what_is_no_model_is_one_line(encoder, tiny_bert: Path) -> None:
    for model in (None, 3, encoder.tokenizer):
        with pytest.raises(UserError, match="is no model; allowed: a path, an Encoder"):
            wordsens.layer_sensitivity(model, "w1 w2")
    with pytest.raises(UserError, match="is no model of transformers with its tokenizer"):
        wordsens.layer_sensitivity(encoder.blocks().model, "w1 w2")


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"weights": "none"}, "weights = 'none' would be ignored"),
        ({"perturb": "word_vector"}, "perturb = 'word_vector' would be ignored"),
        ({"device": "cuda"}, "device = 'cuda' would be ignored"),
        ({"tokenizer": object()}, "tokenizer goes with a loaded model"),
    ],
)
def test_what_would_be_ignored_is_refused(encoder, options, pattern) -> None:
    with pytest.raises(UserError, match=pattern):
        wordsens.layer_sensitivity(sharp(encoder), "w1 w2", **options)
    moved = sharp(encoder, "word_vector")
    found = wordsens.layer_sensitivity(moved, "w1 w2", perturb="word_vector", steps=2)
    assert found.about["weights"] == "random"


def test_a_loaded_model_gives_what_its_folder_gives(encoder, tiny_bert: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(tiny_bert, attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    options = {"starts": 2, "steps": 3, "positions": "all"}
    found = wordsens.layer_sensitivity(model, "w1 w2 w3", tokenizer=tokenizer, **options)
    other = wordsens.layer_sensitivity(str(tiny_bert), "w1 w2 w3", **options)
    assert torch.equal(found.by_position, other.by_position)
