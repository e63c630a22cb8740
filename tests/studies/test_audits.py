"""A share of the trials is searched again with ten times the effort, and the reader is told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.studies.cells import complete
from wordsens.figures.captions import caption
from wordsens.results import trials_table, write_cell
from wordsens.studies import figure_module
from wordsens.studies.generalization.cell import run as run_losses
from wordsens.studies.generalization.table import searches_table
from wordsens.studies.sensitivity.cell import run

CELL = {"dataset": "synthetic", "d": 6, "n": 8, "words": 1, "depth": 1, "trials": 6, "seed": 3}


@pytest.mark.parametrize("name", ["rf", "drf", "raf", "relu_raf", "qkv"])
def test_one_trial_is_audited_and_the_others_stay_as_they_are(name: str) -> None:
    cell = CELL | {"map": name, "depth": 2 if name == "drf" else 1, "steps": 3, "starts": 2}
    plain, _ = run(complete("sensitivity", **cell), {}, "cpu")
    arrays, attributes = run(complete("sensitivity", **cell, audit=0.1), {}, "cpu")
    assert np.array_equal(plain["sup"], arrays["sup"])
    assert "excess" not in plain
    assert np.isfinite(arrays["excess"]).sum() == 1
    (at,) = np.flatnonzero(np.isfinite(arrays["audited"]))
    higher = 1 - arrays["sup"][at] / arrays["audited"][at]
    assert arrays["excess"][at] == pytest.approx(max(higher, 0), abs=1e-12)
    assert attributes["audit"] == 0.1


def test_trials_in_chunks_are_audited_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which trials are chosen depends on neither chunks nor the batch; every share is kept."""
    cell = complete("sensitivity", **CELL, map="rf", audit=0.5, steps=3, starts=2)
    whole, _ = run(cell, {}, "cpu")
    monkeypatch.setattr("wordsens.studies.sensitivity.cell.CELL_BYTES", 1)
    alone, _ = run(cell, {}, "cpu")
    assert np.array_equal(np.isnan(whole["excess"]), np.isnan(alone["excess"]))
    assert np.isfinite(whole["excess"]).sum() == 3
    np.testing.assert_allclose(alone["audited"], whole["audited"], rtol=1e-4)


def test_a_poor_search_is_said_to_be_one(tmp_path) -> None:
    """One step from one start falls short, and the caption says by how much."""
    cell = complete("sensitivity", **CELL, map="raf", audit=1.0, steps=1, starts=1)
    arrays, attributes = run(cell, {}, "cpu")
    arrays["excess"][0] = max(arrays["excess"][0], 0.25)
    write_cell(tmp_path / "cell.h5", arrays, attributes)
    table = trials_table([tmp_path / "cell.h5"])
    said = caption(figure_module("context_length"), {"t": table}, {})
    assert "of a search ten times as long (6 audited): take more starts or steps" in said
    good = caption(figure_module("context_length"), {"t": table.assign(excess=0.004)}, {})
    assert "within 0.4% of a search ten times as long (6 audited)." in good
    none = caption(figure_module("context_length"), {"t": table.drop(columns="excess")}, {})
    assert "audited" not in none
    mixed = pd.concat([table, table.assign(excess=np.nan)])
    assert "(6 audited)" in caption(figure_module("context_length"), {"t": mixed}, {})


LOSSES = {"dataset": "synthetic", "d": 6, "n": 5, "N": 12, "trials": 3, "seed": 1}


@pytest.mark.parametrize("name", ["rf", "raf"])
def test_losses_of_one_trial_are_audited(name: str, tmp_path) -> None:
    """All its searches, each by how much lower the longer one got; other numbers stay."""
    cell = complete("generalization", **LOSSES, map=name, tradeoff=[0.0, 2.0])
    plain, _ = run_losses(cell, {}, "cpu")
    arrays, attributes = run_losses(cell | {"audit": 0.3}, {}, "cpu")
    assert np.array_equal(plain["value"], arrays["value"])
    assert "excess" not in plain
    (judged,) = np.flatnonzero(np.isfinite(arrays["audited"][:, 0]))
    assert np.isnan(np.delete(arrays["audited"], judged, axis=0)).all()
    met = np.isfinite(arrays["value"][judged])  # no point but Δ = 0 meets a limit of 0
    value, audited = arrays["value"][judged, met], arrays["audited"][judged, met]
    lower = np.maximum(value - audited, 0) / np.maximum(np.abs(value), 0.01)
    np.testing.assert_allclose(arrays["excess"][judged, met], lower, atol=1e-12)
    assert (lower < 0.02).all()

    arrays["excess"][judged, 0] = 0.25
    write_cell(tmp_path / "cell.h5", arrays, attributes)
    table = searches_table([tmp_path / "cell.h5"])
    said = caption(figure_module("generalization"), {"t": table}, {})
    count = np.isfinite(arrays["excess"]).sum()
    assert f"({count} audited): losses may be that much too high" in said


def test_a_row_for_each_position_counts_one_audit() -> None:
    cell = complete("sensitivity", **CELL, map="raf", audit=0.5, positions=[0, 3])
    arrays, _ = run(cell, {}, "cpu")
    assert np.isfinite(arrays["excess"]).sum() == 3
    columns = {"map": "raf", "trial": np.repeat(range(6), 2)}
    table = pd.DataFrame({**columns, "excess": np.repeat(arrays["excess"], 2)})
    assert "(3 audited)" in caption(figure_module("context_length"), {"t": table}, {})
