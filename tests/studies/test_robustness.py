"""Studies of robustness: cells agree with the library, figures draw, mistakes are said."""

from __future__ import annotations

import copy
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
import yaml
from snakemake.utils import update_config

from tests.figures.drawing import draw
from tests.studies.cells import complete
from tests.test_config import DEFAULT, ROOT, SCHEMA, mistakes
from wordsens.config import load
from wordsens.figures.captions import caption
from wordsens.results import read_cell, write_cell
from wordsens.studies import figure_module, kind_named
from wordsens.studies.conditioning.cell import first_width, hidden
from wordsens.studies.robustness.cell import draw as draw_samples
from wordsens.studies.robustness.cell import grid, trial_stream
from wordsens.studies.robustness.fitted import fitted

SAMPLES = {"seed": 1, "source": "gaussian", "section": "robustness", "trials": 2, "points": 4}
ENTRIES = {
    "robustness": {
        **SAMPLES,
        "features": "ntk",
        "N": [10, 15, 20],
        "d": [12],
        "width": [8, 16, 32],
    },
    "attack": {**SAMPLES, "features": "rf", "N": 10, "d": 12, "width": 40, "steps": 3},
    "conditioning": {"seed": 1, "n": [16, 36, 64], "d": 5, "trials": 2},
    "flow": {"seed": 1, "n": 8, "d": 5, "trials": 2, "time": 4.0},
    "text_robustness": {
        **{"seed": 1, "map": "raf", "dataset": "synthetic", "d": 6, "N": 7, "trials": 2},
        **{"points": 2, "starts": 2, "steps": 3},
    },
}
POINTS = {
    "robustness": {"activation": ["cos", "tanh"]},
    "attack": {"activation": ["cos", "relu"]},
    "conditioning": {"depth": [3, 4]},
    "flow": {"width": [2, 10]},
    "text_robustness": {"n": [3, 5]},
}


def cells(kind: str, folder: Path, **changes: object) -> list[Path]:
    study, paths = kind_named(kind), []
    ((axis, values),) = POINTS[kind].items()
    for value in values:
        cell = complete(kind, **{**ENTRIES[kind], axis: value, **changes})
        paths.append(folder / f"{axis}~{value}.h5")
        write_cell(paths[-1], *study.part("cell").run(cell, {}, "cpu"))
    return paths


@pytest.mark.parametrize("kind", list(ENTRIES))
def test_from_cells_to_figures(kind: str, tmp_path: Path) -> None:
    study = kind_named(kind)
    made = study.part("table").tables(cells(kind, tmp_path))
    assert set(made) == {"table", *study.pages}
    table = made["table"]
    axis = next(iter(POINTS[kind]))
    assert list(table[axis].unique()) == POINTS[kind][axis]
    assert table.notna().all().all() or kind in ("attack", "flow")
    for figure in study.figures:
        written = draw(figure, {"t": table}, {}, tmp_path / figure)
        assert all(path.stat().st_size > 0 for path in written)
        assert len(pd.read_csv(written[-1]))
        said = caption(figure_module(figure), {"t": table}, {})
        assert "nan" not in said


def test_a_cell_is_what_the_library_says(tmp_path: Path) -> None:
    cell = complete("robustness", **ENTRIES["robustness"], activation="cos")
    arrays, attributes = kind_named("robustness").part("cell").run(cell, {}, "cpu")
    assert attributes["parity"] == "even"
    row = 7  # the second trial of the fourth point
    N, d, width = list(grid(cell))[3]
    stream = trial_stream(cell, N, d, width, 1)
    drawn = draw_samples(cell, {}, N, d, stream)
    from wordsens.robustness.input_sensitivity import interpolate, sensitivity_at

    model = interpolate(
        drawn.X, drawn.y, "ntk", width=width, activation="cos", seed=stream.child("weights")
    )
    assert arrays["sensitivity"][row] == sensitivity_at(model, drawn.x).sensitivity.mean().item()
    assert (arrays["N"][row], arrays["width"][row], arrays["trial"][row]) == (N, width, 1)
    assert arrays["parameters"][row] == d * width


def test_dimensions_follow_their_rule() -> None:
    points = list(grid({"N": [64, 125], "d_times": 2, "d_power": 2 / 3, "width": [9]}))
    assert points == [(64, 32, 9), (125, 50, 9)]


