"""Cell files (HDF5) and the tidy tables made of them.

A cell file holds one point of a sweep: arrays whose first axis is the trial, and every parameter
as an attribute.  It carries a digest of its content, and its bytes go to the disk in one piece.
A table has its sha256 beside it, as ``sha256sum`` writes it: a CSV file that was cut still reads.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.errors import UserError
from wordsens.files import REMAKE, reading_h5, replacing, sha256_of, write_text

if TYPE_CHECKING:
    import h5py
    import pandas as pd

SCHEMA_VERSION = 1
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 13px sans-serif; margin: 1em; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 2px 9px; text-align: left; white-space: nowrap; border-bottom: 1px solid #ddd; }}
</style></head><body>{body}</body></html>
"""
# Begins the line that declares a table's columns of text; sha256sum takes it for a comment.
_TEXT = "# text: "
# Attributes that say how a file was made, not where its cell lies in the sweep.
_NOT_PARAMETERS = ("complete", "schema_version", "code")
# What a cell's path says of it, such as d~96.
_POINT = re.compile(r"(?:^|/)(\w+)~([^/]+?)(?=/|\.h5$)")
_FIRST = ("sweep", "map", "dataset", "d", "n", "depth", "words")
# Arrays of cells that were written before they had the name that Python gives them.
_RENAMED = {"winner": "start"}


def versions() -> dict[str, str]:
    """Versions of Python, wordsens and the numerical libraries that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"version_python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("wordsens", "torch", "numpy", "h5py", "transformers", "tokenizers"):
        try:
            found[f"version_{name}"] = version(name)
        except PackageNotFoundError:
            if name == "wordsens":
                found["version_wordsens"] = "unknown"
    return found


def write_cell(path: str | Path, arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """Write per-trial arrays and the cell's parameters, as ``write_arrays`` does.

    Raises ValueError when the arrays differ in their number of trials.
    """
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(f"a cell's arrays need one common number of trials: {lengths}")
    write_arrays(path, arrays, attributes)


def write_arrays(
    path: str | Path, arrays: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    """Write an HDF5 file of named arrays and attributes, with a digest of its content.

    Strings are stored as UTF-8.  Raises ValueError where an attribute is neither None (left out),
    a string, a number nor a list of numbers.
    """
    import h5py

    columns = {name: _storable(name, values) for name, values in arrays.items()}
    # In memory first: on a full disk HDF5 itself ends in a segmentation fault.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, values in columns.items():
            if values.dtype.kind == "O":
                file.create_dataset(name, data=values, dtype=h5py.string_dtype())
            else:
                file.create_dataset(name, data=values)
        # Versions come after h5py is loaded, so that its own is among them.
        for name, value in {**attributes, **versions()}.items():
            if value is not None:
                file.attrs[name] = _attribute(name, value)
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
        file.attrs["content_sha256"] = _content_sha256(*_content(file))
    with replacing(path) as beside:
        beside.write_bytes(content.getbuffer())


def read_cell(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A cell's arrays and attributes; raises UserError when the file is not a whole cell."""
    arrays, attributes = read_arrays(path, "a cell")
    arrays = {_RENAMED.get(name, name): values for name, values in arrays.items()}
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise UserError(f"{path}: arrays of different lengths {lengths}; {REMAKE}")
    for axis, value in _POINT.findall(str(path)):
        if str(attributes.get(axis)) != value:
            raise UserError(
                f"{path}: holds a cell of {axis} = {attributes.get(axis)}; was it copied? {REMAKE}"
            )
    return arrays, attributes


