"""What --config encoder=PATH texts=FILE adds fits the encoder, and is called by its own names."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from wordsens.config import Config, ConfigError, load
from wordsens.written import as_written

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(tiny_bert, tmp_path / "bert")
    (tmp_path / "mine.txt").write_text("w1 w2\n" * 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(**given: Any) -> Config:
    return load(copy.deepcopy(DEFAULT) | given, [ROOT / "config.yaml"], SCHEMA)


def mistakes(**given: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(**given)
    return caught.value.lines


@pytest.mark.parametrize("n", [[3], [4], [5], [8, 12], [64]])
def test_the_attracted_position_is_in_the_text(folder: Path, n: list[int]) -> None:
    added = loaded(encoder="bert", texts="mine.txt", report={"n": n}).study("own_bert_attraction")
    position = added.settings["position"]
    assert 0 <= position <= max(n) - 3, "two tokens are special"
    assert position == max(n) // 3 or max(n) < 5


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"report": {"layers": [7]}}, "report.layers: is [7], but encoder own_bert has layers 0"),
        ({"report": {"n": [65]}}, "report.n: is 65, but encoder own_bert has positions for 64"),
        ({"report": {"trials": 0}}, "report.trials: is 0"),
        ({"texts": "none.txt"}, "--config: texts: is 'none.txt', and "),
        ({"encoder": "none"}, "--config: encoder: is 'none', and "),
        ({"texts": "mine.doc"}, "--config: texts: is 'mine.doc'; allowed: a name ending in"),
        ({"texts": "t.csv", "report": {"text": "x"}}, "report.text: "),
    ],
)
def test_mistakes_name_what_the_user_wrote(folder: Path, given: dict, says: str) -> None:
    (folder / "t.csv").write_text("text,label\na,1\n")
    lines = mistakes(**{"encoder": "bert", "texts": "mine.txt", **given})
    assert any(says in line for line in lines), lines
    assert not any("own_bert." in line or ".own_bert" in line for line in lines), lines


def test_layers_of_an_entry_are_checked_before_any_job(folder: Path) -> None:
    config = copy.deepcopy(DEFAULT)
    config["encoders"]["mine"] = {"source": "file", "path": "bert"}
    config["corpora"]["mine"] = {"source": "file", "path": "mine.txt", "labelled": False}
    text = {"source": "text", "corpus": "mine", "encoder": "mine", "balanced": False}
    config["datasets"]["mine"] = text | {"tokens": 8, "policy": "windows", "layer": 0}
    config["layers"]["deep"] = {"dataset": "mine", "n": [8, 70], "layers": [1, 7]}
    with pytest.raises(ConfigError) as caught:
        load(config, [], SCHEMA)
    lines = sorted(caught.value.lines)
    assert len(lines) == 2
    assert "layers.deep.layers: is [1, 7], but encoder mine has layers 0 to 3" in lines[0]
    assert "layers.deep.n: is [8, 70], but encoder mine has positions for 64 tokens" in lines[1]


def test_default_lengths_fit_positions_that_are_counted_from_the_padding_id(folder: Path) -> None:
    config = json.loads((folder / "bert" / "config.json").read_text())
    config |= {"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 66}
    (folder / "bert" / "config.json").write_text(json.dumps(config))
    assert loaded(encoder="bert", texts="mine.txt").study("own_bert_layers").values("n")[-1] == 64
    config |= {"max_position_embeddings": 65}
    (folder / "bert" / "config.json").write_text(json.dumps(config))
    assert loaded(encoder="bert", texts="mine.txt").study("own_bert_layers").values("n")[-1] == 32


def test_the_longest_default_text_of_a_roberta_can_be_searched(folder: Path) -> None:
    """Positions are counted from the padding's index on, and the model itself has no more."""
    from tests.encoders.zoo import random_model
    from wordsens import layer_sensitivity
    from wordsens.data.encoders import Encoder

    random_model("roberta").save_pretrained(folder / "roberta")
    shutil.copy(folder / "bert" / "tokenizer.json", folder / "roberta")
    found = loaded(encoder="roberta", texts="mine.txt")
    longest = found.study("own_roberta_layers").values("n")[-1]
    assert longest == 32, "of 16, 32, 64, 128 and 40 positions, two of them not for tokens"
    for n, fits in ((longest, True), (38, True), (39, False)):
        known = Encoder.open(folder / "roberta")
        assert (n <= known.max_tokens) == fits
        text = [5 + i % 40 for i in range(n - 2)]
        if fits:
            layer_sensitivity(known, text, layers=[1], starts=1, steps=1)
    lines = mistakes(encoder="roberta", texts="mine.txt", report={"n": [39]})
    assert any("report.n: is 39" in line and "positions for 38" in line for line in lines), lines
    given = {"tokens": 64, "n": [16]}
    page = loaded(encoder="roberta", texts="mine.txt", report=given).study(
        "own_roberta_explanation"
    )
    assert page.settings["tokens"] == 64, "a cell takes what the model holds"