def test_exponents_are_those_of_the_rows() -> None:
    p = np.repeat([100.0, 200, 400, 800, 1600], 4)
    table = pd.DataFrame(
        {
            **{"study": "t", "features": "ntk", "dataset": "gaussian", "activation": "cos"},
            **{"parity": "even", "mean_slope": 0.0, "N": 10, "d": 10, "width": p / 10},
            **{"parameters": p, "sensitivity": np.hypot(20 * p**-0.5, 0.6)},
        }
    )
    found = fitted(table)
    assert len(found) == 1
    assert found["exponent"].iloc[0] == pytest.approx(-0.5, abs=1e-4)
    assert found["floor"].iloc[0] == pytest.approx(0.6, rel=1e-3)
    assert found["theory"].iloc[0] == "−1/2"
    odd = table.assign(mean_slope=0.6, sensitivity=3.0 * p**-0.1)
    assert fitted(odd)["exponent"].iloc[0] == pytest.approx(-0.1)
    assert np.isnan(fitted(odd)["floor"].iloc[0])


def test_widths_by_shape() -> None:
    assert hidden(9, 4, "constant", 4) == [9, 9, 9]
    assert hidden(9, 4, "pyramid", 4) == [9, 5, 3]
    assert hidden(9, 4, "one_wide", 4) == [9, 4, 4]
    assert [first_width(lambda m, t=t: m >= t) for t in (1, 2, 7, 100)] == [1, 2, 7, 100]
    assert first_width(lambda m: m >= 40, start=30) == 40


def test_the_transition_is_the_first_width_above_rounding(tmp_path: Path) -> None:
    table = (
        kind_named("conditioning").part("table").tables(cells("conditioning", tmp_path))["table"]
    )
    above = table["smallest"] > table["floor"]
    assert (above[table["width"] >= table["transition"]]).mean() > 0.95
    assert not above[table["width"] < table["transition"]].any()
    assert (table["transition"] >= table["enough"]).all()
    assert (table["parameters"] >= table["n"])[table["width"] >= table["enough"]].all()
    assert not (table["parameters"] >= table["n"])[table["width"] < table["enough"]].any()


def test_texts_of_rf_have_the_kernel_form(tmp_path: Path) -> None:
    (path, _) = cells("text_robustness", tmp_path, map="rf", width=50, activation="tanh")
    arrays, attributes = read_cell(path)
    assert (arrays["parameters"] == 50).all()
    # tokens of one norm: S² is at least n times the square of the tokens' mean
    assert (arrays["sensitivity"] >= arrays["token_mean"] * attributes["n"] ** 0.5 * 0.999).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robustness.ntk_width.d_times": 1}, "give either d, or d_times and d_power"),
        ({"robustness.ntk_width.dataset": "nothing"}, "allowed: gaussian, digits, reviews"),
        ({"robustness.rf_width.width": [99, 200]}, "too few to interpolate N = 100"),
        ({"robustness.ntk_digits.d": [63]}, "images of digits have 64"),
        ({"robustness.ntk_digits.N": [1790]}, "allowed: at most 1777"),
        ({"robustness.ntk_width.tokens": 3}, "has no texts"),
        ({"robustness.ntk_reviews.tokens": 121}, "allowed: at most 120"),
        ({"robustness.ntk_width.activation": ["tan"]}, "tan"),
        ({"robustness.rf_edge.d_times": 0.001}, "gives a d of 0"),
        ({"attacks.ntk_attack.deltas": [0]}, "deltas"),
        ({"attacks.rf_attack.width": 10}, "too few to interpolate"),
        ({"conditioning.tangent_deep.narrow": 3}, "only with shape: one_wide"),
        ({"conditioning.tangent_pyramid.depth": [2]}, "two hidden layers"),
        ({"flows.tangent_flow.time": -1}, "time"),
        ({"text_robustness.raf_texts.map": "drf"}, "drf"),
        ({"text_robustness.raf_texts.n": [200]}, "samples of at most 120 tokens"),
        ({"text_robustness.raf_texts.width": 9}, "width"),
        ({"figures.robustness": {"kind": "flow", "sweeps": ["tangent_flow"]}}, "robustness"),
        ({"figures.gradient_flow.sweeps": ["tangent_deep"]}, "tangent_deep"),
    ],
)
def test_mistakes_are_said_before_any_job(changes: dict[str, object], message: str) -> None:
    lines = mistakes(changes)
    assert any(message in line for line in lines), lines


def test_the_preset_is_valid_and_plans_every_figure() -> None:
    config, preset = copy.deepcopy(DEFAULT), ROOT / "workflow" / "presets" / "robustness.yaml"
    update_config(config, yaml.safe_load(preset.read_text(encoding="utf-8")))
    loaded = load(config, [ROOT / "config.yaml", preset], SCHEMA)
    assert loaded.study("rf_edge").settings["N"][-1] == 4096
    mine = {name for name, figure in loaded.figures.items() if figure.name.startswith("robust")}
    assert mine == {"robust_parameters", "robust_samples", "robust_data", "robust_texts"} | {
        "robust_attack"
    }
    for kind in ENTRIES:
        assert kind_named(kind).target == "robustness"
