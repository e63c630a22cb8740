"""Imports run one way: as docs/architecture.md says, room by room, and without a circle."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "wordsens"
PAGE = ROOT / "docs" / "architecture.md"


def module_name(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(package: Path) -> dict[str, set[str]]:
    """The modules that each module imports, wherever the import stands, for types too."""
    files = {module_name(file, package): file for file in package.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, file in files.items():
        found[name] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.level == 0, f"{name}: relative import"
                named = [
                    whole if (whole := f"{node.module}.{alias.name}") in files else node.module
                    for alias in node.names
                ]
            else:
                continue
            found[name] |= {each for each in named if each in files and each != name}
    return found


def rooms() -> list[str]:
    """The rooms of the library in the order that the page states, the first importing nothing."""
    table = PAGE.read_text(encoding="utf-8").split("| room | does |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [room for row in rows for room in re.findall(r"`(\w+)`", row)]


def breaches(found: dict[str, set[str]], order: list[str]) -> list[str]:
    place = {room: number for number, room in enumerate(order)}
    return [
        f"{name} imports {other}"
        for name, others in sorted(found.items())
        for other in sorted(others)
        if name.count(".")
        and other.count(".")  # the package itself forwards names
        and place[name.split(".")[1]] < place[other.split(".")[1]]
    ]


def test_every_room_is_on_the_page() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert sorted(rooms()) == sorted(there - {"__init__", "__pycache__"})


def test_rooms_import_only_those_above() -> None:
    assert breaches(imports(PACKAGE), rooms()) == []


def test_no_module_imports_itself_by_a_detour() -> None:
    try:
        TopologicalSorter(imports(PACKAGE)).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_breach_and_a_circle_are_seen(tmp_path: Path) -> None:
    package = tmp_path / "small"
    (package / "top").mkdir(parents=True)
    (package / "top" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "top" / "a.py").write_text("def f():\n    from small.low import x\n")
    (package / "low.py").write_text("from small.top import a\n")
    found = imports(package)
    assert breaches(found, ["low", "top"]) == ["small.low imports small.top.a"]
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()


def test_no_file_is_long() -> None:
    files = [*PACKAGE.rglob("*.py"), *ROOT.glob("scripts/*.py"), *ROOT.glob("benchmarks/*.py")]
    files += [*ROOT.glob("workflow/rules/*.smk"), ROOT / "Snakefile"]
    long = {
        str(file.relative_to(ROOT)): count
        for file in files
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long
