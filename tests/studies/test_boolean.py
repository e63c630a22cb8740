"""Studies of Boolean functions from cell to figure, and what their entries may not ask."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from wordsens.boolean.groups import batches
from wordsens.boolean.tables import table_profile, truth_table
from wordsens.config import ConfigError, load
from wordsens.figures import drawing
from wordsens.figures.captions import caption
from wordsens.results import write_cell
from wordsens.studies import figure_module, kind_named

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
SHAPES = {"depth": [2], "heads": [2], "head_size": [4, 8], "feedforward": [2]}
SMALL = {
    "boolean_random": SHAPES | {"init": ["uniform", "xavier-normal"], "N": [4, 6], "models": 5},
    "boolean_volume": SHAPES | {"init": ["uniform"], "N": [3, 4], "models": 60},
    "boolean_trained": SHAPES
    | {"language": ["first", "random"], "N": 5, "examples": 40, "judged": 50, "draws": 2}
    | {"models": 2, "batch": [20, 20], "rate": [0.003, 0.01], "epochs": 12},
}


def loaded(changes: dict[str, Any]) -> Any:
    config = copy.deepcopy(DEFAULT)
    for section, entry in changes.items():
        config[section] = {**config[section], "small": entry}
    return load(config, [ROOT / "config.yaml"], SCHEMA)


def made(kind: str, entry: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[dict]]:
    """The tables of a small entry, and its cells' arrays."""
    config = loaded({kind: entry})
    study, paths, found = config.studies[kind]["small"], [], []
    for number, point in enumerate(study.points()):
        arrays, attributes = kind_named(kind).part("cell").run(study.cell(config, point), {}, "cpu")
        paths.append(folder / f"{number}.h5")
        write_cell(paths[-1], arrays, attributes)
        found.append(arrays)
    return kind_named(kind).part("table").tables(paths), found


def drawn(kind: str, table: Any) -> tuple[Any, Any, str]:
    module = figure_module(kind)
    with drawing(module, {"small": table}, {}, kind) as (figure, numbers):
        return figure, numbers, caption(module, {"small": table}, {})


def test_random_transformers_from_cell_to_figures(tmp_path: Path) -> None:
    tables, cells = made("boolean_random", SMALL["boolean_random"], tmp_path)
    table = tables["table"]
    assert (
        table.groupby(["init", "N", "trial"])["count"].sum()
        == 2.0 ** table.groupby(["init", "N", "trial"])["N"].first()
    ).all()
    assert len(tables["influence"]) == 2 * 5 * (4 + 6)
    for arrays in cells:
        assert np.isfinite(arrays["log10_beta"]).all()
        assert (arrays["influence"] >= 0).all()
    figure, numbers, said = drawn("boolean_spectra", table)
    assert len(figure.axes) == 2 * 4
    spectrum = numbers.dropna(subset=["share"])
    assert np.allclose(spectrum.groupby("panel")["share"].sum(), 1)
    assert "models, of which" in said
    one = SMALL["boolean_random"] | {"head_size": [8], "epsilon": [0, 1e-5]}
    figure, numbers, _ = drawn("boolean_zeros", made("boolean_random", one, tmp_path)[0]["table"])
    assert len(figure.axes) == 4
    assert numbers["share"].between(0, 1).all()
    assert (numbers["models"] == 5).all()


def test_the_same_models_at_every_length_and_in_any_batch() -> None:
    config = loaded({"boolean_random": SMALL["boolean_random"]})
    study = config.studies["boolean_random"]["small"]
    short, long = (study.cell(config, {"init": "uniform", "N": N, "epsilon": 1e-5}) for N in (4, 6))
    found = []
    for cell, most in ((short, None), (long, 1)):
        profiles = {}
        for places, of, _ in batches(cell, range(5), "cpu", most):
            for place, row in zip(places, table_profile(truth_table(of, 4)), strict=True):
                profiles[place] = row.tolist()
        found.append(profiles)
    assert found[0] == found[1]
    assert sorted(found[0]) == [0, 1, 2, 3, 4]


