"""A number depends on its cell's parameters and on nothing else of the run.

Bit-identity holds on one machine and number of threads for everything that a run may change.  It is
not promised between batch sizes: matrix products of other shapes are summed in another order, and a
search that climbs to the same maximum then ends at another last digit.  ReLU attention has ridges,
where that digit decides which side a step takes, so two searches may end at different maxima.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.reliability import runs
from tests.studies.cells import complete
from wordsens.studies.generalization import cell as generalization
from wordsens.studies.sensitivity import cell as sensitivity


def test_cores_order_folder_and_neighbours(
    workflow: Path, inputs: Path, reference: Path, tmp_path: Path, injected
) -> None:
    """One core, another order, folder and cell beside, and every job in a process of its own."""
    elsewhere = tmp_path / "else where"
    folder = runs.copy_of(inputs, elsewhere / "another run")
    config = runs.configuration()
    config["sweeps"]["s"]["n"] = [8, 6, 4]
    config["sweeps"]["more"] = config["sweeps"]["s"] | {"map": "rf", "n": [5]}
    (folder / "mine.json").unlink()
    done = runs.run(
        workflow,
        elsewhere,
        "--prioritize",
        "results/sensitivity/s/d~8/n~8/depth~1/words~1.h5",
        "--cores",
        "1",
        "--directory",
        str(folder),
        *runs.TARGETS,
        config=config,
        env={"WORDSENS_WARM": ""},
    )
    assert done.returncode == 0, done.stdout[-4000:]
    order = re.findall(r"^    output: results/sensitivity/s/d~8/n~(\d+)", done.stdout, re.M)
    assert order[0] == "8"
    one, other = runs.numbers(reference), runs.numbers(folder)
    cells = [name for name in one if "~" in name or name.startswith("embeddings")]
    assert len(cells) > 50
    assert runs.differences({n: one[n] for n in cells}, {n: other[n] for n in cells}) == []
    assert set(one) < set(other)
    usage = "results/benchmarks/draw_figure/f.tsv"
    assert [int(pd.read_table(run / usage).forked[0]) for run in (reference, folder)] == [1, 0]
    injected(
        "one core, other order, other folder, another cell beside, no job forked",
        1,
        0,
        "the same bits",
    )


CELL = {"dataset": "synthetic", "d": 24, "n": 12, "trials": 6, "seed": 3, "positions": "first"}
# Largest relative differences of ``sup`` seen on these cells: rf 3e-7, drf 8e-6, attention none.
TOLERANCE = {
    "rf": 1e-5,
    "drf": 1e-4,
    "raf": 1e-4,
    "relu_raf": 1e-3,
    "qkv": 1e-4,
    "transformer": 1e-4,
}


def measured(map: str, **changes: object) -> np.ndarray:
    cell = {
        **CELL,
        "map": map,
        "depth": 2 if map in ("drf", "transformer") else 1,
        "words": 1,
        **changes,
    }
    return sensitivity.run(complete("sensitivity", **cell), {}, "cpu")[0]["sup"]


@pytest.mark.parametrize("map", TOLERANCE)
def test_batches(map: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All trials as one batch, each alone, and more trials beside them."""
    together = measured(map)
    more = measured(map, trials=9)[: CELL["trials"]]
    monkeypatch.setattr(sensitivity, "CELL_BYTES", 1)
    alone = measured(map)
    for other in (more, alone):
        np.testing.assert_allclose(other, together, rtol=TOLERANCE[map])
    np.testing.assert_array_equal(alone, measured(map))


def test_batches_of_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    study = {**CELL, "map": "raf", "N": 9, "trials": 3, "losses": ["features"]}
    cell = complete("generalization", **study)
    together = generalization.run(cell, {}, "cpu")[0]
    monkeypatch.setattr(generalization, "CELL_BYTES", 1)
    alone = generalization.run(cell, {}, "cpu")[0]
    for name in ("f_x", "norm", "condition"):
        np.testing.assert_array_equal(together[name], alone[name])
    np.testing.assert_allclose(alone["value"], together["value"], rtol=1e-3, atol=1e-6)
