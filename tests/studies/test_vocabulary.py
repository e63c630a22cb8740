"""Cells of vocabulary studies: the sweep's own samples and maps, the words, tables and figure."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
import torch

from tests.figures.drawing import draw
from tests.studies.cells import complete
from wordsens.data.embeddings import open_embeddings, write_embeddings
from wordsens.data.encoders import Encoder
from wordsens.data.tokens import TokenSamples
from wordsens.data.vocabulary import make_vocabulary, open_vocabulary
from wordsens.errors import UserError
from wordsens.maps import map_class
from wordsens.randomness import Stream
from wordsens.results import read_cell, trials_table, write_cell
from wordsens.studies.sensitivity import cell as sensitivity
from wordsens.studies.vocabulary import cell as vocabulary
from wordsens.studies.vocabulary.figures.vocabulary import figure, summarise
from wordsens.studies.vocabulary.table import page, words_table

CELL = {
    "study": "t",
    "seed": 5,
    "map": "raf",
    "dataset": "mine",
    "d": 16,
    "n": 9,
    "vectors": "static",
    "candidates": "all",
    "special": False,
    "positions": "all",
    "trials": 3,
    "top": 6,
    "compare": True,
    "precision": "float64",
}


@pytest.fixture(scope="module")
def files(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Embeddings of 20 samples of 12 words, and the vocabulary."""
    folder = tmp_path_factory.mktemp("words")
    ids = np.random.default_rng(3).integers(4, 44, (20, 12)).astype(np.int32)
    samples = TokenSamples(ids, np.tile([1, -1], 10), np.full(20, 12, dtype=np.int32), {})
    encoder = Encoder.open(tiny_bert)
    write_embeddings(folder / "mine.h5", encoder, samples, 0, {"use_padding": False})
    make_vocabulary(folder / "tiny.h5", tiny_bert, "encoders.tiny")
    return folder / "mine.h5", folder / "tiny.h5"


def run(files: tuple[Path, Path], **changes):
    inputs = dict(zip(("data", "vocabulary"), files, strict=True))
    return vocabulary.run(complete("vocabulary", **{**CELL, **changes}), inputs, "cpu")


def drawn(cell: dict, trial: int):
    """The map of a trial, by the names that a sweep gives its draws."""
    names = {"dataset": "mine", "map": cell["map"], "d": 16, "n": cell["n"], "depth": 1, "words": 1}
    stream = Stream(cell["seed"], "cell", **names).child("trial", trial=trial)
    return map_class(cell["map"]).draw((cell["n"], 16), [stream], dtype=torch.float64)


@pytest.mark.parametrize("vectors", ["static", "layer0"])
@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_every_listed_change_is_that_of_the_words(files, name, vectors) -> None:
    """The words named, put into the text by hand, change a fresh map by the number given."""
    cell = {**CELL, "map": name, "vectors": vectors}
    arrays, _ = run(files, **cell)
    data, known = open_embeddings(files[0]), open_vocabulary(files[1])
    index = {piece: row for row, piece in enumerate(known.pieces)}
    for trial in (0, 2):
        ids = data.token_ids[arrays["sample"][trial], :9]
        layer = drawn(cell, trial)

        def vectors_of(tokens):
            if vectors == "static":
                return known.static(tokens, 16, torch.float64)
            rows = [known.at(i, [v], 16, torch.float64)[0] for i, v in enumerate(tokens)]
            return torch.stack(rows)

        base = layer.features(vectors_of(ids)[None])
        for rank in (0, 5):
            for which in ("top", "top_in_ball"):
                new, at = arrays[f"{which}_new"][trial, rank], arrays[f"{which}_position"]
                if not new:
                    continue
                at = at[trial, rank]
                assert known.pieces[ids[at]] == arrays[f"{which}_word"][trial, rank]
                assert f"[[{known.pieces[ids[at]]}]]" in arrays[f"{which}_context"][trial, rank]
                changed = ids.copy()
                changed[at] = index[new]
                gap = layer.features(vectors_of(changed)[None]) - base
                change = (gap.norm() / base.norm()).item()
                # layer-0 vectors come from float32 files
                tolerance = 1e-9 if vectors == "static" else 1e-5
                assert arrays[f"{which}_change"][trial, rank] == pytest.approx(
                    change, rel=tolerance
                )
    assert (arrays["top_in_ball_distance"][arrays["top_in_ball_new"] != ""] <= 1 + 1e-9).all()
    assert np.array_equal(arrays["sup"], arrays["top_change"][:, 0])
    assert (arrays["first"] <= arrays["sup"]).all()


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_layer_zero_meets_the_sweep_of_the_same_seed(files, name) -> None:
    """Same samples, maps and starts: the search over the ball and its audit are the sweep's."""
    arrays, _ = run(files, map=name, vectors="layer0", positions="first", audit=0.3)
    cell = {"sweep": "s", "seed": 5, "map": name, "dataset": "mine", "d": 16, "n": 9, "depth": 1}
    cell |= {"words": 1, "trials": 3, "positions": "first", "precision": "float64", "audit": 0.3}
    sweep, _ = sensitivity.run(complete("sensitivity", **cell), {"data": files[0]}, "cpu")
    assert np.array_equal(arrays["sample"], sweep["sample"])
    assert np.allclose(arrays["continuous"], sweep["sup"], rtol=1e-6)
    assert np.allclose(arrays["bound"], sweep["bound"], rtol=1e-6, equal_nan=True)
    assert np.allclose(arrays["audited"], sweep["audited"], rtol=1e-3, equal_nan=True)
    assert np.isfinite(arrays["excess"]).sum() == 1
    assert (arrays["first_in_ball"] <= arrays["continuous"] * (1 + 1e-6)).all()


