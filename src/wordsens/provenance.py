"""What code a result depends on, found without importing any of it.

Snakemake re-runs a job when a parameter changed, but not when a module behind its script did.
Each rule therefore carries a fingerprint of every wordsens source its script can reach.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = "wordsens"
MAPS = "wordsens.maps"
REGISTRY = "wordsens.maps.registry"  # which imports the modules that define a map
# What no result can depend on: the package's own file only forwards names, progress only speaks,
# and plugins count with their own content.
WITHOUT_EFFECT = (PACKAGE, "wordsens.progress", "wordsens.plugins", "wordsens.warm")
DRAWS = "wordsens.notebook"  # forwarded by the package, and no matter of what is computed
STUDIES = "wordsens.studies"  # what lies directly in it declares; what computes lies deeper
ROOT = Path(__file__).resolve().parent


def fingerprint(
    *entries: str | Path, map: str | None = None, extra: Iterable[str | Path] = ()
) -> str:
    """A short sha256 over the sources of everything the entries import from wordsens.

    An entry is a dotted module name ("wordsens.studies.sensitivity.cell") or the path of a script.
    Imports are followed wherever they stand, inside functions too, except under TYPE_CHECKING.
    A string such as "wordsens.maps.raf" counts as an import of that module and one ending in a
    dot ("wordsens.maps.") as an import of all below it, which covers registries that import by
    name.  Modules ``WITHOUT_EFFECT`` on any result and declarations of studies are left out;
    templates beside a page.py count.

    With ``map``, code that uses the registry of maps uses that map alone: the modules of the
    others count only where they are imported by their own names.  With ``map=""`` it uses none, as
    what only reads the names of maps does.

    ``extra`` are files and folders of a user's own: the content of their sources counts, and what
    they import from wordsens, which for ``import wordsens`` is all that the package forwards.  A
    map that one of them defines is known by its name.

    Raises FileNotFoundError when an entry is no module or file.
    """
    digest = hashlib.sha256()
    for label, path in sorted(_closure(entries, map, extra).items()):
        digest.update(f"{label}\0{_read(path)[0]}\0".encode())
        for file in _templates(path):
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def sources(
    *entries: str | Path, map: str | None = None, extra: Iterable[str | Path] = ()
) -> list[str]:
    """The names of the modules (and files) that the fingerprint of the entries covers."""
    return sorted(_closure(entries, map, extra))


def _closure(
    entries: tuple[str | Path, ...], map: str | None, extra: Iterable[str | Path]
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    waiting = [file for path in extra for file in _own_files(Path(path))]
    own_maps = {name for _, file in waiting for name in _class_names(file)}
    for entry in entries:
        if str(entry).endswith(".py"):
            waiting.append((Path(entry).name, Path(entry)))
            continue
        if _module_file(str(entry)) is None:
            raise FileNotFoundError(f"no module {entry} below {ROOT}")
        waiting += _files(str(entry))
    while waiting:
        name, path = waiting.pop()
        if name in found or name in WITHOUT_EFFECT or _declares(name):
            continue
        found[name] = path
        imports = _read(path)[1]
        if PACKAGE in imports and not _module_name(path)[0]:  # somebody's own code
            imports |= _read(ROOT / "__init__.py")[1] - {DRAWS}
        if map is not None and name == REGISTRY:
            homes = _homes_of_maps()
            others = {home for names in homes.values() for home in names}
            known = map == "" or map in own_maps
            imports = imports - others | homes.get(map, set() if known else others)
        for imported in imports:
            waiting += _files(imported)
    return found


def _templates(path: Path) -> list[Path]:
    """What a module page.py renders: the files in the folder templates beside it."""
    return sorted(path.parent.glob("templates/*")) if path.name == "page.py" else []


def _declares(name: str) -> bool:
    """Whether a module only says what a kind of study is, from which jobs get whole parameters."""
    return name == STUDIES or name.rpartition(".")[0] == STUDIES


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """A module and the packages it lies in, all of which run when it is imported."""
    parts = module.split(".")
    for length in range(2, len(parts) + 1):
        name = ".".join(parts[:length])
        file = _module_file(name)
        if file is not None:
            yield name, file


def _module_file(module: str) -> Path | None:
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return None
    base = ROOT.joinpath(*parts[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _own_files(path: Path) -> list[tuple[str, Path]]:
    """The sources of a file or folder outside the package, by names that tell them apart."""
    if path.is_file():
        return [(f"own/{path.name}", path)]  # no script of that name
    if not path.is_dir():
        raise FileNotFoundError(f"no file or folder {path}")
    files = sorted(path.rglob("*.py"))
    return [(f"own/{path.name}/{file.relative_to(path).as_posix()}", file) for file in files]


def _homes_of_maps() -> dict[str, set[str]]:
    """The modules that define a map, by its name: those with a class whose ``name`` is that."""
    homes: dict[str, set[str]] = {}
    for file in sorted(ROOT.joinpath(*MAPS.split(".")[1:]).glob("*.py")):
        for name in _class_names(file):
            homes.setdefault(name, set()).add(_module_name(file)[0])
    return homes


@cache
def _class_names(path: Path) -> frozenset[str]:
    """The strings that the classes of a file have as their attribute ``name``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        for line in node.body if isinstance(node, ast.ClassDef) else ():
            value = getattr(line, "value", None)
            targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", 0)]
            named = any(isinstance(t, ast.Name) and t.id == "name" for t in targets)
            if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add(value.value)
    return frozenset(found)


def _module_name(path: Path) -> tuple[str, bool]:
    """The dotted name of a file in the package ("" outside it) and whether it is a package."""
    try:
        parts = list(path.resolve().relative_to(ROOT).with_suffix("").parts)
    except ValueError:
        return "", False
    package = parts[-1] == "__init__"
    return ".".join([PACKAGE, *(parts[:-1] if package else parts)]), package


@cache
def _read(path: Path) -> tuple[str, frozenset[str]]:
    """The sha256 of a source file and the wordsens modules that it names."""
    source = path.read_bytes()
    name, package = _module_name(path)
    base = name.split(".") if package else name.split(".")[:-1]
    imports: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = node.module.split(".") if node.module else []
            if node.level:
                stem = base[: len(base) - node.level + 1] + stem
            origin = ".".join(stem)
            imports.add(origin)
            imports.update(f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            imports.update(_named(node.value))
    return hashlib.sha256(source).hexdigest(), frozenset(
        module for module in imports if _module_file(module) is not None
    )


def _named(text: str) -> Iterator[str]:
    """Modules that a string names: itself, or all below it when it ends in a dot."""
    if not text.startswith(PACKAGE + ".") or not text.replace(".", "").replace("_", "").isalnum():
        return
    if not text.endswith("."):
        yield text
        return
    for file in ROOT.joinpath(*text.split(".")[1:-1]).rglob("*.py"):
        yield _module_name(file)[0]


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"
