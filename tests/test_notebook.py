"""Results in a notebook: a short repr, a tidy table, and the workflow's figure of them."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import wordsens
from wordsens.errors import UserError

matplotlib.use("Agg")
N, D = 7, 6
TEXT = "w1 w2 w3 w4"


def sample(*lead: int) -> torch.Tensor:
    X = torch.randn(*lead, N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return X * D**0.5 / X.norm(dim=-1, keepdim=True)


@pytest.fixture(scope="module")
def raf() -> wordsens.MAPS:
    return wordsens.build_map("raf", d=D, seed=1)


def results(raf, encoder: Path) -> dict:
    model = wordsens.fit(raf, sample(12), torch.tensor([1.0, -1.0] * 6))
    E = torch.randn(30, D, dtype=torch.float64)
    return {
        "first": wordsens.word_sensitivity(raf, sample()),
        "all": wordsens.word_sensitivity(raf, sample(), "all", starts=2, steps=3),
        "batch": wordsens.word_sensitivity(raf, sample(3), starts=2, steps=3),
        "words": wordsens.vocabulary_sensitivity(raf, sample(), E),
        "layers": wordsens.layer_sensitivity(encoder, TEXT, starts=2, steps=3),
        "losses": model.search(sample(), 1, "error_retrained", starts=2),
    }


@pytest.fixture(scope="module")
def every(raf, tiny_bert: Path) -> dict:
    return results(raf, tiny_bert)


@pytest.mark.parametrize("name", ["first", "all", "batch", "words", "layers", "losses"])
def test_repr_is_a_line_with_the_numbers(every, name: str) -> None:
    said = repr(every[name])
    assert "\n" not in said
    assert len(said) < 160
    assert said.startswith(type(every[name]).__name__ + "(")
    assert re.search(r"\d\.\d", said)


@pytest.mark.parametrize("name", ["first", "all", "batch", "words", "layers", "losses"])
def test_a_figure_is_drawn_of_every_result(every, name: str) -> None:
    figure = every[name].plot(title="mine")
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    assert any(axes.get_xlabel() for axes in figure.axes)
    assert figure._suptitle.get_text() == "mine"


def test_tables_hold_what_the_result_does(every) -> None:
    alone = every["first"].to_dataframe().iloc[0]
    assert (alone["map"], alone["n"], alone["d"]) == ("raf", N, D)
    assert alone["sup"] == every["first"].sup
    table = every["all"].to_dataframe()
    assert table["sup_at_position"].tolist() == every["all"].by_position.tolist()
    assert set(table["best_position"]) == {every["all"].position}
    assert every["batch"].to_dataframe()["sup"].tolist() == every["batch"].sup.tolist()
    layers = every["layers"].to_dataframe()
    assert layers["sup"].tolist() == every["layers"].sup.tolist()
    assert set(layers["n"]) == {6}, "special tokens included"
    words = every["words"].substitutions()
    assert words[words["list"] == "top"]["change"].iloc[0] == every["words"].sup
    losses = every["losses"].to_dataframe().set_index("mode")["error"]
    assert losses["retrained"] == every["losses"].err_retrained


def test_several_results_share_a_figure(raf) -> None:
    longer = sample().repeat(2, 1)
    found = [wordsens.word_sensitivity(raf, X, starts=2, steps=3) for X in (sample(), longer)]
    (axes,) = wordsens.plot(found).axes
    assert axes.lines[0].get_xdata().tolist() == [N, 2 * N]
    with pytest.raises(UserError, match="plot shows Sensitivity"):
        wordsens.plot(3)
    with pytest.raises(UserError, match="one or a list of one kind"):
        wordsens.plot([])


def test_a_text_and_an_encoder_are_enough(tiny_bert: Path) -> None:
    X = wordsens.embed(TEXT, tiny_bert, layer="static")
    words = wordsens.vocabulary(tiny_bert)
    assert X.shape == (4, 16)
    np.testing.assert_allclose(X.norm(dim=1), 4.0)
    assert "44 word pieces" in repr(words)
    row = words.pieces.index("w2")
    assert torch.equal(X[1], words.vectors[row])
    layer = wordsens.build_map("raf", d=16, seed=1)
    found = wordsens.vocabulary_sensitivity(layer, X, words, positions=[1])
    assert found.substitutions()["piece"].iloc[0] in words.pieces
    assert found.change[0, row] == 0
    assert wordsens.embed(TEXT, tiny_bert, layer=2, d=5).shape == (4, 5)
    with pytest.raises(UserError, match="d = 17, but the encoder gives 16"):
        wordsens.embed(TEXT, tiny_bert, d=17)
    with pytest.raises(UserError, match="text = 5 must be a string"):
        wordsens.embed(5, tiny_bert)
    with pytest.raises(UserError, match="has no tokens"):
        wordsens.embed(" ", tiny_bert)


HOMES = sorted(set(wordsens._HOMES.values()))


@pytest.mark.parametrize("home", HOMES)
def test_examples_of_docstrings_run(home: str) -> None:
    module = importlib.import_module(home)
    assert doctest.testmod(module).failed == 0


def test_there_are_examples_and_exports_say_where_they_live() -> None:
    tried = sum(doctest.testmod(importlib.import_module(home)).attempted for home in HOMES)
    assert tried >= 11
    for name in wordsens.__all__:
        assert getattr(wordsens, name) is not None
