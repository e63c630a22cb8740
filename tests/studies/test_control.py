"""Word sensitivity beside test errors: cells of generalization studies, and the figure of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from tests.figures.drawing import draw
from tests.studies.cells import complete
from tests.test_config import mistakes
from wordsens.activations import activation
from wordsens.errors import UserError
from wordsens.maps import MapOptions, map_class
from wordsens.randomness import Stream
from wordsens.results import write_cell
from wordsens.search.sensitivity import word_sensitivity
from wordsens.studies.generalization.cell import run
from wordsens.studies.generalization.figures.control import half_width
from wordsens.studies.generalization.table import searches_table

OWN = {
    **{"study": "x", "dataset": "synthetic", "n": 6, "d": 8, "N": 12, "trials": 3, "seed": 1},
    **{"losses": ["error_finetuned"], "tradeoff": [0.1, 0.5], "precision": "float64"},
}
LEVEL, SEEDS = 1e-7, 400  # two-sample tests fail by chance once in ten million


def made(**changes: Any) -> dict[str, Any]:
    return complete("generalization", **{**OWN, "sensitivity": True, **changes})


def test_sensitivity_is_that_of_the_sample_under_the_same_weights() -> None:
    cell = made(map="raf")
    arrays, _ = run(cell, {}, "cpu")
    plain, _ = run({k: v for k, v in cell.items() if k != "sensitivity"}, {}, "cpu")
    assert "sup" not in plain
    np.testing.assert_array_equal(arrays["value"], plain["value"])
    from wordsens.data.samples import draw_training_set

    own = Stream(1, "glm", dataset="synthetic", map="raf", d=8, n=6, N=12).child("trial", trial=0)
    X = draw_training_set(None, 6, 8, 12, own.child("samples"), dtype=torch.float64).X[0]
    raf = map_class("raf").draw((6, 8), [own.child("map")], MapOptions(), dtype=torch.float64)
    raf.batch = None
    assert arrays["sup"][0] == pytest.approx(word_sensitivity(raf, X).sup, rel=0.02)


@pytest.mark.parametrize(
    "options", [{"map": "drf", "depth": 3, "width": 40}, {"map": "transformer", "depth": 2}]
)
def test_deep_maps_interpolate_and_are_measured(options: dict[str, Any]) -> None:
    arrays, attributes = run(made(**options, trials=2), {}, "cpu")
    assert (arrays["residual"] < 1e-6).all()
    assert (arrays["sup"] > 0).all()
    assert attributes["depth"] == options["depth"]
    errors = arrays["value"][:, arrays["limit"][0] == 0.1]
    assert (errors >= 0).all()


def test_deep_training_features_have_the_dense_law() -> None:
    """Features of samples and of a changed one, of three layers from one joint draw and stored."""
    n, d, k, phi = 3, 4, 14, activation("relu")
    g = torch.Generator().manual_seed(0)
    X = torch.randn(4, n, d, generator=g, dtype=torch.float64)
    moved = X[0].clone()
    moved[0] += 0.8
    options = MapOptions(width=k, depth=3)
    ours, dense = [], []
    for seed in range(SEEDS):
        stream = Stream(seed, "joint")
        Phi, view = map_class("drf").draw_training(X, stream, options)
        changed = view.features((X[0, 0] + 0.8)[None, None, None, None])[0, 0, 0]
        ours.append(_seen(Phi, changed))
        h = torch.cat([X, moved[None]]).flatten(1)
        for layer in range(3):
            V = Stream(seed, "dense").child("V", layer=layer).normal(k, h.shape[1]).double()
            h = phi.value(h @ V.T * (2 / h.shape[1]) ** 0.5)
        dense.append(_seen(h[:-1], h[-1]))
    for a, b in zip(np.array(ours).T, np.array(dense).T, strict=True):
        assert stats.ks_2samp(a, b).pvalue > LEVEL


def _seen(Phi: torch.Tensor, changed: torch.Tensor) -> list[float]:
    """Quantities that a joint law of samples and changed sample must get right."""
    return [
        Phi[0].norm().item(),
        (Phi[0] @ Phi[1]).item(),
        (Phi[0] @ changed).item(),
        (Phi[2] @ changed).item(),
        (changed - Phi[0]).norm().item(),
    ]


def test_the_figure_numbers_settings_and_has_intervals(tmp_path: Path) -> None:
    tables = {}
    for name, options in {
        "plain": {"map": "raf"},
        "warm": {"map": "raf", "temperature": 4},
        "blocks": {"map": "transformer", "depth": 2, "trials": 2},
    }.items():
        arrays, attributes = run(made(**options, study=name), {}, "cpu")
        write_cell(tmp_path / f"{name}.h5", arrays, attributes)
        tables[name] = searches_table([tmp_path / f"{name}.h5"])
    *_, csv = draw("control", tables, {}, tmp_path / "figure")
    drawn = pd.read_csv(csv)
    assert len(drawn) == 3 * 2 * 2
    named = drawn.drop_duplicates("number").set_index("number")["setting"].to_dict()
    assert named == {
        1: "RAF",
        2: r"RAF, $\tau = 4$",
        3: "Attention + residual + norm + MLP, $L = 2$",
    }
    assert (drawn["error_half"] > 0).all()
    with pytest.raises(UserError, match=r"set generalization\.plain\.sensitivity: true"):
        draw("control", {"plain": tables["plain"].drop(columns="sup")}, {}, tmp_path / "figure")


def test_intervals_of_means_cover() -> None:
    """95 % intervals of 5 values, 4000 times: the share that covers is within 6σ of 0.95."""
    drawn = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 4000)))
    halves = drawn.apply(half_width)
    covered = (drawn.mean().abs() <= halves).mean()
    assert abs(covered - 0.95) < 6 * (0.95 * 0.05 / 4000) ** 0.5
    assert np.isnan(half_width(pd.Series([1.0])))


def test_mistakes_are_one_line() -> None:
    for key, value, says in (
        ("generalization.control_raf.sensitivity", False, "measures no sensitivity"),
        ("generalization.control_blocks_2.heads", 7, "heads: is 7, which must divide d"),
        ("generalization.control_raf.temperature", 0, "temperature: is 0"),
        ("figures.control", {"kind": "control", "sweeps": ["control_rf"]}, "the name of a rule"),
    ):
        lines = mistakes({key: value})
        assert any(says in line for line in lines), lines
