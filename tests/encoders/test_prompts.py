"""A chat with a tiny causal model: what its answers are and how the two words compare."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from wordsens.encoders.prompts import CausalModel, prompts_table
from wordsens.errors import UserError

PROMPTS = ["w1 w2 w3", "w1 w9 w3"]


@pytest.fixture(scope="module")
def model(tiny_chat: Path) -> CausalModel:
    return CausalModel.open(tiny_chat, "models.tiny")


def test_difference_is_that_of_the_next_tokens_log_probabilities(model, tiny_chat: Path) -> None:
    from transformers import AutoModelForCausalLM

    table = prompts_table(model, PROMPTS, ["Yes", "No"], 4, "prompts.x")
    plain = AutoModelForCausalLM.from_pretrained(tiny_chat, dtype=torch.float32).eval()
    for _, row in table.iterrows():
        words = [7 + int(word[1:]) for word in row["prompt"].split()]
        ids = torch.tensor([[3, *words, 4]])
        with torch.no_grad():
            logits = plain(ids).logits[0, -1]
            answer = []
            for _ in range(4):
                best = int(
                    plain(torch.cat([ids, torch.tensor([answer]).long()], 1)).logits[0, -1].argmax()
                )
                answer.append(best)
                if best == 2:
                    break
        log_p = logits.double().log_softmax(0)
        assert row["log_p_first"] == pytest.approx(float(log_p[5]), abs=1e-5)
        assert row["difference"] == pytest.approx(float(log_p[5] - log_p[6]), abs=1e-5)
        text = model.tokenizer.decode(answer, skip_special_tokens=True).strip()
        assert row["answer"] == text
        assert row["prompt_tokens"] == 5
    assert table["difference"].nunique() == 2, "the word that differs changed nothing"


class Spaced:
    """Word pieces as byte-level tokenizers have them: with and without the space before."""

    pieces = ("Yes", " Yes", "No", " No", " ", "Nev", "er")

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        known = {"Never": [5, 6], " Never": [4, 5, 6]}
        return {"input_ids": known.get(text) or [self.pieces.index(text)]}

    def decode(self, ids: list[int]) -> str:
        return "".join(self.pieces[i] for i in ids)


def test_both_spellings_of_a_word_count() -> None:
    model = CausalModel(None, Spaced(), "models.x")
    assert model.first_pieces("Yes") == [0, 1]
    assert model.first_pieces("No") == [2, 3]
    assert model.first_pieces("Never") == [5], "a piece that is all space says nothing"


def test_mistakes_are_one_line(model, tiny_chat: Path, tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"prompts\.x\.prompts\[1\]: 32 tokens .* context of 32"):
        prompts_table(model, ["w1", "w1 " * 30], ["Yes", "No"], 4, "prompts.x")
    with pytest.raises(UserError, match=r"prompts\.x\.answers: .* begin with the same token"):
        prompts_table(model, PROMPTS, ["Maybe", "Perhaps"], 4, "prompts.x")
    silent = tmp_path / "silent"
    shutil.copytree(tiny_chat, silent)
    (silent / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match=r"models\.x: .*silent has no chat template"):
        CausalModel.open(silent, "models.x")
    (silent / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"models\.x: .*silent: the configuration cannot be loaded"):
        CausalModel.open(silent, "models.x")
