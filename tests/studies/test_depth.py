"""Cells, tables and figures of studies of depth and temperature, and their mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from tests.figures.drawing import draw
from tests.studies.cells import complete
from tests.test_config import SCHEMA, changed, mistakes
from wordsens import word_sensitivity
from wordsens.config import ConfigError, load
from wordsens.data.samples import draw_samples
from wordsens.maps import MapOptions, map_class
from wordsens.randomness import Stream
from wordsens.results import write_cell
from wordsens.studies.depth.cell import run
from wordsens.studies.depth.figures import depth, temperature
from wordsens.studies.depth.table import tables

CELL = {"study": "x", "seed": 3, "dataset": "synthetic", "d": 8, "n": 6, "trials": 3}
DEEP = CELL | {"map": "transformer", "depth": [1, 3], "temperature": [1.0], "precision": "float64"}


def made(**changes: Any) -> dict[str, Any]:
    return complete("depth", **{**DEEP, **changes})


def test_a_shallow_map_is_the_beginning_of_a_deep_one() -> None:
    both, attributes = run(made(), {}, "cpu")
    assert both["sup"].shape == (3, 2)
    assert attributes["depths"] == [1, 3]
    for k, layers in enumerate((1, 3)):
        alone, _ = run(made(depth=[layers]), {}, "cpu")
        np.testing.assert_allclose(alone["sup"][:, 0], both["sup"][:, k], rtol=1e-9)
    streams = [Stream(0, "x")]
    cls = map_class("transformer")
    one, three = (
        cls.draw((6, 8), streams, MapOptions(depth=L), dtype=torch.float64).blocks for L in (1, 3)
    )
    assert (one[0].query.matrix == three[0].query.matrix).all()


def test_a_trial_does_not_depend_on_the_number_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = run(made(), {}, "cpu")
    fewer, _ = run(made(trials=2), {}, "cpu")
    np.testing.assert_allclose(fewer["sup"], whole["sup"][:2], rtol=1e-6)
    monkeypatch.setattr("wordsens.studies.depth.cell.CELL_BYTES", 1)
    alone, _ = run(made(), {}, "cpu")
    np.testing.assert_allclose(alone["sup"], whole["sup"], rtol=1e-6)


def test_temperatures_share_their_weights(tmp_path: Path) -> None:
    cell = complete(
        "depth", **CELL, map="raf", temperature=[1.0, 100.0], starts=4, precision="float64"
    )
    arrays, attributes = run(cell, {}, "cpu")
    assert (arrays["sup"][:, 1] < 0.5 * arrays["sup"][:, 0]).all(), "warm attention averages"
    write_cell(tmp_path / "cell.h5", arrays, attributes)
    table = tables([str(tmp_path / "cell.h5")])["table"]
    assert len(table) == 3 * 2
    assert list(table["temperature"][:2]) == [1, 100]
    assert (table["depth"] == 1).all()
    stream = Stream(3, "depth", dataset="synthetic", map="raf", d=8, n=6)
    own = [stream.child("trial", trial=0)]
    raf = map_class("raf").draw((6, 8), own, MapOptions(), dtype=torch.float64)
    raf.batch = None
    X = draw_samples(None, 6, 8, 1, stream, dtype=torch.float64).X[0]
    found = word_sensitivity(raf, X)
    assert found.sup == pytest.approx(table["sup"][0], rel=0.05)


def table_of(**columns: Any) -> pd.DataFrame:
    rows = [
        {
            **{"study": "x", "map": "transformer", "d": 8, "n": n, "depth": L, "temperature": tau},
            **{"attention": "softmax", "residual": 1.0, "layer_norm": "after", "mlp": 0},
            **{"trial": t, "sup": 1.0 / n + L - abs(np.log2(tau) - 1) / 9, "bound": 2.0},
        }
        for n in (10, 40)
        for L in (1, 4)
        for tau in (1.0, 2.0, 4.0)
        for t in range(2)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_a_bound_is_drawn_where_a_norm_ends_the_blocks(tmp_path: Path) -> None:
    normed = table_of().query("temperature == 1")
    free = normed.assign(layer_norm="none", bound=np.nan, mlp=4, study="y")
    figure, numbers = depth.figure({"x": normed, "y": free})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["Attention + residual + norm", "Attention + residual + MLP"]
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert legends == [["$n = 10$", "$n = 40$", "upper bound"], ["$n = 10$", "$n = 40$"]]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert set(numbers["study"]) == {"x", "y"}
    plt.close(figure)
    for kind in ("depth", "depth_length"):
        *_, csv = draw(kind, {"x": normed}, {}, tmp_path / kind)
        drawn = pd.read_csv(csv)
        assert len(drawn) == 4
        expected = drawn["depth"] + 1 / drawn["n"] - 1 / 9
        np.testing.assert_allclose(drawn["mean"], expected)


def test_the_largest_mean_is_marked() -> None:
    warm = table_of().query("depth == 1")
    figure, _ = temperature.figure({"x": warm})
    rings = [line for line in figure.axes[0].lines if line.get_markersize() == 11]
    assert [ring.get_xdata()[0] for ring in rings] == [2, 2]
    assert "n = 10: 1.1 at τ = 2" in temperature.remark({"x": warm})
    plt.close(figure)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("depths.depth_mlp.heads", 5, "heads: is 5, which must divide d"),
        ("depths.depth_mlp.layer_norm", "both", "allowed: none, before, after"),
        ("depths.depth_mlp.map", "rf", "is 'rf'; allowed: raf, relu_raf, qkv, transformer"),
        ("depths.temperature_raf.temperature", [0], "temperature[0]: is 0"),
        ("depths.temperature_raf.temperature", [1], "kind temperature needs several values"),
        ("depths.temperature_raf.depth", [2], "map raf has none"),
        ("depths.depth_mlp.n", [300], "at most 250"),
        ("figures.depth", {"kind": "depth", "sweeps": ["depth_mlp"]}, "the name of a rule"),
    ],
)
def test_mistakes_are_one_line(key: str, value: Any, says: str) -> None:
    lines = mistakes({key: value})
    assert any(says in line for line in lines), lines


def test_layers_must_be_named() -> None:
    config = changed({})
    del config["depths"]["depth_mlp"]["depth"]
    with pytest.raises(ConfigError, match="depth: missing, and map transformer needs it"):
        load(config, [], SCHEMA)
