"""Maps are known by registration: the library's, those of plugins and of installed packages."""

import importlib.util
import subprocess
import sys

import pytest

from wordsens.errors import UserError
from wordsens.maps import MAPS, FeatureMap, build_map, declared, map_class, register, registry
from wordsens.maps.raf import RandomAttentionFeatures

MINE = """
from wordsens.maps.raf import RandomAttentionFeatures


class Cold(RandomAttentionFeatures):
    name = "cold"
"""


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    monkeypatch.setattr(registry, "MAPS", dict(MAPS))


def read(path, name="wordsens_plugins_test"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_registered_map_is_known_everywhere(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    cls = register(read(file).Cold)
    assert declared()["cold"] is map_class("cold") is cls
    assert build_map("cold", d=3).name == "cold"


def test_a_file_read_twice_takes_its_own_place(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    register(read(file).Cold)
    again = register(read(file).Cold)
    assert map_class("cold") is again


@pytest.mark.parametrize("first", ["raf", "cold"])
def test_a_name_twice_is_an_error_that_names_both_places(tmp_path, first):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(MINE)
    two.write_text(MINE.replace('"cold"', f'"{first}"').replace("Cold", "Other"))
    register(read(one, "test_one").Cold)
    with pytest.raises(UserError, match=rf"map '{first}'.*two\.py: Other.*and in .*: ") as error:
        register(read(two, "test_two").Other)
    assert ("one.py: Cold" if first == "cold" else "raf.py: ") in str(error.value)


class Nameless(RandomAttentionFeatures):
    pass


class Misnamed(RandomAttentionFeatures):
    name = "my map"


class Unfinished(FeatureMap):
    name = "unfinished"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Nameless, "Nameless gives its map no name"),
        (Misnamed, "Misnamed gives its map no name"),
        (Unfinished, "Unfinished lacks draw, features"),
        (int, "is no map; derive"),
        ("raf", "'raf' is no map"),
    ],
)
def test_what_is_no_map_is_refused(given, words):
    with pytest.raises(UserError, match=words) as error:
        register(given)
    assert "\n" not in str(error.value)


def package(folder, target):
    """An installed package that offers a map."""
    (folder / "theirs.py").write_text(MINE)
    info = folder / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[wordsens.maps]\ncold = {target}\n")


def ask(folder, code):
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_installed_packages_offer_maps(tmp_path):
    package(tmp_path, "theirs:Cold")
    code = "from wordsens.maps import declared; print(declared()['cold'].__module__)"
    assert ask(tmp_path, code).stdout == "theirs\n"


def test_a_broken_package_is_named(tmp_path):
    package(tmp_path, "theirs:Missing")
    found = ask(tmp_path, "from wordsens.maps import declared; declared()")
    assert found.returncode != 0
    assert "UserError: theirs offers the map theirs:Missing" in found.stderr
