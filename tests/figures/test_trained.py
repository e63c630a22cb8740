"""Figures of trained models from small tables: panels, scales and numbers."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from tests.figures.drawing import draw
from wordsens.errors import UserError
from wordsens.studies.attention.figures import attention
from wordsens.studies.attraction.figures import attraction
from wordsens.studies.explanation.figures import explanation
from wordsens.studies.layers.figures import layers, tasks


def layers_table(depth: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            **{"study": "x", "encoder": "tiny", "dataset": "mine", "weights": weights, "n": n},
            **{"layer": layer, "trial": trial, "sup": (1 + layer) * rng.uniform(0.9, 1.1) / n},
        }
        for weights in ("pretrained", "random")
        for n in (8, 32)
        for layer in range(depth + 1)
        for trial in range(4)
    ]
    return pd.DataFrame(rows)


def squares_table(words: str, top: float) -> pd.DataFrame:
    pieces = words.split()
    pairs = [(i, j) for i in range(len(pieces)) for j in range(len(pieces))]
    return pd.DataFrame(
        {
            "sentence": words,
            "query": [i for i, _ in pairs],
            "key": [j for _, j in pairs],
            "query_piece": [pieces[i] for i, _ in pairs],
            "key_piece": [pieces[j] for _, j in pairs],
            "weight": np.linspace(0, top, len(pairs)),
        }
    )


def attraction_table() -> pd.DataFrame:
    nothing = {"layer": None, "head": None, "draw": None, "query": None, "query_piece": None}
    rows = [
        {
            **nothing,
            "quantity": "relative_change",
            "perturbation": name,
            "layer": layer,
            "value": 0.1 * layer,
        }
        for name in ("singular", "queries")
        for layer in range(3)
    ]
    rows += [
        {**nothing, "quantity": "relative_change", "perturbation": "noise"}
        | {"layer": layer, "draw": k, "value": 0.01 * (layer + k)}
        for k in range(4)
        for layer in range(3)
    ]
    for name in ("none", "singular", "queries"):
        for head in range(2):
            to_word = {"quantity": "attention_to_word", "perturbation": name, "head": head}
            rows.append({**nothing, **to_word, "value": 0.25})
        rows += [
            {**nothing, "quantity": "attention", "perturbation": name, "head": 0}
            | {"query": i, "query_piece": f"w{i}", "value": 0.2}
            for i in range(3)
            for _ in range(3)
        ]
    return pd.DataFrame(rows).assign(tokens=5, position=1, encoder="tiny")


def test_layers_have_a_panel_per_weights_on_one_scale(tmp_path: Path) -> None:
    figure, numbers = layers.figure({"x": layers_table(12)})
    assert [axes.get_title() for axes in figure.axes] == [
        "tiny, pretrained weights",
        "tiny, random weights",
    ]
    one, two = figure.axes
    assert one.get_ylim() == two.get_ylim()
    shown = [text.get_text() for text in one.get_legend().get_texts()]
    assert len(shown) == 6 + 2, "six layers, layer 0 and the reference"
    assert {"$l = 1$", "$l = 12$", "$l = 0$"} <= set(shown)
    plt.close(figure)
    table = layers_table()
    *_, csv = draw("layers", {"x": table}, {}, tmp_path / "figure")
    drawn = pd.read_csv(csv).set_index(["weights", "layer", "n"])
    means = table.groupby(["weights", "layer", "n"])["sup"]
    np.testing.assert_allclose(drawn["mean"], means.mean().sort_index(), rtol=1e-12)
    np.testing.assert_allclose(drawn["std"], means.std().sort_index(), rtol=1e-12)
    assert len(numbers) == 2 * 2 * 13


def test_sentences_share_one_colour_scale() -> None:
    table = pd.concat([squares_table("a b c", 0.5), squares_table("a b $x_$", 0.9)])
    figure, _ = attention.figure({"x": table})
    meshes = [axes.collections[0] for axes in figure.axes[:2]]
    assert {mesh.get_clim() for mesh in meshes} == {(0, 0.9)}
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["a", "b", r"\$x_\$"]
    top_left = meshes[0].get_array().reshape(3, 3)[0, 0]
    assert top_left == 0
    assert figure.axes[0].yaxis_inverted(), "the first query stands above"
    plt.close(figure)


def test_attraction_shows_mean_and_band_of_the_noise(tmp_path: Path) -> None:
    figure, _ = attraction.figure({"x": attraction_table()})
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["Gaussian noise"], [0.015, 0.025, 0.035])
    titles = [axes.get_title() for axes in figure.axes[1:4]]
    assert all("0.250 to the word" in title for title in titles)
    plt.close(figure)
    draw("attraction", {"x": attraction_table()}, {}, tmp_path / "figure")


def test_a_model_without_attracting_directions_has_the_panels_that_there_are(
    tmp_path: Path,
) -> None:
    whole = attraction_table()
    noise = whole[whole["perturbation"].isin(["noise", "none"])]
    figure, _ = attraction.figure({"x": noise})
    assert len(figure.axes[0].lines) == 1, "the noise alone"
    assert [axes.get_title() for axes in figure.axes[1:2]] == ["unchanged: 0.250 to the word"]
    plt.close(figure)
    without_scores = noise[noise["quantity"] == "relative_change"]
    figure, _ = attraction.figure({"x": without_scores, "y": whole})
    assert [axes.axison for axes in figure.axes[:8]] == [True, *[False] * 3, *[True] * 4]
    plt.close(figure)
    draw("attraction", {"x": noise}, {}, tmp_path / "figure")


def by_position() -> pd.DataFrame:
    table = layers_table(2).loc[lambda table: table["n"] == 8]
    parts = [table.assign(position_tried=i, sup_at_position=table["sup"] / (1 + i)) for i in (0, 5)]
    return pd.concat(parts, ignore_index=True)


def test_layers_against_the_position_of_the_word(tmp_path: Path) -> None:
    *_, csv = draw("layer_positions", {"x": by_position()}, {}, tmp_path / "figure")
    drawn = pd.read_csv(csv).set_index(["layer", "position_tried"])["mean"]
    own = by_position().query("weights == 'pretrained'")
    expected = own.groupby(["layer", "position_tried"])["sup_at_position"].mean()
    np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    # Several positions are no further trials of the figure against n.
    _, numbers = layers.figure({"x": by_position()})
    assert (numbers["trials"] == 4).all()
    plt.close("all")


def explanation_table(texts: int = 2, words: int = 50) -> pd.DataFrame:
    rows = [
        {"text": text, "position": i, "piece": f"$w_{i}$", "target": target, "change": change}
        for text in range(texts)
        for i in range(words)
        for target, change in (
            ("layer 0", 9.0),
            ("layer 1", 0.1 * i),
            ("layer 10", 0.2),
            ("output", 3.0 + i),
        )
    ]
    known = {"study": "x", "encoder": "tiny", "window": 0, "by": "real word", "rank": 1, "new": "a"}
    return pd.DataFrame(rows).assign(**known)


def test_explanations_have_a_row_per_layer_and_a_column_per_word(tmp_path: Path) -> None:
    figure, numbers = explanation.figure({"x": explanation_table()})
    panels = figure.axes[:2]
    assert [axes.get_title() for axes in panels] == ["tiny, text 1", "tiny, text 2"]
    shown = panels[0].collections[0].get_array()
    assert shown.shape == (3, explanation.WORDS), "layers 1 and 10, and the output above"
    np.testing.assert_allclose(shown[0], 0.1 * np.arange(explanation.WORDS))
    np.testing.assert_allclose(shown[1], 0.2)
    assert {axes.collections[0].get_clim() for axes in panels} == {(0, shown[0].max())}
    assert shown[2].max() == pytest.approx(shown[0].max()), "a scale of its own"
    labels = [text.get_text() for text in panels[0].get_yticklabels()]
    assert labels == ["1", "10", f"output (to {3.0 + explanation.WORDS - 1:.2f})"]
    assert set(numbers["target"]) == {"layer 1", "layer 10", "output"}
    plt.close(figure)
    draw("explanation", {"x": explanation_table(5, 2)}, {}, tmp_path / "figure")


def test_prompts_are_a_readable_table(tmp_path: Path) -> None:
    rows = {
        "prompt": ["a $5_ film, not $6", "b"],
        "answer": ["Yes, it_is", ""],
        "difference": [1.0, -2.0],
    }
    table = pd.DataFrame(rows).assign(first="Yes", second="No", model="tiny")
    pdf, *_, csv = draw("prompts", {"x": table}, {}, tmp_path / "figure")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert pd.read_csv(csv)["difference"].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    "kind", ["layers", "layer_positions", "attention", "attraction", "prompts", "explanation"]
)
def test_mistakes_are_one_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'x': column '\w+' is missing; make it anew"):
        draw(kind, {"x": pd.DataFrame({"a": [1]})}, {}, tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_tasks_have_a_panel_per_length_and_a_curve_per_text() -> None:
    reviews = layers_table()
    code = layers_table().assign(dataset="code", sup=lambda table: 2 * table["sup"])
    figure, numbers = tasks.figure({"reviews": reviews, "code": code})
    assert [axes.get_title() for axes in figure.axes] == ["$n = 8$", "$n = 32$"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == ["mine", "code", r"$1/\sqrt{n}$"]
    assert set(numbers["weights"]) == {"pretrained"}
    means = numbers.set_index(["dataset", "n", "layer"])["mean"]
    np.testing.assert_allclose(means["code"], 2 * means["mine"])
    plt.close(figure)
