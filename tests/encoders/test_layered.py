"""An encoder layer by layer is the encoder, and its view answers for it exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from wordsens.data.encoders import Encoder
from wordsens.encoders import view as views
from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.view import EncoderView
from wordsens.errors import UserError
from wordsens.randomness import Stream

IDS = torch.tensor([[2, 9, 30, 17, 5, 3], [2, 40, 41, 8, 8, 3]])


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


def sharp(encoder: Encoder, perturb: str = "layer0") -> LayeredEncoder:
    """Float64, with large scores, so that a word matters, and tokens of different lengths."""
    model = LayeredEncoder.load(encoder, "random", stream=Stream(3, "weights"), perturb=perturb)
    model.model.double()
    for block in model.model.encoder.layer:
        for part in (block.attention.self.query, block.attention.self.key):
            part.weight.mul_(30)
    generator = torch.Generator().manual_seed(5)
    for module in model.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.weight.mul_(0.5 + torch.rand(16, generator=generator))
            module.bias.add_(torch.randn(16, generator=generator))
    return model


def test_layers_and_attention_are_those_of_transformers(encoder, tiny_bert: Path) -> None:
    from transformers import BertModel

    whole = BertModel.from_pretrained(tiny_bert, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = whole(IDS, output_hidden_states=True, output_attentions=True)
    model = LayeredEncoder.load(encoder)
    with torch.no_grad():
        found = list(model.layers(model.embed(IDS), IDS))
    assert len(found) == model.depth + 1 == 4
    for states, others in zip(found, expected.hidden_states, strict=True):
        torch.testing.assert_close(states, others, rtol=1e-5, atol=1e-6)
    attention = model.first_attention(model.embed(IDS), IDS)
    torch.testing.assert_close(attention, expected.attentions[0], rtol=1e-5, atol=1e-6)


def test_word_vectors_enter_before_positions_and_normalisation(encoder) -> None:
    behind = LayeredEncoder.load(encoder)
    before = LayeredEncoder.load(encoder, perturb="word_vector")
    assert torch.equal(before.embed(IDS), encoder.embedding_layer()["vectors"][IDS])
    with torch.no_grad():
        states = zip(
            before.layers(before.embed(IDS), IDS),
            behind.layers(behind.embed(IDS), IDS),
            strict=True,
        )
        for one, other in states:
            torch.testing.assert_close(one, other)


def test_random_weights_are_named_by_the_stream_and_leave_the_encoder_alone(encoder) -> None:
    trained = encoder.blocks().model.encoder.layer[0].attention.self.query.weight.clone()
    first, again, other = (
        LayeredEncoder.load(encoder, "random", stream=Stream(seed, "w")).model for seed in (1, 1, 2)
    )
    weight = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(first.state_dict()[weight], again.state_dict()[weight])
    assert not torch.equal(first.state_dict()[weight], other.state_dict()[weight])
    words = first.embeddings.word_embeddings.weight
    # 704 numbers of standard deviation 0.02: within 20 % but for a chance below 1e-11.
    assert 0.016 < words.std() < 0.024
    assert not first.encoder.layer[1].output.dense.bias.any()
    assert (first.embeddings.LayerNorm.weight == 1).all()
    assert torch.equal(encoder.blocks().model.encoder.layer[0].attention.self.query.weight, trained)


def make_view(encoder: Encoder, perturb: str = "layer0") -> EncoderView:
    sets = torch.tensor([[1, 4], [3, 2]])
    return EncoderView(sharp(encoder, perturb), IDS, sets, [3, 1])


def candidates(view: EncoderView, count: int = 3) -> torch.Tensor:
    noise = torch.randn(
        *view.tokens.shape[:2], count, 2, 16, generator=torch.Generator().manual_seed(0)
    )
    return view.tokens[:, :, None] + noise.to(view.tokens)


@pytest.mark.parametrize("perturb", ["layer0", "word_vector"])
def test_view_equals_the_encoder_on_the_changed_text(encoder, perturb: str) -> None:
    view = make_view(encoder, perturb)
    assert view.tokens.norm(dim=-1).allclose(torch.tensor(4.0, dtype=torch.float64))
    v = candidates(view)
    features, (value, _) = view.features(v), view.value_and_grad(v)
    changes = view.relative_changes(v)
    torch.testing.assert_close(view.relative_changes(v, last=1), changes[..., :2])
    for trial in range(2):
        for group, (rows, layer) in enumerate([([1, 4], 3), ([1, 4], 1), ([3, 2], 3), ([3, 2], 1)]):
            for start in range(3):
                X = view.model.embed(IDS[trial : trial + 1])
                for word, row in enumerate(rows):
                    length = X[0, row].norm()
                    X[0, row] = v[trial, group, start, word] * length / 4
                with torch.no_grad():
                    states = list(view.model.layers(X, IDS[trial]))
                torch.testing.assert_close(features[trial, group, start], states[layer][0])
                moved = (states[layer][0] - view.base[layer, trial]).norm()
                torch.testing.assert_close(value[trial, group, start], moved**2)
                for depth in range(4):
                    base = view.base[depth, trial]
                    ratio = (states[depth][0] - base).norm() / base.norm()
                    torch.testing.assert_close(changes[trial, group, start, depth], ratio)


def test_gradient_is_that_of_finite_differences(encoder) -> None:
    view = make_view(encoder)
    v = candidates(view, 2)
    _, grad = view.value_and_grad(v)
    along = torch.randn(v.shape, generator=torch.Generator().manual_seed(1)).to(v)
    step = 1e-6
    ahead, behind = (view.value_and_grad(v + sign * step * along)[0] for sign in (1, -1))
    slope = (grad * along).sum((-2, -1))
    torch.testing.assert_close(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_linear_functionals_and_their_pullback(encoder) -> None:
    view = make_view(encoder)
    v = candidates(view, 2)
    generator = torch.Generator().manual_seed(2)
    u = torch.randn(2, 3, 6, 16, generator=generator).double()
    value, pullback = view.linear(v, u)
    expected = torch.einsum("tpsnd,tcnd->tpsc", view.features(v), u)
    torch.testing.assert_close(value, expected)
    weights = torch.randn(value.shape, generator=generator).double()
    along = torch.randn(v.shape, generator=generator).to(v)
    slope = (pullback(weights) * along).sum((-2, -1))
    step = 1e-6
    ahead, behind = (view.linear(v + sign * step * along, u)[0] for sign in (1, -1))
    numeric = ((ahead - behind) * weights).sum(-1) / (2 * step)
    torch.testing.assert_close(slope, numeric, rtol=1e-6, atol=1e-7)


def test_how_many_run_together_changes_nothing(encoder, monkeypatch) -> None:
    view = make_view(encoder)
    v = candidates(view)
    together, grad = view.value_and_grad(v)
    monkeypatch.setattr(views, "CHUNK_BYTES", 1)
    apart, slope = view.value_and_grad(v)
    torch.testing.assert_close(together, apart)
    torch.testing.assert_close(grad, slope)
    torch.testing.assert_close(view.features(v), make_view(encoder).features(v))


def test_a_text_longer_than_the_positions_is_refused(encoder) -> None:
    model = LayeredEncoder.load(encoder)
    with pytest.raises(UserError, match=r"encoders\.tiny: has positions for 64 tokens, not 65"):
        model.embed(torch.ones(1, 65, dtype=torch.long))
    with pytest.raises(UserError, match="perturb 'layer1' is not known"):
        LayeredEncoder.load(encoder, perturb="layer1")
    with pytest.raises(UserError, match="weights 'tuned' are not known"):
        LayeredEncoder.load(encoder, "tuned")