def test_random_features_of_the_same_samples(files) -> None:
    """Words in the ball stay below the search over it, and below the bound at every position."""
    rf = {"map": "rf", "width": 300, "activation": "relu"}
    arrays, _ = run(files, **rf, vectors="layer0", positions=[4, 2])
    assert np.array_equal(arrays["positions_tried"], [[4, 2]] * 3)
    assert (arrays["first_in_ball"] <= arrays["continuous"]).all()
    assert (arrays["continuous"] <= arrays["bound"]).all()
    assert (arrays["best_by_position"].max(1) == arrays["sup"]).all()


def test_more_trials_and_fewer_candidates_leave_the_rest_alone(files) -> None:
    few, _ = run(files, trials=2, compare=False, top=40 * 9)
    more, attributes = run(files, trials=4, compare=False, candidates=["w1", "w7", "w30"])
    assert attributes["candidate_count"] == 3
    assert attributes["candidates"] == "listed"
    assert np.array_equal(few["sample"], more["sample"][:2])
    assert np.isnan(more["continuous"]).all()
    for trial in range(2):
        chosen = np.isin(few["top_new"][trial], ["w1", "w7", "w30"])
        expected = few["top_change"][trial][chosen][:6]
        assert np.allclose(more["top_change"][trial], expected, rtol=1e-12)
    frequent, attributes = run(files, candidates="frequent:5", compare=False)
    assert attributes["candidate_count"] == 5
    assert len(set(frequent["top_new"].flat)) <= 5


@pytest.fixture(scope="module")
def cells(files, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("cells")
    paths = []
    for n in (5, 9):
        arrays, attributes = run(files, n=n, candidates=["w1", "w2", "w3"], top=40)
        paths.append(folder / f"{n}.h5")
        write_cell(paths[-1], arrays, attributes)
    return paths


def test_tables_name_the_words(cells, files) -> None:
    table = words_table(cells)
    for n, path in zip((5, 9), cells, strict=True):
        arrays, _ = read_cell(path)
        part = table[(table["n"] == n) & (table["list"] == "top")]
        listed = ["w1", "w2", "w3"]
        data, known = open_embeddings(files[0]), open_vocabulary(files[1])
        texts = data.token_ids[arrays["sample"], :n]
        own = sum(known.pieces[i] in listed for i in texts.flat)
        assert len(part) == 3 * 3 * n - own, "padding and a word for itself are no rows"
        assert (part["new"] != part["word"]).all()
        first = part[part["rank"] == 1]
        assert np.array_equal(first["change"], arrays["sup"])
        assert np.array_equal(part["in_ball"], part["distance"] <= 1 + 1e-6)
    assert set(table["new"]) <= {"w1", "w2", "w3"}
    assert table[table["list"] == "top_in_ball"]["in_ball"].all()
    trials = trials_table(cells)
    assert len(trials) == 6
    assert {"sup", "first_in_ball", "continuous", "candidate_count"} <= set(trials)


def test_page_reads_as_markdown(cells) -> None:
    table = words_table(cells)
    odd = table.assign(new="*|_", context="a [[<b>]] c")
    text = page(odd)
    assert "## n = 5, d = 16" in text
    assert "## n = 9, d = 16" in text
    rows = [line for line in text.splitlines() if line.startswith("| a ")]
    assert len(rows) >= 10
    assert all(line.startswith(r"| a **\<b\>** c | ") for line in rows)
    assert all(r"| \*\|\_ |" in line for line in rows)
    best = table[(table["n"] == 9) & (table["trial"] == 0) & (table["list"] == "top")].iloc[0]
    assert f"| {best['change']:.4f} | {best['distance']:.3f} |" in text


def test_figure_and_its_numbers(cells, tmp_path) -> None:
    import matplotlib.pyplot as plt

    table = trials_table(cells)
    written = draw(
        "vocabulary", {"a": table, "b": table.assign(vectors="layer0")}, {}, tmp_path / "f"
    )
    numbers = pd.read_csv(written[2])
    assert len(numbers) == 4
    grouped = table.groupby("n")
    for name in ("continuous", "first", "sup"):
        for n, value in grouped[name].mean().items():
            assert np.allclose(numbers.loc[numbers["n"] == n, f"{name}_mean"], value)
    lost = summarise(table.assign(sup_in_ball=np.nan))
    assert (lost["sup_in_ball_mean"] == 0).all(), "no word in the ball is no change"
    drawn_figure, _ = figure({"a": table})
    (axes,) = drawn_figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown[:3] == [r"any $\Delta$ in the ball", "any word", "words in the ball"]
    plt.close(drawn_figure)
    with pytest.raises(UserError, match="column 'continuous' is missing"):
        draw("vocabulary", {"a": table.drop(columns="continuous")}, {}, tmp_path / "g")
    with pytest.raises(UserError, match="no rows"):
        draw("vocabulary", {"a": table.iloc[:0]}, {}, tmp_path / "g")


def test_a_table_of_another_kind_of_cell_is_one_line(tmp_path) -> None:
    write_cell(tmp_path / "c.h5", {"sup": np.ones(2)}, {"map": "raf"})
    with pytest.raises(UserError, match=r"c\.h5: no array 'top_position'"):
        words_table([tmp_path / "c.h5"])
