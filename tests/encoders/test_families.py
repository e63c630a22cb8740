"""Each of 18 families, encoders and decoders: the numbers are those of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import wordsens
from tests.encoders.zoo import DECODERS, FAMILIES, random_model
from wordsens.data.blocks import Blocks
from wordsens.data.encoders import Encoder
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.view import EncoderView
from wordsens.errors import UserError
from wordsens.randomness import Stream

IDS = torch.tensor([[2, 9, 30, 17, 5, 41, 8, 3], [2, 40, 41, 8, 8, 12, 6, 3]])
EXACT = {"rtol": 1e-9, "atol": 1e-10}


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_bert)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def encoder(family: str, tokenizer) -> Encoder:
    return Encoder.of(random_model(family), tokenizer, family)


def doubled(encoder: Encoder, perturb: str) -> LayeredEncoder:
    model = LayeredEncoder(encoder, encoder.blocks(), perturb)
    model.model.double()
    return model


def theirs(model: Any, **given: Any) -> list[torch.Tensor]:
    return list(model(**given, output_hidden_states=True).hidden_states)


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
def test_hidden_states_are_those_of_transformers(encoder, perturb: str) -> None:
    model = doubled(encoder, perturb)
    with torch.no_grad():
        expected = theirs(model.model, input_ids=IDS)
        found = list(model.layers(model.embed(IDS), IDS))
    assert len(found) == len(expected) == model.depth + 1 == 4
    for states, others in zip(found, expected, strict=True):
        torch.testing.assert_close(states, others, **EXACT)
    assert all(states.std() > 0.1 for states in found), "nothing would be compared"


def test_gradients_are_those_of_transformers(encoder) -> None:
    model = doubled(encoder, "word_vector")
    ours, own = (model.embed(IDS).clone().requires_grad_() for _ in range(2))
    weights = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0)).double()
    *_, last = model.layers(ours, IDS)
    (slope,) = torch.autograd.grad((weights * last).sum(), ours)
    (expected,) = torch.autograd.grad(
        (weights * theirs(model.model, inputs_embeds=own)[-1]).sum(), own
    )
    torch.testing.assert_close(slope, expected, **EXACT)
    assert slope.norm() > 0.1


def test_a_moved_layer_zero_reaches_what_it_may(family: str, encoder) -> None:
    """Nothing before the changed word in a decoder; in an encoder all of the text."""
    model = doubled(encoder, "layer0")
    assert model.causal == (family in DECODERS)
    X = model.embed(IDS)
    moved = X.clone()
    moved[:, 4] += torch.randn(16, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        pairs = zip(model.layers(X, IDS), model.layers(moved, IDS), strict=True)
        gaps = [(one - other).abs().amax((0, 2)) for one, other in pairs]
    assert gaps[0][4] > 0
    assert torch.equal(gaps[0][:4], torch.zeros(4).double())
    if family in DECODERS:
        assert all(torch.equal(gap[:4], torch.zeros(4).double()) for gap in gaps)
    else:
        assert (gaps[-1] > 0).all()
    assert gaps[-1][4] > 0


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
def test_sup_is_attained(encoder, perturb: str) -> None:
    model = doubled(encoder, perturb)
    found = wordsens.layer_sensitivity(
        model, IDS[0], positions=[3], starts=2, steps=4, special_tokens=False
    )
    X = model.embed(IDS[:1])
    for layer in range(4):
        moved = X.clone()
        moved[0, 3] += found.delta[layer, 0]
        with torch.no_grad():
            states = list(model.layers(moved, IDS[0]))[layer]
            base = list(model.layers(X, IDS[0]))[layer]
        change = (states - base).norm() / base.norm()
        torch.testing.assert_close(change, found.sup[layer], rtol=1e-6, atol=1e-9)
    assert (found.sup > 0).all()


def test_random_weights_are_new_and_repeatable(encoder) -> None:
    models = [
        LayeredEncoder.load(encoder, "random", stream=Stream(seed, "w")).model.state_dict()
        for seed in (1, 1, 2)
    ]
    own = encoder.blocks().model.state_dict()
    for name, weight in models[0].items():
        assert torch.equal(weight, models[1][name])
        assert torch.isfinite(weight).all()
        if weight.ndim > 1:
            assert not torch.equal(weight, models[2][name])
            assert not torch.equal(weight, own[name].to(weight))


class Unfollowed(torch.nn.Module):
    """A model whose blocks are no list: each is an attribute of its own."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert, self.config = bert, bert.config
        self.one, self.two, self.three = bert.encoder.layer
        bert.encoder.layer = torch.nn.Sequential(self.one, self.two, self.three)

    def get_input_embeddings(self) -> Any:
        return self.bert.get_input_embeddings()

    def forward(self, **given: Any) -> Any:
        return self.bert(**given)


def test_a_model_that_cannot_be_followed_runs_whole(tokenizer) -> None:
    encoder = Encoder.of(random_model("bert"), tokenizer, "models.x")
    blocks = Blocks(Unfollowed(encoder.blocks().model), "models.x")
    assert not blocks.stepwise
    with pytest.raises(UserError, match=r"models\.x: the blocks .* perturb = word_vector"):
        LayeredEncoder(encoder, blocks)
    whole = LayeredEncoder(encoder, blocks, "word_vector")
    followed = LayeredEncoder(encoder, random_model("bert"), "word_vector")
    views = [
        EncoderView(model, IDS, torch.tensor([[1], [4]]), [3, 1]) for model in (whole, followed)
    ]
    v = views[0].tokens[:, :, None] + torch.randn(1, 1, 2, 1, 16)
    for one, other in zip(*(view.value_and_grad(v) for view in views), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(*(view.relative_changes(v) for view in views), rtol=1e-4, atol=1e-5)