def test_a_decoder_is_measured_at_a_word_with_others_around_it(
    folder: Path, tiny_chat: Path
) -> None:
    shutil.copytree(tiny_chat, folder / "chat")
    found = loaded(encoder="chat", texts="mine.txt")
    assert found.study("own_chat_layers").settings["positions"] == [7]
    near = found.study("own_chat_positions")
    assert near.settings["positions"] == "random:8"
    assert found.figures["own_chat_positions"].kind == "layer_positions"
    assert "classifier" not in found.study("own_chat_explanation").settings
    encoder = loaded(encoder="bert", texts="mine.txt")
    assert encoder.study("own_bert_layers").settings["positions"] == "first"
    assert "own_bert_positions" not in encoder.figures


def test_the_default_texts_have_a_classifier_and_ones_own_do_not(folder: Path) -> None:
    own = loaded(encoder="bert", texts="mine.txt").study("own_bert_explanation").settings
    assert "classifier" not in own
    assert own["corpus"] == "own_bert_texts", "each text by itself"
    found = loaded(encoder="bert")
    page = found.study("own_bert_explanation")
    assert page.settings["corpus"] == "reviews"
    cell = found.study(page.settings["classifier"]).cell(found, {})
    assert cell["names"] == ["rotten", "fresh"]
    assert "results/classifiers/own_bert_classifier.json" in page.inputs(found, {}).values()


def test_lengths_are_checked_early_once_an_encoder_is_fetched(folder: Path) -> None:
    name = next(iter(DEFAULT["encoders"]))
    loaded(encoder=name, texts="mine.txt", report={"n": [65]})
    shutil.copytree(folder / "bert", folder / "results" / "assets" / "encoders" / name)
    lines = mistakes(encoder=name, texts="mine.txt", report={"n": [65]})
    assert any("report.n: is 65" in line and "positions for 64" in line for line in lines), lines


def test_a_name_on_the_hub_needs_its_commit(folder: Path) -> None:
    commit = "0123456789abcdef" * 2 + "01234567"
    found = loaded(encoder=f"owner/model@{commit}", texts="mine.txt")
    assert found.encoders[found.report].settings == {
        "source": "hub",
        "name": "owner/model",
        "revision": commit,
    }
    assert found.study(f"{found.report}_vocabulary").values("d") == [96]
    lines = mistakes(encoder="owner/model", texts="mine.txt")
    assert len(lines) == 1, lines


def test_an_encoder_of_the_configuration_by_its_name(folder: Path) -> None:
    name = next(iter(DEFAULT["encoders"]))
    found = loaded(encoder=name, texts="mine.txt")
    assert found.report == f"own_{name}"
    assert found.datasets[found.report].settings["encoder"] == name
    assert found.study(f"{found.report}_attraction").settings["encoder"] == name
    assert set(found.encoders) == set(DEFAULT["encoders"])
    own = copy.deepcopy(DEFAULT["encoders"]) | {"mine": {"source": "file", "path": "bert"}}
    found = loaded(encoder="mine", texts="mine.txt", encoders=own)
    assert found.study("own_mine_vocabulary").values("d") == [16], "as of a folder"


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("layers.own_a_b_layers.trials", "report.trials"),
        ("datasets.own_a.tokens", "report.n"),
        ("datasets.own_a", "texts"),
        ("corpora.own_a.path", "texts"),
        ("encoders.own_a.path", "encoder"),
        ("encoders.own_a", "encoder"),
        ("vocabulary.own_a_vocabulary.n", "report.n"),
        ("figures.own_a_layers.sweeps", "report"),
        ("datasets.mine.tokens", "datasets.mine.tokens"),
        ("a datasets.own_a: no sample is left; change datasets.own_a.tokens", None),
    ],
)
def test_added_keys_read_as_those_they_come_from(key: str, written: str | None) -> None:
    expected = written or "a texts: no sample is left; change report.n"
    assert as_written(key) == expected
