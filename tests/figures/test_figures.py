"""Figures from synthetic tables: files, numbers, panels, and what a table must have."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from tests.figures.drawing import draw
from wordsens.errors import UserError
from wordsens.figures import summary
from wordsens.studies.sensitivity.figures import context_length, positions, words

LENGTHS = (10, 50, 250)
POINT = ["sweep", "map", "d", "depth", "n", "words"]


def table(name: str, trials: int = 4, changed: tuple[int, ...] = (1,), **more: Any) -> pd.DataFrame:
    """One row per trial, around the values the map is known for."""
    rng = np.random.default_rng(7)
    rows = []
    for d in (96, 384):
        for n in LENGTHS:
            for m in changed:
                value = (1 + n**-0.5) * (m / n) ** 0.5 if name in ("rf", "drf") else 2 + m / 4
                for trial in range(trials):
                    found = value * (1 + 0.05 * rng.standard_normal())
                    row = {"map": name, "d": d, "depth": 1, "n": n, "words": m, "trial": trial}
                    rows.append({**row, "sup": found, "bound": np.nan, **more})
    return pd.DataFrame(rows)


def over_positions(name: str = "raf", d: tuple[int, ...] = (96,)) -> pd.DataFrame:
    """One row per trial and position."""
    rng = np.random.default_rng(8)
    rows = []
    for width in d:
        for n in LENGTHS:
            for trial in range(3):
                values = 2 + rng.gumbel(size=n) / 5
                for i, value in enumerate(values):
                    point = {"map": name, "d": width, "depth": 1, "n": n, "words": 1}
                    found = {"sup_at_position": value, "sup": values.max(), "bound": np.nan}
                    rows.append({**point, "trial": trial, "position": i, **found})
    return pd.DataFrame(rows)


TABLES = {
    "context_length": lambda: {"a": table("rf"), "b": table("raf")},
    "words": lambda: {"a": table("rf", changed=(1, 2, 4)), "b": table("raf", changed=(1, 2, 4))},
    "positions": lambda: {"a": over_positions()},
}


@pytest.mark.parametrize("kind", TABLES)
def test_writes_vector_pdf_png_and_csv(kind: str, tmp_path: Path) -> None:
    before = plt.get_fignums()  # of other tests
    written = draw(kind, TABLES[kind](), {}, tmp_path / "new" / "figure")
    assert [path.name for path in written] == ["figure.pdf", "figure.png", "figure.csv"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in written
    )
    pdf, png, _ = (path.read_bytes() for path in written)
    assert pdf.startswith(b"%PDF")
    assert png.startswith(b"\x89PNG")
    assert b"/Subtype /Image" not in pdf
    paths = sum(content.count(b" l\n") for content in _streams(pdf))
    assert paths > 20, "lines are drawn as paths"
    assert plt.get_fignums() == before, "a figure was left open"


def _streams(pdf: bytes) -> list[bytes]:
    found = []
    for piece in pdf.split(b"stream\n")[1::2]:
        try:
            found.append(zlib.decompressobj().decompress(piece))
        except zlib.error:
            continue
    return found


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    tables = TABLES["context_length"]()
    first = draw("context_length", tables, {}, tmp_path / "one")
    second = draw("context_length", tables, {}, tmp_path / "two")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()


@pytest.mark.parametrize("kind", ["context_length", "words"])
def test_csv_holds_mean_and_deviation_over_trials(kind: str, tmp_path: Path) -> None:
    tables = TABLES[kind]()
    *_, csv = draw(kind, tables, {}, tmp_path / "figure")
    numbers = pd.read_csv(csv).set_index(POINT).sort_index()
    raw = pd.concat([rows.assign(sweep=sweep) for sweep, rows in tables.items()])
    grouped = raw.groupby(POINT)["sup"]
    expected = pd.DataFrame(
        {"mean": grouped.mean(), "std": grouped.std(), "trials": grouped.size()}
    )
    assert len(numbers) == len(expected)
    for column in expected:
        np.testing.assert_allclose(numbers[column], expected[column].sort_index(), rtol=1e-12)


def test_repeated_rows_of_a_trial_count_once() -> None:
    rows = summary.checked("a", over_positions())
    numbers = summary.summarise(rows).set_index("n")
    for n, part in rows.groupby("n"):
        largest = part.groupby("trial")["sup_at_position"].max()
        assert numbers.loc[n, "trials"] == 3
        assert numbers.loc[n, "mean"] == pytest.approx(largest.mean(), rel=1e-12)
        assert numbers.loc[n, "std"] == pytest.approx(largest.std(), rel=1e-12)


def test_positions_csv_has_first_position_and_quantiles(tmp_path: Path) -> None:
    rows = over_positions(d=(96, 192))
    *_, csv = draw("positions", {"a": rows}, {}, tmp_path / "figure")
    numbers = pd.read_csv(csv).set_index(["d", "n"])
    for key, part in rows.groupby(["d", "n"]):
        first = part.loc[part["position"] == 0, "sup_at_position"]
        assert numbers.loc[key, "first_mean"] == pytest.approx(first.mean())
        assert numbers.loc[key, "q75"] == pytest.approx(part["sup_at_position"].quantile(0.75))


def test_one_panel_per_sweep_in_the_order_asked(tmp_path: Path) -> None:
    tables = {name: summary.checked(name, table(name)) for name in ("rf", "raf", "relu_raf")}
    figure, _ = context_length.figure(tables)
    assert [axes.get_title() for axes in figure.axes] == [
        "Random features (RF)",
        "Random attention (RAF)",
        "Random attention with ReLU (ReLU-RAF)",
    ]
    plt.close(figure)
    *_, csv = draw("context_length", tables, {"sweeps": ["relu_raf", "rf"]}, tmp_path / "figure")
    assert list(pd.read_csv(csv)["sweep"].unique()) == ["relu_raf", "rf"]


def test_positions_has_two_panels_per_sweep_and_words_one() -> None:
    two = {name: summary.checked(name, over_positions(name)) for name in ("rf", "raf")}
    figure, _ = positions.figure(two)
    assert len(figure.axes) == 4
    plt.close(figure)
    both = {name: summary.checked(name, rows) for name, rows in TABLES["words"]().items()}
    figure, _ = words.figure(both)
    assert len(figure.axes) == 1
    plt.close(figure)


def labels(axes: plt.Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_random_features_are_log_log_with_theory_and_bound() -> None:
    rows = table("rf", theory=0.1).assign(bound=lambda t: 1.5 * t["sup"])
    figure, numbers = context_length.figure({"rf": summary.checked("rf", rows)})
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert labels(axes) == ["$d = 96$", "$d = 384$", r"$k \to \infty$", "upper bound"]
    np.testing.assert_allclose(numbers["bound_mean"], 1.5 * numbers["mean"])
    assert axes.get_ylim()[1] > numbers["bound_mean"].max()
    plt.close(figure)


def test_depth_colours_deep_random_features() -> None:
    rows = pd.concat([table("drf").query("d == 96").assign(depth=depth) for depth in (2, 4, 8)])
    figure, _ = context_length.figure({"drf": summary.checked("drf", rows)})
    assert labels(figure.axes[0]) == ["$L = 2$", "$L = 4$", "$L = 8$", r"$1/\sqrt{n}$"]
    plt.close(figure)


def test_each_depth_keeps_its_own_large_width_curve() -> None:
    base = table("drf").query("d == 96")
    rows = pd.concat([base.assign(depth=depth, theory=depth / 10) for depth in (2, 4)])
    figure, numbers = context_length.figure({"drf": summary.checked("drf", rows)})
    assert sorted(numbers["theory"].unique()) == [0.2, 0.4]
    heights = {tuple(set(line.get_ydata())) for line in figure.axes[0].lines}
    assert {(0.2,), (0.4,)} <= heights
    assert labels(figure.axes[0]) == ["$L = 2$", "$L = 4$", r"$k \to \infty$"]
    plt.close(figure)


def test_legend_stands_outside_the_data() -> None:
    figure, _ = context_length.figure({"raf": summary.checked("raf", table("raf"))})
    (axes,) = figure.axes
    figure.canvas.draw()
    assert not axes.get_legend().get_window_extent().overlaps(axes.bbox)
    plt.close(figure)


def test_one_trial_has_no_deviation(tmp_path: Path) -> None:
    *_, csv = draw("context_length", {"a": table("rf", trials=1)}, {}, tmp_path / "figure")
    numbers = pd.read_csv(csv)
    assert numbers["std"].isna().all()
    assert numbers["mean"].notna().all()


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    stem = tmp_path / "figure"
    with pytest.raises(UserError, match=r"'pie': allowed are context_length"):
        draw("pie", {"a": table("rf")}, {}, stem)
    with pytest.raises(UserError, match="no table of 'b'"):
        draw("words", {"a": table("rf")}, {"sweeps": ["a", "b"]}, stem)
    with pytest.raises(UserError, match="column 'sup' is missing"):
        draw("words", {"a": table("rf").drop(columns="sup")}, {}, stem)
    with pytest.raises(UserError, match="has no rows"):
        draw("words", {"a": table("rf").iloc[:0]}, {}, stem)
    with pytest.raises(UserError, match="visits one position"):
        draw("positions", {"a": table("rf")}, {}, stem)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ends", [(0.055, 0.19), (0.3, 0.91), (5, 15), (0.01, 0.9), (1e-4, 1e4)])
def test_a_log_axis_of_any_range_has_a_few_labels(ends):
    import matplotlib.pyplot as plt

    from wordsens.figures import style

    drawn, axes = plt.subplots()
    axes.plot([1, 2], ends)
    style.logarithmic(axes, "y")
    low, high = axes.get_ylim()
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    plt.close(drawn)
    assert 3 <= len(shown) <= 10
