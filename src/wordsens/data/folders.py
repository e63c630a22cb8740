"""What a model's folder must hold, and whether it still holds what was fetched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from wordsens.errors import UserError
from wordsens.files import sha256_of

ASSET_FILE = "asset.json"
GGUF = ".gguf"
ADAPTER = "adapter_config.json"  # as peft names it
TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
)


@contextmanager
def unreadable(key: str) -> Iterator[None]:
    """Turns a file or folder without read permission into one line."""
    try:
        yield
    except PermissionError as error:
        raise UserError(
            f"{key}: {error.filename} may not be read by this user; allow it, for example with "
            f"chmod u+rX {error.filename}"
        ) from None


def check_encoder(folder: str | Path, key: str) -> list[Path]:
    """The weight files of a model's folder, or a GGUF file, which is a model by itself.

    Raises UserError when a part is missing or may not be read.
    """
    with unreadable(key):
        return _weight_files(Path(folder), key)


def _weight_files(folder: Path, key: str) -> list[Path]:
    if folder.suffix == GGUF and folder.is_file():
        check_gguf(folder, key)
        return [folder]
    if not folder.is_dir():
        raise UserError(f"{key}: {folder} is not a folder")
    if (folder / ADAPTER).is_file():
        raise UserError(
            f"{key}: {folder} holds an adapter ({ADAPTER}), which changes the weights of another "
            "model; merge them (peft: merge_and_unload, then save_pretrained), or take it away"
        )
    if not (folder / "config.json").is_file():
        packed = sorted(folder.glob(f"*{GGUF}"))
        if not packed:
            raise UserError(f"{key}: {folder} has no config.json; {_inside(folder)}")
        check_gguf(packed[0], key)
        return packed[:1]
    os.listdir(folder)
    with (folder / "config.json").open("rb"):
        pass
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise UserError(f"{key}: {folder} has no tokenizer ({' or '.join(TOKENIZERS)})")
    index = folder / "model.safetensors.index.json"
    # Of both transformers takes the single file.
    if index.is_file() and not (folder / "model.safetensors").is_file():
        try:
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            shards = sorted({str(PurePosixPath(name).name) for name in names})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{key}: {index} cannot be used: {error!r}") from None
        if not shards:
            raise UserError(f"{key}: {index} names no files; save the model again")
        for shard in shards:
            if not (folder / shard).is_file():
                raise UserError(f"{key}: {folder} lacks {shard}, which its index names")
            check_safetensors(folder / shard, key)
        return [folder / shard for shard in shards]
    if not (folder / "model.safetensors").is_file():
        pickled = sorted(file.name for file in folder.glob("*.bin"))
        if pickled:
            raise UserError(
                f"{key}: {folder} holds only pickled weights ({pickled[0]}), which are never "
                "loaded; save the model again with save_pretrained(..., safe_serialization=True)"
            )
        raise UserError(f"{key}: {folder} has no model.safetensors")
    check_safetensors(folder / "model.safetensors", key)
    return [folder / "model.safetensors"]


def _inside(folder: Path) -> str:
    """What a folder without config.json may be: the parent of the model's own."""
    below = sorted(file.parent for file in folder.glob("*/config.json"))
    if below:
        return f"its folder {below[0].name} has one: give {below[0]}"
    return "a folder in transformers format has"


def check_gguf(file: Path, key: str) -> None:
    """Raises UserError when a file does not begin as GGUF files do."""
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise UserError(f"{key}: {file} is no GGUF file (cut, or of another format)")


def check_safetensors(file: Path, key: str) -> None:
    """Raises UserError when a file cannot be safetensors; a pickle under that name is not opened.

    The format begins with the length of a JSON header, 8 bytes, and the header.
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        size = file.stat().st_size
        begins = opened.read(1) if 8 + length <= size else b""
    if begins != b"{":
        raise UserError(
            f"{key}: {file} is no safetensors file (cut, or of another format such as pickle, "
            "which is never loaded); save the model again with "
            "save_pretrained(..., safe_serialization=True)"
        )


def check_unchanged(folder: str | Path) -> None:
    """Raises UserError when weights are no longer those that ``fetch_encoder`` noted.

    A folder without notes, which is not made by it, passes.
    """
    folder = Path(folder)
    if not (folder / ASSET_FILE).exists():
        return
    for name, noted in read_asset(folder)["weights"].items():
        found = sha256_of(folder / name) if (folder / name).is_file() else "missing"
        if found != noted:
            raise UserError(
                f"{folder / name}: changed since it was fetched (sha256 {found}, noted {noted}); "
                f"delete {folder} and run snakemake again"
            )


def read_asset(folder: str | Path) -> dict[str, Any]:
    """What ``fetch_encoder`` noted about an encoder's folder."""
    try:
        noted = dict(json.loads((Path(folder) / ASSET_FILE).read_text(encoding="utf-8")))
        dict(noted["source"]), dict(noted["weights"])
        return noted
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{folder}: {ASSET_FILE} cannot be read ({error}); delete the folder and run "
            "snakemake again"
        ) from None