def test_sampled_strings_and_margins(tmp_path: Path) -> None:
    entry = SMALL["boolean_random"] | {"N": [30], "strings": 20, "datasets": 2, "margin": 0.5}
    table = made("boolean_random", entry, tmp_path)[0]["table"]
    assert (table.groupby(["init", "trial"])["count"].sum() == 20).all()
    assert table["trial"].nunique() == 10
    assert (table["sensitivity"] == -1).any()
    assert "strings unclassified" in drawn("boolean_spectra", table)[2]


def test_volumes_from_cell_to_figure(tmp_path: Path) -> None:
    tables, cells = made("boolean_volume", SMALL["boolean_volume"], tmp_path)
    table = tables["table"].set_index(["N", "quantity"])
    kinds = ["constant", "parity", "majority", "first", "dictator", "sparse-parity", "other"]
    for N, arrays in zip((3, 4), cells, strict=True):
        own = table.loc[N]
        assert own.loc[kinds, "count"].sum() == 60
        zero = (arrays["K0"] == 0).sum()
        assert own.loc["without strings of sensitivity 0", "count"].item() == zero
        assert own.loc["non-constant", "count"].item() == (arrays["kind"] != "constant").sum()
        averages = own.loc["average"]
        assert averages["count"].iloc[0] == 60
        assert (np.diff(averages["count"]) <= 0).all()
    assert (tables["table"]["low"] <= tables["table"]["share"]).all()
    figure, _, said = drawn("boolean_volume", tables["table"])
    assert len(figure.axes) == 2
    assert "have no string of sensitivity 0" in said


def test_trained_transformers_from_cell_to_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables, cells = made("boolean_trained", SMALL["boolean_trained"], tmp_path)
    first, memorised = cells
    assert first["target"].tolist() == [1.0] * 4
    assert memorised["target"].tolist() == [2.5] * 4
    assert first["draw"].tolist() == [0, 0, 1, 1]
    assert first["accuracy"].mean() > 0.8
    assert not list(tmp_path.rglob("*.safetensors"))
    figure, _, said = drawn("boolean_trained", tables["table"])
    assert len(figure.axes) == 4
    assert f"first, N = 5: {int(first['learnt'].sum())} of 4 models have learnt it" in said


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("boolean_random", {"N": [21]}, "an exact profile goes up to 20 bits"),
        ("boolean_random", {"datasets": 2}, "allowed: 1, or give strings"),
        ("boolean_random", {"init": ["xavier"]}, "did you mean xavier-"),
        ("boolean_random", {"heads": [1], "head_size": [1]}, "head_size"),
        ("boolean_trained", {"language": ["parities"]}, "choose one of parity, majority"),
        ("boolean_trained", {"language": ["sparse-parity-6"]}, "needs at least 6 bits"),
        ("boolean_trained", {"N": 21}, "or give strings"),
        ("boolean_trained", {"batch": [20, 10]}, "allowed: rising"),
        ("boolean_volume", {"N": [21]}, "1 to 20"),
        ("boolean_volume", {"models": 0}, "models: is 0"),
    ],
)
def test_mistakes_are_said_before_any_job(kind: str, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded({kind: SMALL[kind] | change})
    assert any(says in line for line in caught.value.lines), caught.value.lines
    assert all("\n" not in line for line in caught.value.lines)


def test_the_papers_preset_is_valid() -> None:
    from snakemake.utils import update_config

    config = copy.deepcopy(DEFAULT)
    preset = ROOT / "workflow" / "presets" / "boolean-paper.yaml"
    update_config(config, yaml.safe_load(preset.read_text(encoding="utf-8")))
    studies = load(config, [ROOT / "config.yaml", preset], SCHEMA).studies
    random = studies["boolean_random"]["boolean_random"]
    assert len(random.points()) == 4
    assert random.shared["datasets"] * random.shared["models"] == 500
    for name in ("boolean_trained", "boolean_sparse", "boolean_sparse_more", "boolean_memorised"):
        trained = studies["boolean_trained"][name].shared
        assert trained["draws"] * trained["models"] == 50
        assert trained["heads"] == [1, 2, 4, 8]
