"""A fingerprint changes with the code a script can reach, and with nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from wordsens import provenance
from wordsens.studies import kinds

CELL = "wordsens.studies.sensitivity.cell"
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of wordsens."""
    root = tmp_path / "wordsens"
    for name, text in {
        "__init__.py": "from wordsens import unused\n",
        "unused.py": "",
        "top.py": "def f():\n    from wordsens.middle import g\n",
        "middle.py": "from . import leaf\n",
        "leaf.py": "x = 1\n",
        "maps/__init__.py": "",
        "maps/raf.py": "",
        "registry.py": 'import importlib\nimportlib.import_module("wordsens.maps." + "raf")\n',
        "typed.py": "import typing\nif typing.TYPE_CHECKING:\n    import wordsens.leaf\n",
        "maps/relative.py": "from ..middle import leaf\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(provenance, "ROOT", root)
    provenance._read.cache_clear()
    yield root
    provenance._read.cache_clear()


def test_follows_imports_inside_functions_and_relative_ones(package: Path) -> None:
    assert provenance.sources("wordsens.top") == [
        "wordsens.leaf",
        "wordsens.middle",
        "wordsens.top",
    ]
    reached = provenance.sources("wordsens.maps.relative")
    assert {"wordsens.leaf", "wordsens.middle", "wordsens.maps"} <= set(reached)


def test_follows_names_in_strings(package: Path) -> None:
    assert "wordsens.maps.raf" in provenance.sources("wordsens.registry")


def test_type_checking_imports_are_not_code(package: Path) -> None:
    assert provenance.sources("wordsens.typed") == ["wordsens.typed"]


@pytest.mark.parametrize(("edited", "changes"), [("leaf.py", True), ("unused.py", False)])
def test_changes_with_reachable_code_only(package: Path, edited: str, changes: bool) -> None:
    before = provenance.fingerprint("wordsens.top")
    (package / edited).write_text("x = 2\n")
    provenance._read.cache_clear()
    assert (provenance.fingerprint("wordsens.top") != before) is changes


def test_a_date_is_not_code(package: Path) -> None:
    before = provenance.fingerprint("wordsens.top")
    (package / "leaf.py").touch()
    provenance._read.cache_clear()
    assert provenance.fingerprint("wordsens.top") == before


def test_unknown_module() -> None:
    with pytest.raises(FileNotFoundError, match=r"wordsens\.nowhere"):
        provenance.fingerprint("wordsens.nowhere")


def test_cell_script_reaches_the_maps_but_not_the_figures() -> None:
    reached = provenance.sources(SCRIPTS / "cell.py", CELL)
    assert {"wordsens.studies.sensitivity.cell", "wordsens.maps", "wordsens.randomness"} <= set(
        reached
    )
    assert not [
        name for name in reached if name.startswith(("wordsens.figures", "wordsens.config"))
    ]


@pytest.mark.parametrize(
    ("map", "reached", "not_reached"),
    [
        ("rf", {"random_features"}, {"attention.view", "raf", "qkv"}),
        ("raf", {"raf", "attention.view"}, {"qkv", "random_features"}),
    ],
)
def test_a_cell_depends_on_its_own_map(map: str, reached: set, not_reached: set) -> None:
    found = set(provenance.sources(SCRIPTS / "cell.py", CELL, map=map))
    assert {f"wordsens.maps.{name}" for name in reached} <= found
    assert not {f"wordsens.maps.{name}" for name in not_reached} & found
    assert {"wordsens.maps", "wordsens.maps.base", "wordsens.search.power"} <= found


def test_attention_does_not_depend_on_gaussian_matrices() -> None:
    """An edit of gaussian/lazy.py makes no cell of raf anew, whatever study it is in."""
    for study in ("sensitivity", "generalization", "vocabulary"):
        cell = f"wordsens.studies.{study}.cell"
        found = set(provenance.sources(SCRIPTS / "cell.py", cell, map="raf"))
        assert not [x for x in found if x.startswith(("wordsens.gaussian", "wordsens.theory"))]
        assert "wordsens.gaussian.lazy" in provenance.sources(cell, map="rf")


def test_a_map_that_is_not_found_depends_on_all(package: Path) -> None:
    (package / "maps" / "raf.py").write_text('class R:\n    name: str = "raf"\n')
    (package / "maps" / "other.py").write_text('class O:\n    name = "other"\n')
    (package / "maps" / "registry.py").write_text("from wordsens.maps import other, raf\n")
    (package / "cell.py").write_text("import wordsens.maps.registry\n")
    provenance._read.cache_clear()
    provenance._class_names.cache_clear()
    of = {map: provenance.sources("wordsens.cell", map=map) for map in ("raf", "unknown", "")}
    provenance._class_names.cache_clear()
    assert "wordsens.maps.other" not in of["raf"]
    assert {"wordsens.maps.other", "wordsens.maps.raf"} <= set(of["unknown"])
    assert not {"wordsens.maps.other", "wordsens.maps.raf"} & set(of[""])


def test_a_map_of_a_users_own_counts_with_its_file_and_what_that_imports(
    package: Path, tmp_path: Path
) -> None:
    for name in ("raf", "other"):
        (package / "maps" / f"{name}.py").write_text(f'class M:\n    name = "{name}"\n')
    (package / "maps" / "registry.py").write_text("from wordsens.maps import other, raf\n")
    (package / "cell.py").write_text("import wordsens.maps.registry\n")
    mine = tmp_path / "mine"
    mine.mkdir()
    text = 'from wordsens.maps.raf import M\nclass Mine(M):\n    name = "mine"\n'
    (mine / "__init__.py").write_text(text)
    (mine / "helper.py").write_text("x = 1\n")

    def marked(**options: object) -> str:
        provenance._read.cache_clear()
        provenance._class_names.cache_clear()
        return provenance.fingerprint("wordsens.cell", **options)  # type: ignore[arg-type]

    before, without = marked(map="mine", extra=[mine]), marked(map="mine")
    reached = provenance.sources("wordsens.cell", map="mine", extra=[mine])
    assert {"own/mine/__init__.py", "own/mine/helper.py", "wordsens.maps.raf"} <= set(reached)
    assert "wordsens.maps.other" not in reached
    assert before != without
    (package / "maps" / "other.py").write_text('class M:\n    name = "other"\n\nx = 1\n')
    assert marked(map="mine", extra=[mine]) == before
    (mine / "helper.py").write_text("x = 2\n")
    assert marked(map="mine", extra=[mine]) != before
    with pytest.raises(FileNotFoundError, match="nowhere"):
        provenance.fingerprint("wordsens.cell", extra=[tmp_path / "nowhere"])


def test_no_cell_depends_on_figures() -> None:
    """So that a changed style computes no cell, of any kind of study."""
    for name, study in kinds().items():
        part = "cell" if study.axes else "table"
        found = provenance.sources(SCRIPTS / f"{part}.py", f"{study.__module__}.{part}", map="raf")
        drawing = ("wordsens.figures", "wordsens.notebook")
        assert not [each for each in found if each.startswith(drawing)], name


def test_a_figure_depends_on_its_own_kind_alone() -> None:
    kind = "wordsens.studies.sensitivity.figures.positions"
    found = provenance.sources(SCRIPTS / "figure.py", kind)
    assert {kind, "wordsens.figures.style", "wordsens.figures.captions"} <= set(found)
    assert not [name for name in found if name.endswith((".context_length", ".cell", ".search"))]


def test_an_edit_of_a_template_makes_pages_anew(monkeypatch) -> None:
    table, cell = "wordsens.studies.explanation.table", "wordsens.studies.explanation.cell"
    before = provenance.fingerprint(table), provenance.fingerprint(cell)
    whole = Path.read_bytes

    def edited(path: Path) -> bytes:
        return whole(path) + b" " * (path.suffix == ".css")

    monkeypatch.setattr(Path, "read_bytes", edited)
    after = provenance.fingerprint(table), provenance.fingerprint(cell)
    assert after[0] != before[0]
    assert after[1] == before[1], "a cell shows nothing"


def test_fast_and_imports_nothing() -> None:
    code = (
        "import sys; from wordsens.provenance import fingerprint; before = set(sys.modules);"
        f"fingerprint({str(SCRIPTS / 'cell.py')!r}, {CELL!r});"
        "assert not {m for m in set(sys.modules) - before if m.startswith('wordsens')};"
        "assert 'torch' not in sys.modules"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - began < 10


def test_code_of_ones_own_depends_on_all_that_the_package_forwards(tmp_path: Path) -> None:
    """``import wordsens`` may ask for anything, and an edit of the search must not go unseen."""
    mine = tmp_path / "cell.py"
    mine.write_text("import wordsens\n")
    found = set(provenance.sources(SCRIPTS / "cell.py", extra=[mine]))
    assert {"cell.py", "own/cell.py"} <= found, "a script and a file of its name"
    assert {"wordsens.search.power", "wordsens.maps.raf", "wordsens.glm"} <= found
    assert not [name for name in found if name.startswith("wordsens.figures")]
    other = tmp_path / "other.py"
    other.write_text("from wordsens.randomness import Stream\n")
    found = set(provenance.sources(SCRIPTS / "cell.py", extra=[other]))
    assert "wordsens.randomness" in found
    assert "wordsens.search.power" not in found
