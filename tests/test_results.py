"""Cell files are whole or refused, and tables say everything that cells hold."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from wordsens.errors import UserError
from wordsens.results import read_cell, read_table, trials_table, write_cell, write_table

PARAMETERS = {"sweep": "s", "map": "raf", "d": 4, "n": 3, "depth": 1, "words": 1, "seed": 2**63 - 1}


def arrays(trials: int = 3) -> dict:
    return {
        "sup": np.linspace(1, 2, trials) / 3,
        "bound": np.full(trials, np.nan),
        "position": np.arange(trials),
        "start": np.array(["random", "δ", ""][:trials], dtype=object),
    }


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "cell.h5"
    write_cell(path, arrays(), PARAMETERS | {"positions": [0, 2], "theory": None})
    found, attributes = read_cell(path)
    np.testing.assert_array_equal(found["sup"], arrays()["sup"])
    assert list(found["start"]) == ["random", "δ", ""]
    assert {name: attributes[name] for name in PARAMETERS} == PARAMETERS
    assert attributes["positions"] == [0, 2]
    assert "theory" not in attributes
    assert attributes["complete"] is True
    assert attributes["version_h5py"] == h5py.__version__
    assert [file.name for file in path.parent.iterdir()] == ["cell.h5"]


def test_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "cell.h5"
    write_cell(path, arrays(), PARAMETERS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="neither"):
        write_cell(path, arrays(), PARAMETERS | {"odd": {"a": 1}})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["cell.h5"]


def test_arrays_need_one_length(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="number of trials"):
        write_cell(tmp_path / "c.h5", {"sup": np.ones(2), "bound": np.ones(3)}, {})


def test_incomplete_broken_and_missing_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "cell.h5"
    write_cell(path, arrays(), PARAMETERS)
    with h5py.File(path, "r+") as file:
        del file.attrs["complete"]
    with pytest.raises(UserError, match=r"cell\.h5: incomplete .* delete it and run snakemake"):
        read_cell(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(UserError, match=r"cell\.h5: not readable as a cell .* delete it"):
        read_cell(path)
    with pytest.raises(UserError, match=r"none\.h5: no such file"):
        read_cell(tmp_path / "none.h5")


def test_other_schema_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cell.h5"
    write_cell(path, arrays(), PARAMETERS)
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 99
    with pytest.raises(UserError, match="schema_version is 99"):
        read_cell(path)


def test_table_has_one_row_per_trial_parameters_first(tmp_path: Path) -> None:
    for n in (3, 5):
        write_cell(tmp_path / f"{n}.h5", arrays(), PARAMETERS | {"n": n})
    table = trials_table([tmp_path / "3.h5", tmp_path / "5.h5"])
    assert list(table.columns[:6]) == ["sweep", "map", "d", "n", "depth", "words"]
    assert list(table.columns).index("seed") < list(table.columns).index("trial")
    assert list(table["n"]) == [3, 3, 3, 5, 5, 5]
    assert list(table["trial"]) == [0, 1, 2, 0, 1, 2]
    assert not [name for name in table.columns if name.startswith("version_")]
    write_table(table, tmp_path / "t.csv")
    again = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert list(again["sup"]) == list(table["sup"])  # every digit survives


def test_table_of_several_positions_has_a_row_for_each(tmp_path: Path) -> None:
    each = np.array([[1.0, 3.0], [5.0, 4.0]])
    cell = {
        "sup": each.max(1),
        "position": np.array([7, 2]),
        "sup_by_position": each,
        "positions": np.array([[2, 7], [2, 7]]),
    }
    write_cell(tmp_path / "c.h5", cell, PARAMETERS | {"positions": "all"})
    table = trials_table([tmp_path / "c.h5"])
    assert list(table["trial"]) == [0, 0, 1, 1]
    assert list(table["position"]) == [2, 7, 2, 7]
    assert list(table["sup_at_position"]) == [1, 3, 5, 4]
    assert list(table["best_position"]) == [7, 7, 2, 2]
    assert (
        table.groupby("trial")["sup_at_position"].max() == table.groupby("trial")["sup"].first()
    ).all()
    assert set(table["positions"]) == {"all"}


def test_a_missing_bound_stays_missing(tmp_path: Path) -> None:
    write_cell(tmp_path / "c.h5", arrays(), PARAMETERS)
    assert all(math.isnan(value) for value in trials_table([tmp_path / "c.h5"])["bound"])


ODD = ["null", "nan", "NaN", "None", "NA", "N/A", "TRUE", "False", "1e5", "001", "-1", "inf", ""]
ODD += ["#N/A", "a,b", 'a "b"', "a\nb", "a\rb", " a ", "0x1F", "1_000", "##x", "▁", "\u202e", "’"]


@pytest.mark.parametrize("words", [ODD, ["1"], ["nan", "NA"], ["TRUE", "FALSE"], ["001", "1e5"]])
def test_text_comes_back_as_that_text(tmp_path: Path, words: list[str]) -> None:
    """Whatever a token or an answer reads, alone in its column or among others."""
    numbers = [1 / 3 * 10.0**-k for k in range(len(words))]
    table = pd.DataFrame({"piece": words, "first": words, "x": numbers, "n": range(len(words))})
    table.loc[0, "gap"] = 1.5
    write_table(table, tmp_path / "t.csv")
    found = read_table(tmp_path / "t.csv")
    assert found["piece"].tolist() == found["first"].tolist() == words
    assert found["x"].tolist() == numbers, "every digit"
    assert found["n"].tolist() == list(range(len(words)))
    assert found["gap"].isna().tolist() == [False] + [True] * (len(words) - 1)


def test_a_name_is_text_in_one_table_and_a_number_in_another(tmp_path: Path) -> None:
    write_table(pd.DataFrame({"first": ["1e5", "nan"]}), tmp_path / "answers.csv")
    write_table(pd.DataFrame({"first": [1e5, math.nan]}), tmp_path / "sizes.csv")
    assert read_table(tmp_path / "answers.csv")["first"].tolist() == ["1e5", "nan"]
    assert read_table(tmp_path / "sizes.csv")["first"].tolist()[0] == 1e5
    assert math.isnan(read_table(tmp_path / "sizes.csv")["first"].tolist()[1])


def test_sha256sum_still_understands_the_digest(tmp_path: Path) -> None:
    write_table(pd.DataFrame({"piece": ["nan"]}), tmp_path / "t.csv")
    done = subprocess.run(
        ["sha256sum", "--strict", "--check", "t.csv.sha256"], cwd=tmp_path, check=False
    )
    assert done.returncode == 0
