"""YAML files, read as Snakemake reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Plain = dict[str, Any]


def read_yaml(path: Path) -> Plain:
    """The keys and values of a file; none where it holds something else."""
    import yaml

    text = path.read_text(encoding="utf-8")
    # As Snakemake does: YAML spells infinity otherwise than JSON.
    try:
        content = json.loads(text)
    except ValueError:
        content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content if isinstance(content, dict) else {}


def yaml_mistake(path: Path) -> str | None:
    """Why a file is no configuration, in one line; None where it may be one."""
    import yaml

    try:
        # Snakemake's parser; the faster one lets more pass.
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        return f"{path}: byte {error.object[error.start]:#04x} at {error.start} is not UTF-8"
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or str(error)
        return " ".join(f"{path}: {where}not valid YAML: {reason}".split())
    if not isinstance(content, dict):
        return f"{path}: holds no keys; allowed: keys and values such as seed: 1"
    return None
