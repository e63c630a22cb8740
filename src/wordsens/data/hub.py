"""Models named on the hub: only at a pinned commit, so that a result says what it was made of."""

from __future__ import annotations

import re
from pathlib import Path

from wordsens.errors import UserError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
COMMIT = re.compile(r"[0-9a-f]{40}")


def pinned(model: str) -> tuple[str, str] | None:
    """The name and the commit of "owner/name@commit"; None for anything else."""
    name, _, commit = model.partition("@")
    return (name, commit) if NAME.fullmatch(name) and COMMIT.fullmatch(commit) else None


def local(model: str | Path, key: str) -> Path:
    """The folder of a model: itself, or a snapshot of the hub at a pinned commit.

    Raises UserError for a name on the hub without a commit, and where the hub cannot be reached.
    """
    path = Path(model)
    if path.exists() or not isinstance(model, str):
        return path
    name, at, _ = model.partition("@")
    if not NAME.fullmatch(name) or not (at or (len(path.parts) == 2 and not path.parent.exists())):
        return path
    found = pinned(model)
    if found is None:
        raise UserError(
            f"{key}: {model} is no folder here, and a name on the hub needs its commit to stay the "
            f"same model; give a path, or {name}@ and 40 hexadecimal digits"
        )
    from wordsens.data.assets import hub_snapshot

    return hub_snapshot(*found, key)
