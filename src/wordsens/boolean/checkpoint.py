"""Checkpoints of a training: safetensors files, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from wordsens.files import replacing


def write_checkpoint(path: Path, tensors: dict[str, torch.Tensor], signature: str) -> None:
    """Write the state of a training, beside its final name first."""
    from safetensors.torch import save_file

    whole = {name: value.cpu().contiguous() for name, value in tensors.items()}
    with replacing(path) as beside:
        save_file(whole, beside, metadata={"signature": signature})


def read_checkpoint(path: Path, signature: str) -> dict[str, torch.Tensor] | None:
    """The state written with the same signature; None where there is none, or it is damaged.

    A training without it begins anew and ends in the same numbers.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("signature") != signature:
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (FileNotFoundError, SafetensorError, json.JSONDecodeError, OSError):
        return None
