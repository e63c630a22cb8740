"""What is asked of Snakemake by name, checked before it answers that no rule makes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from wordsens.config.schema import nearest


def targets_or_exit(rules: Iterable[str]) -> None:
    """Ends the process, in one line, where a target is a misspelt name and no file.

    Snakemake reads its rules before it looks at its targets, and tells neither to the other.
    """
    known = sorted(rules)
    for target in _asked():
        named = target.replace("_", "").replace("-", "").isalnum()
        if not named or target in known or os.path.exists(target):
            continue
        near = nearest(target, known)
        print(
            f"{target}: no figure or rule has this name{near or '; see snakemake --list'}",
            file=sys.stderr,
        )
        raise SystemExit(1)


def makes_files() -> bool:
    """Whether this process is a Snakemake that plans or runs, for which it needs a folder."""
    given = _given()
    return given is not None and not (given.list_rules or given.list_target_rules or given.lint)


def _asked() -> list[str]:
    """The targets on the command line of this process, if it is Snakemake's."""
    given = _given()
    return list(given.targets or ()) if given else []


def _given() -> Any:
    """Snakemake's command line; None in a job and in a process that is not Snakemake's."""
    if "snakemake" not in sys.modules or "--target-jobs" in sys.argv:
        return None
    try:
        from snakemake.cli import get_argument_parser

        return get_argument_parser().parse_known_args(sys.argv[1:])[0]
    except (Exception, SystemExit):  # another version, or another program's arguments
        return None
