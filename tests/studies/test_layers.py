"""A cell of a layers study: its arrays, what names its randomness, and its mistakes."""

from __future__ import annotations

import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from wordsens.data.embeddings import SCHEMA_VERSION
from wordsens.errors import UserError
from wordsens.results import write_cell
from wordsens.studies.layers.cell import run
from wordsens.studies.layers.table import layers_table

CELL = {
    **{"study": "x", "seed": 1, "encoder": "tiny", "dataset": "mine", "n": 8, "trials": 2},
    **{"weights": "pretrained", "layers": "all", "positions": "first", "perturb": "layer0"},
    **{"special_tokens": True, "starts": 3, "steps": 5, "audit": 0},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "mine.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        states = rng.normal(size=(20, 12, 16)).astype(np.float32)
        file["embeddings"] = states
        file["checksums"] = np.array([zlib.crc32(sample) for sample in states], dtype=np.uint32)
        file["labels"] = np.ones(20, dtype=np.int8)
        file["token_ids"] = rng.integers(4, 44, (20, 12)).astype(np.int32)
        file["lengths"] = np.full(20, 12, dtype=np.int32)
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
    return path


def test_arrays_table_and_reading_back(data: Path, tiny_bert: Path, tmp_path: Path) -> None:
    paths = []
    for weights in ("pretrained", "random"):
        arrays, attributes = run(
            CELL | {"weights": weights}, {"data": data, "encoder": tiny_bert}, "cpu"
        )
        assert arrays["sup"].shape == (2, 4)
        assert arrays["sup_by_position"].shape == (2, 1, 4)
        paths.append(tmp_path / f"{weights}.h5")
        write_cell(paths[-1], arrays, attributes)
    table = layers_table(paths)
    assert len(table) == 2 * 2 * 4
    assert set(table["layer"]) == {0, 1, 2, 3}
    assert (table["depth"] == 3).all()
    samples = table.groupby(["weights", "trial"])["sample"].first().unstack()
    assert (samples.loc["pretrained"] == samples.loc["random"]).all(), "the same texts for both"
    own = table[(table["weights"] == "random") & (table["layer"] == 0)]
    # A random embedding layer normalises every token to one length: 1/√n exactly.
    assert np.allclose(own["sup"], 8**-0.5, rtol=1e-4)


def test_a_trial_does_not_depend_on_the_number_of_trials(data: Path, tiny_bert: Path) -> None:
    for weights in ("pretrained", "random"):
        cell = CELL | {"weights": weights}
        few, _ = run(cell, {"data": data, "encoder": tiny_bert}, "cpu")
        more, _ = run(cell | {"trials": 3}, {"data": data, "encoder": tiny_bert}, "cpu")
        assert np.allclose(more["sup"][:2], few["sup"], rtol=1e-4)
        assert not np.allclose(more["sup"][0, 1:], more["sup"][1, 1:], rtol=1e-4)


def test_mistakes_are_one_line(data: Path, tiny_bert: Path) -> None:
    with pytest.raises(UserError, match=r"layers\.x\.n: is 65, .* positions for 64 tokens"):
        run(CELL | {"n": 65}, {"data": data, "encoder": tiny_bert}, "cpu")
    with pytest.raises(
        UserError, match=r"layers\.x\.n: is 2, all of it special tokens; allowed: 3"
    ):
        run(CELL | {"n": 2}, {"data": data, "encoder": tiny_bert}, "cpu")
    with pytest.raises(UserError, match=r"layers\.x\.n: is 15, .* has 14 tokens"):
        run(CELL | {"n": 15}, {"data": data, "encoder": tiny_bert}, "cpu")
    with pytest.raises(UserError, match=r"layers \[9\]: the encoder has layers 0 to 3"):
        run(CELL | {"layers": [9]}, {"data": data, "encoder": tiny_bert}, "cpu")
    with pytest.raises(UserError, match="position"):
        run(CELL | {"positions": [6]}, {"data": data, "encoder": tiny_bert}, "cpu")


@pytest.mark.parametrize("weights", ["pretrained", "random"])
def test_a_trial_is_audited_in_every_layer(data: Path, tiny_bert: Path, weights: str) -> None:
    inputs = {"data": data, "encoder": tiny_bert}
    plain, _ = run(CELL | {"weights": weights}, inputs, "cpu")
    arrays, _ = run(CELL | {"weights": weights, "audit": 0.5}, inputs, "cpu")
    np.testing.assert_array_equal(plain["sup"], arrays["sup"])
    judged = np.isfinite(arrays["excess"])
    assert judged.all(1).sum() == 1
    assert judged.sum() == arrays["sup"].shape[1]
    higher = 1 - arrays["sup"][judged] / arrays["audited"][judged]
    np.testing.assert_allclose(arrays["excess"][judged], higher.clip(0), atol=1e-9)