def read_arrays(path: str | Path, what: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What ``write_arrays`` wrote; raises UserError when the file is not that, whole.

    ``what`` says what the file should be, for messages.
    """
    with reading_h5(path, what) as file:
        arrays, attributes = _content(file)
    if not attributes.get("complete"):
        raise UserError(f"{path}: incomplete (its writer was stopped); {REMAKE}")
    if attributes.get("schema_version") != SCHEMA_VERSION:
        found = attributes.get("schema_version")
        raise UserError(
            f"{path}: schema_version is {found}, this wordsens reads {SCHEMA_VERSION}; {REMAKE}"
        )
    if attributes.pop("content_sha256", None) != _content_sha256(arrays, attributes):
        raise UserError(f"{path}: damaged or changed since it was made; {REMAKE}")
    return arrays, attributes


def _content(file: h5py.File) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {
        name: data.asstr()[...] if data.dtype.kind == "O" else data[...]
        for name, data in file.items()
    }
    return arrays, {name: _plain(value) for name, value in file.attrs.items()}


def _content_sha256(arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> str:
    """One digest of all that a cell file holds, so that damage inside it is seen."""
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    for name, values in sorted(arrays.items()):
        digest.update(f"\0{name}\0{values.shape}\0{values.dtype}\0".encode())
        strings = values.dtype.kind == "O"
        digest.update(json.dumps(values.tolist()).encode() if strings else values.tobytes())
    return digest.hexdigest()


def need(path: str | Path, arrays: Mapping[str, np.ndarray], names: Iterable[str]) -> None:
    """Raises UserError when a cell lacks one of these arrays."""
    absent = [name for name in names if name not in arrays]
    if absent:
        raise UserError(f"{path}: no array {absent[0]!r}; {REMAKE}")


def trials_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per trial of every cell: the parameters first, then ``trial`` and the results.

    Where a cell measured several positions, one row per trial and position: ``position`` is the
    one measured and ``sup_at_position`` its value, ``best_position`` is where the trial's ``sup``
    was found, and the trial's other results repeat.
    """
    import pandas as pd

    frames = []
    for path in paths:
        arrays, attributes = read_cell(path)
        need(path, arrays, ("sup",))
        values = {"trial": np.arange(len(arrays["sup"]))}
        values |= {name: data for name, data in arrays.items() if data.ndim == 1}
        if "sup_by_position" in arrays:
            need(path, arrays, ("position", "positions"))
            each = arrays["sup_by_position"]
            values["best_position"] = values.pop("position")
            values = {name: np.repeat(data, each.shape[1]) for name, data in values.items()}
            values["position"] = arrays["positions"].reshape(-1)
            values["sup_at_position"] = each.reshape(-1)
        frames.append(_frame(attributes, values))
    return pd.concat(frames, ignore_index=True)


def cells_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """One row per cell: its parameters, fingerprint of the code, versions and number of trials."""
    import pandas as pd

    rows = []
    for path in paths:
        arrays, attributes = read_cell(path)
        attributes = {name: value for name, value in attributes.items() if name != "complete"}
        first = {name: attributes[name] for name in _FIRST if name in attributes}
        trials = len(next(iter(arrays.values())))
        rows.append({**first, "trials": trials, **dict(sorted(attributes.items()))})
    return pd.DataFrame(rows)


def write_html(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as a page of its own that needs nothing else, beside its final name first."""
    body = table.to_html(index=False, border=0, na_rep="", float_format="{:g}".format)
    write_text(path, _PAGE.format(title=Path(path).stem, body=body))


def write_table(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, its sha256 beside it; floats keep all their digits.

    A comment beside the sha256 declares the columns of text, for a word may read nan, TRUE or 1e5.
    """
    path = Path(path)
    text = [str(name) for name in table if table[name].map(type).eq(str).any()]
    with replacing(path) as beside:
        table.to_csv(beside, index=False, lineterminator="\n")
        # The digest first: a table without its own is refused.
        with replacing(_digest(path)) as digest:
            digest.write_text(
                f"{sha256_of(beside)}  {path.name}\n{_TEXT}{json.dumps(text)}\n", encoding="utf-8"
            )


def read_table(path: str | Path) -> pd.DataFrame:
    """A table as ``write_table`` left it; raises UserError when it was cut or changed since.

    Columns of text hold text, "" where there is none; what is empty in the others is NaN.
    """
    path = Path(path)
    try:
        noted, _, declared = _digest(path).read_text(encoding="utf-8").partition("\n")
        if sha256_of(path) == noted.split()[0]:
            text = json.loads(declared.removeprefix(_TEXT)) if declared else []
            return _read_csv(path, text)
    except FileNotFoundError as error:
        raise UserError(
            f"{error.filename}: no such file; delete {path} and run snakemake again"
        ) from None
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{path}: cannot be read ({error}); {REMAKE}") from None
    raise UserError(
        f"{path}: cut or changed since it was made (its sha256 is not the one in "
        f"{_digest(path).name}); {REMAKE}"
    )


def _read_csv(path: Path, text: Iterable[str]) -> pd.DataFrame:
    import pandas as pd

    header = pd.read_csv(path, nrows=0).columns
    numbers = {name: [""] for name in header if name not in set(text)}
    return pd.read_csv(
        path,
        dtype=dict.fromkeys(text, object),
        keep_default_na=False,
        na_values=numbers,
        lineterminator="\n",
    )


def _digest(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _frame(attributes: Mapping[str, Any], results: Mapping[str, np.ndarray]) -> pd.DataFrame:
    import pandas as pd

    rows = len(results["trial"])
    parameters = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in sorted(attributes.items())
        # A result wins over a parameter of the same name.
        if name not in (*results, *_NOT_PARAMETERS) and not name.startswith("version_")
    }
    ordered = {name: parameters[name] for name in _FIRST if name in parameters} | parameters
    return pd.DataFrame({name: [value] * rows for name, value in ordered.items()} | dict(results))


def _storable(name: str, values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.ndim == 0:
        raise ValueError(f"{name}: a cell's array needs one value per trial, not a single number")
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.flat):
        raise ValueError(f"{name}: neither numbers nor strings")
    return array


def _attribute(name: str, value: Any) -> Any:
    if isinstance(value, (str, bool, int, float, np.generic)):
        return value
    if isinstance(value, (list, tuple)) and value:
        return np.asarray(value)
    raise ValueError(f"attribute {name}: {value!r} is neither a string, a number nor a list")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
