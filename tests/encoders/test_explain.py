"""What ``explain`` says of a text, recomputed by plain transformers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import wordsens
from tests.encoders.zoo import VOCABULARY, with_head
from wordsens.data.encoders import Encoder
from wordsens.encoders.explanation import Explanation
from wordsens.encoders.layered import LayeredEncoder
from wordsens.errors import UserError

TEXT = "w5 w26 w13 w1 w37 w4"


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_bert)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tiny_bert: Path) -> Path:
    """A folder as a fine-tuned DistilBERT leaves it."""
    folder = tmp_path_factory.mktemp("classifier") / "fine tuned"
    names = {0: "rotten", 1: "fresh", 2: "<i>odd</i>"}
    whole = with_head("distilbert", "AutoModelForSequenceClassification", num_labels=3)
    whole.config.id2label = names
    with torch.no_grad():  # an undecided model, which one word can turn
        logits = whole(input_ids=torch.tensor([[2, 9, 30, 17, 5, 41, 8, 3]])).logits[0]
        whole.classifier.bias.add_(torch.tensor([0.02, 0.0, 0.0]) - logits)
    whole.save_pretrained(folder)
    shutil.copy(tiny_bert / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="module")
def explained(classifier: Path) -> Explanation:
    return wordsens.explain(classifier, TEXT, candidates="all", effort="quick", top=3)


def theirs(folder: Path, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    from transformers import AutoModelForSequenceClassification

    plain = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        out = plain(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return out.logits[0], torch.stack(out.hidden_states)[:, 0]


def test_the_words_that_flip_the_verdict_do(explained: Explanation, classifier: Path) -> None:
    """Every flip, and no word that is not one, with its logits before and after."""
    ids = [2, 9, 30, 17, 5, 41, 8, 3]
    before, _ = theirs(classifier, ids)
    flips = explained.flips()
    labels = explained.labels
    assert explained.verdict == labels[int(before.argmax())]
    assert 0 < len(flips) < 6 * 39
    found = {(row.position, row.new): row for row in flips.itertuples()}
    for position in range(6):
        for word in range(4, 44):
            changed = list(ids)
            changed[1 + position] = word
            after, _ = theirs(classifier, changed) if word % 8 == 0 else (None, None)
            if after is None or word == ids[1 + position]:
                continue
            row = found.get((position, f"w{word - 4}"))
            assert (row is not None) == (int(after.argmax()) != int(before.argmax()))
            if row is not None:
                old, new = int(before.argmax()), int(after.argmax())
                assert (row.verdict, row.becomes) == (labels[old], labels[new])
                expected = [before[old], after[old], before[new], after[new]]
                values = [row.verdict_before, row.verdict_after]
                values += [row.becomes_before, row.becomes_after]
                torch.testing.assert_close(
                    torch.tensor(values), torch.stack(expected), rtol=1e-4, atol=1e-4
                )
    lead = flips["becomes_after"] - flips["verdict_after"]
    assert (lead.diff().dropna() <= 0).all()
    assert (lead > 0).all()


def test_the_table_says_what_transformers_says(explained: Explanation, classifier: Path) -> None:
    table = explained.to_dataframe()
    assert set(table["target"]) == {"layer 0", "layer 1", "layer 2", "layer 3", "output"}
    real = table[table["by"] == "real word"]
    assert len(real) == 6 * 5 * 3
    ids = [2, 9, 30, 17, 5, 41, 8, 3]
    logits, states = theirs(classifier, ids)
    for row in real[real["position"] == 2].itertuples():
        changed = list(ids)
        changed[3] = 4 + int(row.new.removeprefix("w"))
        other, after = theirs(classifier, changed)
        if row.target == "output":
            change = (other - logits).norm() / logits.norm()
        else:
            layer = int(row.target.split()[1])
            change = (after[layer] - states[layer]).norm() / states[layer].norm()
        assert row.change == pytest.approx(float(change), rel=1e-3)
    searched = table[table["by"] == "any Δ"]
    assert set(searched["target"]) == {"layer 3", "output"}
    assert len(searched) == 2 * 6


def test_a_decoders_next_token(tiny_chat: Path) -> None:
    ids = [10, 20, 30, 40]
    found = wordsens.explain(tiny_chat, ids, candidates=["w1", "w9", 12], effort="quick", top=2)
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(tiny_chat, dtype=torch.float32)
    with torch.no_grad():
        before = plain(input_ids=torch.tensor([ids])).logits[0, -1].softmax(0)
    assert found.causal
    assert found.verdict == found.labels[int(before.argmax())]
    for at, position in enumerate(found.positions):
        words = found.replaced[at]["word"].tolist()
        assert words == [word for word in (8, 12, 16) if word != ids[position]]
        for word, change in zip(words, found.changes("output")[at], strict=True):
            changed = list(ids)
            changed[position] = word
            with torch.no_grad():
                after = plain(input_ids=torch.tensor([changed])).logits[0, -1].softmax(0)
            assert change == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-3)
    assert set(found.flips()["verdict"]) <= {found.verdict}
    for row in found.flips().itertuples():
        assert row.verdict_before == pytest.approx(float(before.max().log()), rel=1e-4)
        assert max(row.verdict_after, row.becomes_before, row.becomes_after) <= 0


def test_an_encoder_has_layers_only(tiny_bert: Path) -> None:
    found = wordsens.explain(Encoder.open(tiny_bert), TEXT, effort="quick", positions=[1, 4])
    assert found.targets == ["layer 0", "layer 1", "layer 2", "layer 3"]
    assert found.verdict is None
    assert repr(found) == "Explanation(2 words, 3 layers)"
    assert found.flips().empty
    assert set(found.to_dataframe()["position"]) == {1, 4}
    assert not set(found.named.values()) & {"[CLS]", "[SEP]", "[PAD]", "[UNK]"}


def test_the_same_from_a_path_and_a_loaded_model(explained, classifier, tokenizer) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(classifier)
    model.set_attn_implementation("eager")
    found = wordsens.explain(
        model, TEXT, tokenizer=tokenizer, candidates="all", effort="quick", top=3
    )
    one, other = explained.to_dataframe(), found.to_dataframe()
    assert one.equals(other)
    again = wordsens.explain(model, TEXT, tokenizer=tokenizer, effort="quick", delta=False)
    assert not again.sup


def test_mistakes_are_one_line(tiny_bert: Path, tiny_chat: Path) -> None:
    def fails(pattern: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(UserError, match=pattern) as caught:
            wordsens.explain(*arguments, **options)
        assert "\n" not in str(caught.value)

    fails("the text is empty", tiny_bert, " ")
    fails("a int is no text", tiny_bert, 3)
    fails("'w1' must be a whole number", tiny_bert, [2, b"w1"])
    fails("the token id 99 is in no vocabulary of 44 words", tiny_bert, [99])
    fails("tokens = 0 must be a whole number", tiny_bert, "w1", tokens=0)
    fails("a name on the hub needs its commit", "google-bert/bert-base-uncased", "w1")
    fails("effort 'slow' is not known; choose page or quick", tiny_bert, "w1", effort="slow")
    fails("candidates 'some' is not known", tiny_bert, "w1", candidates="some")
    fails("'w1 w2' is no single word of the vocabulary", tiny_bert, "w1", candidates=["w1 w2"])
    fails("candidates is empty", tiny_bert, "w1", candidates=[])
    fails("top = 0 must be a whole number", tiny_bert, "w1", top=0)
    fails("position", tiny_bert, "w1 w2", positions=[2])
    fails("is no model; allowed", None, "w1 w2")
    fails("takes no LayeredEncoder", LayeredEncoder.load(tiny_bert, "random"), "w1 w2")
    fails("tokenizer goes with a loaded model", tiny_bert, "w1 w2", tokenizer=object())
    fails("device = 'gpu' cannot be used", tiny_chat, "w1 w2", device="gpu")
    assert VOCABULARY > 44


def test_a_figure_has_a_bar_for_every_word_as_it_is_written(explained: Explanation) -> None:
    odd = replace(explained, pieces=["$x_1$ 日", *explained.pieces[1:]])
    axes = odd.plot("layer 1")
    heights = [float(each.max(initial=0)) for each in odd.changes("layer 1")]
    assert [bar.get_height() for bar in axes.patches] == heights
    assert axes.get_ylabel() == "relative change of layer 1"
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert shown[-1] == odd.pieces[odd.positions[-1]]
    axes.figure.canvas.draw()  # a formula out of place would raise
    assert odd.plot(axes=axes) is axes


def test_a_regression_has_layers_only(tmp_path: Path, tiny_bert: Path) -> None:
    """One number is no verdict."""
    with_head("bert", "AutoModelForSequenceClassification", num_labels=1).save_pretrained(tmp_path)
    shutil.copy(tiny_bert / "tokenizer.json", tmp_path)
    found = wordsens.explain(tmp_path, "w1 w2", effort="quick", delta=False, candidates=[5, 6, 7])
    assert found.labels == []
    assert found.logits is None
