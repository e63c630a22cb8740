"""Words of any language and sign in figures, and curves of a single point."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from tests.figures.drawing import draw
from wordsens.figures import style, text
from wordsens.figures.single import show_single_points
from wordsens.studies.attention.figures import attention
from wordsens.studies.prompts.figures import prompts

PIECES = ["日本", "😀", "שלום", "سلام", "▁", "$5", "a_b^c", "\\frac", "Привет", "café", "##ing"]


def squares(pieces: list[str]) -> pd.DataFrame:
    pairs = [(i, j) for i in range(len(pieces)) for j in range(len(pieces))]
    return pd.DataFrame(
        {
            **{"sentence": " ".join(pieces)[:40], "query": [i for i, _ in pairs]},
            **{"key": [j for _, j in pairs], "query_piece": [pieces[i] for i, _ in pairs]},
            **{"key_piece": [pieces[j] for _, j in pairs], "weight": np.linspace(0, 1, len(pairs))},
        }
    )


def answers(first: str, second: str) -> pd.DataFrame:
    row = {"prompt": "素晴らしい映画でした。" * 9, "answer": "It costs $5, not $6.", "model": "m"}
    row |= {"difference": -1.5, "first": first, "second": second}
    return pd.DataFrame([row, {**row, "answer": ""}])


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("attention", squares(PIECES)),
        ("prompts", answers("$5", "$6")),
        ("prompts", answers("はい", "いいえ")),
        ("prompts", answers("a}b", "{\\x")),
    ],
)
def test_no_glyph_is_missing_in_silence(kind: str, table: pd.DataFrame, tmp_path, capfd) -> None:
    """Each character is drawn by a font that has it, or named in one line."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*[Gg]lyph.*missing")
        draw(kind, {"t": table}, {}, tmp_path / "f")
    said = [line for line in capfd.readouterr().err.splitlines() if "no installed font" in line]
    with style.context():
        _, missing = text.families("".join(map(str, table.to_numpy().flat)))
    assert len(said) == bool(missing)
    for line in said:
        assert line.startswith("figure f: ")
        assert missing[0] in line
        assert "install a font such as Noto" in line


def test_characters_that_some_font_has_keep_their_shape() -> None:
    with style.context():
        family, missing = text.families("▁שлa")
        assert missing == []
        assert family[0] == "STIXGeneral"
        assert "DejaVu Sans" in family
        assert text.shown("▁ש costs $5") == r"▁ש costs \$5"
        assert text.drawable("a\u0378") == "a\ufffd", "no font has what is no character"
        family, missing = text.families("\u200b \n\u202e")
        assert (family, missing) == (["STIXGeneral"], []), "what is invisible needs no font"


def test_names_at_the_axes_are_the_pieces(tmp_path: Path) -> None:
    table = squares(["$5", "a_b$", "▁", "x"])
    with style.context(), text.fonts([table], "f"):
        figure, _ = attention.figure({"t": table})
        figure.canvas.draw()
        names = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    plt.close(figure)
    assert names == [r"\$5", r"a_b\$", "▁", "x"]


def test_lines_are_as_wide_as_they_may_be() -> None:
    assert text.wrapped("日本語" * 10, 12) == ["日本語日本語"] * 5
    assert text.wrapped("one two three", 7) == ["one two", "three"]
    assert text.wrapped("", 7) == [""]
    figure, _ = prompts.figure({"t": answers("Yes", "No")})
    lines = [part.get_text() for part in figure.axes[0].texts]
    plt.close(figure)
    assert max(text.columns(line) for line in lines) <= 46
    assert "log p(Yes) / p(No)" in lines


# One n


def one_n(kind: str) -> pd.DataFrame:
    point = {"study": "s", "map": "rf", "d": 4, "depth": 1, "n": 8, "words": 1, "theory": 0.3}
    point |= {"encoder": "e", "dataset": "m", "vectors": "static", "bound": 0.9}
    if kind == "layers":
        rows = [{"weights": w, "layer": x} for w in ("random", "pretrained") for x in (0, 1, 2)]
    else:
        rows = [{}]
    tables = [{**point, **row, "trial": t, "sup": 0.2 + t / 9} for row in rows for t in range(3)]
    table = pd.DataFrame(tables)
    measures = ("continuous", "first", "first_in_ball", "sup_in_ball")
    return table.assign(**dict.fromkeys(measures, table["sup"] * 0.9))


@pytest.mark.parametrize("kind", ["layers", "context_length", "words", "vocabulary"])
def test_curves_of_one_n_are_drawn(kind: str, tmp_path: Path, monkeypatch) -> None:
    """Whatever stands in a legend as a line leaves ink in its panel."""
    kept: list[plt.Figure] = []
    monkeypatch.setattr(plt, "close", kept.append)
    draw(kind, {"s": one_n(kind)}, {}, tmp_path / "f")
    monkeypatch.undo()
    (figure,) = kept
    lines = [line for axes in figure.axes for line in axes.lines if len(line.get_xdata())]
    assert lines
    for line in lines:
        distinct = np.unique(line.get_xydata(), axis=0)
        assert len(distinct) > 1 or line.get_marker() not in ("None", "", None)
    plt.close(figure)


def test_lines_of_several_points_are_left_alone() -> None:
    figure, axes = plt.subplots()
    (line,) = axes.plot([1, 2], [1, 1])
    (dot,) = axes.plot([1, 1], [3, 3], ls="--")
    show_single_points(figure)
    plt.close(figure)
    assert line.get_marker() == "None"
    assert dot.get_marker() == "_"


@pytest.mark.parametrize(
    "name", ["minilm", "own_SmolLM2_135M_Instruct_Q4_1_ggu_14493a4e", "a$b$" * 9]
)
def test_a_title_stays_within_its_panel(name: str) -> None:
    _, axes = style.panels(1, 2)
    for panel in axes[0]:
        panel.set_title(style.headed(name, "pretrained weights"))
    drawn = axes[0, 0].figure
    drawn.draw_without_rendering()
    boxes = [panel.title.get_window_extent() for panel in axes[0]]
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[0].x0 >= 0
    plt.close(drawn)
