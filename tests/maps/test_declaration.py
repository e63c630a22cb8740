"""A map is one class that says everything about itself, and no other module knows its name."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wordsens.maps
from wordsens.maps import MapOptions, declared, map_class
from wordsens.maps.attention.normalization import ReLU
from wordsens.maps.raf import RandomAttentionFeatures, ReLUAttentionFeatures

SOURCES = Path(wordsens.maps.__file__).resolve().parents[1]
MAPS = SOURCES / "maps"


def named_in_a_test(tree):
    """Lines that compare with a map's name, match it, or look things up by it."""
    names = set(declared())
    for node in ast.walk(tree):
        looked = []
        if isinstance(node, ast.Compare):
            looked = [part for each in (node.left, *node.comparators) for part in ast.walk(each)]
        elif isinstance(node, ast.Dict):
            looked = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Set | ast.Tuple | ast.List):
            looked = node.elts
        elif isinstance(node, ast.MatchValue):
            looked = [node.value]
        elif isinstance(node, ast.Call):
            method = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if method in ("get", "startswith", "endswith", "frozenset", "set"):
                looked = [part for each in node.args for part in ast.walk(each)]
        for part in looked:
            if isinstance(part, ast.Constant) and part.value in names:
                yield part.lineno, part.value


def test_no_other_module_tests_a_maps_name():
    found = [
        f"{file.relative_to(SOURCES)}:{line}: {name!r}"
        for file in SOURCES.rglob("*.py")
        if MAPS not in file.parents
        for line, name in named_in_a_test(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        'if name == "raf": pass',
        'x = name in ("rf", other)',
        'SHORT = {"qkv": 1}',
        'DENSE = {"rf", "drf"}',
        'match name:\n    case "drf": pass',
        'y = table.get("relu_raf", 1)',
    ],
)
def test_the_search_for_names_finds_them(code):
    assert list(named_in_a_test(ast.parse(code)))


def test_declarations_are_read_without_torch():
    code = (
        "import sys; from wordsens.maps import declared, MapOptions\n"
        "for cls in declared().values():\n"
        "    options = MapOptions.of({'depth': 2}, cls.options)\n"
        "    effort = cls.effort_for(10, 8, options)\n"
        "    cls.trial_bytes(10, 8, options, effort=effort, sets=1, size=4)\n"
        "    cls.title, cls.short, cls.studies, cls.series(), cls.loss_effort_for(10, 8)\n"
        "    cls.feature_count(10, 8, options), cls.generalization_bytes(10, 8, options)\n"
        "assert not {'torch', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_is_what_the_rules_asked_for():
    """The formulas of random features; attention holds its scores and nothing else beside X."""
    n, d = 12, 10
    for name in ("rf", "drf"):
        cls, options = map_class(name), MapOptions(width=50, depth=3)
        assert cls.feature_count(n, d, options) == 50
        assert cls.feature_count(n, d) == n * d
        assert cls.word_count(n, d, options) == 50 * d
        assert cls.sensitivity_bytes(n, d, options) == 400 * 8 * 3 * n * d
        assert cls.generalization_bytes(n, d, options, size=4) == 60 * 50 * 4 + 50 * d * 4
        assert cls.vocabulary_bytes(n, d) == 24 * n * d * d
    for name in ("raf", "relu_raf", "qkv"):
        cls = map_class(name)
        assert cls.score_count(n, d, MapOptions(heads=3)) == 3 * n * n
        assert cls.word_count(n, d) == cls.sensitivity_bytes(n, d) == cls.vocabulary_bytes(n, d)
        assert cls.word_count(n, d) == 0


def test_options_of_a_cell_are_those_the_map_has():
    cell = {"width": "D", "depth": 4, "activation": "gelu", "heads": None, "temperature": 2.0}
    assert MapOptions.of(cell, ("depth", "width")) == MapOptions(depth=4)
    assert MapOptions.of({**cell, "width": 7}, ("width", "activation")) == MapOptions(
        width=7, activation="gelu"
    )
    own = MapOptions.of(cell, ("heads", "temperature"))
    assert own.more == {"temperature": 2.0}
    assert own.heads == 1


def test_another_name_takes_nothing_from_a_map():
    """Kinks ask for subgradient rounds, whatever a map with ReLU attention is called."""

    class Renamed(ReLUAttentionFeatures):
        name = "renamed"

    assert Renamed.loss_effort_for(8, 16) == ReLUAttentionFeatures.loss_effort_for(8, 16)
    assert Renamed.loss_effort_for(8, 16).settle > 0
    assert Renamed.effort == ReLUAttentionFeatures.effort
    assert (Renamed.title, Renamed.short) == ("renamed", "renamed")
    assert RandomAttentionFeatures.loss_effort_for(8, 16).settle == 0


def test_kinks_of_a_normalization_are_settled_in():
    class Own(RandomAttentionFeatures):
        name = "own"
        normalization = ReLU()

    assert Own.loss_effort_for(8, 16).settle > 0


def test_deep_features_have_no_attention_to_study():
    assert "sensitivity" in map_class("drf").studies
    assert "generalization" in map_class("drf").studies
    assert "vocabulary" not in map_class("drf").studies
    assert "a kind nobody has thought of" in map_class("raf").studies
