"""Maps and kinds of study of the user's own: Python files and folders named under ``plugins``.

    plugins: [my_map.py, my_study/]

A file or folder is imported as ``wordsens_plugins.<name>``; every feature map and kind of study
that it defines is then known wherever the built-in ones are.  A cell's
fingerprint covers the plugins that it uses (``source``), so that an edit makes it anew.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from wordsens import maps, studies
from wordsens.errors import UserError

PACKAGE = "wordsens_plugins"


def load_plugins(paths: Any) -> None:
    """Import the plugins of a configuration; nothing where ``paths`` is empty.

    Raises UserError, one line that names the file, for a path that is none, code that cannot be
    imported, and a plugin that holds neither a map nor a kind of study.
    """
    if not isinstance(paths, list):  # the schema says what is wrong with it
        return
    for text in paths:
        if isinstance(text, str) and text:
            _load(Path(text).expanduser())


def _load(path: Path) -> None:
    home = path / "__init__.py" if path.is_dir() else path
    if not home.is_file() or home.suffix != ".py":
        raise UserError(
            f"plugins: {str(path)!r} is neither a Python file nor a folder with an __init__.py, "
            f"seen from {Path.cwd()}"
        )
    if not path.stem.isidentifier():
        raise UserError(
            f"plugins: {str(path)!r} cannot be imported under the name {path.stem!r}; allowed: "
            "letters, digits and underscores"
        )
    module = _imported(f"{PACKAGE}.{path.stem}", home, path.is_dir())
    found = [value for value in vars(module).values() if _defined_in(value, module)]
    for study in (each for each in found if issubclass(each, studies.Study) and each.kind):
        studies.register(study)
    own_maps = [each for each in found if maps.is_map(each)]
    for own in own_maps:
        maps.register(own)
    if not own_maps and not any(issubclass(each, studies.Study) for each in found):
        raise UserError(
            f"plugins: {path} defines neither a feature map (a FeatureMap with a name) nor a kind "
            "of study (a Study with a kind)"
        )


def _defined_in(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and value.__module__.startswith(module.__name__)


def _imported(name: str, home: Path, package: bool) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None and Path(str(known.__file__)) == home.resolve():
        return known
    if known is not None:
        raise UserError(
            f"plugins: {known.__file__} and {home} have the same name; rename one of them"
        )
    if PACKAGE not in sys.modules:
        root = ModuleType(PACKAGE)
        root.__path__ = []
        sys.modules[PACKAGE] = root
    where = [str(home.resolve().parent)] if package else None
    spec = importlib.util.spec_from_file_location(
        name, home.resolve(), submodule_search_locations=where
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"plugins: {home}: {_where(error, home)}{_said(error)}") from None
    return module


def _where(error: Exception, home: Path) -> str:
    """The last line of the plugin itself that took part."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    inside = home.resolve().parent
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if inside in Path(frame.filename).parents
    ]
    return f"line {lines[-1]}: " if lines else ""


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def source(defined: type) -> Path | None:
    """The file or folder that a class of somebody's own comes from; None for the library's.

    A plugin counts as a whole, of an installed package the module or the package of the class.
    """
    parts = defined.__module__.split(".")
    if parts[0] == "wordsens":
        return None
    name = ".".join(parts[:2]) if parts[0] == PACKAGE else defined.__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return None
    return Path(file).parent if Path(file).name == "__init__.py" else Path(file)
