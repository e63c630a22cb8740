"""Tests on a real Slurm are left out where its daemons cannot be started."""

from __future__ import annotations

import pytest

from tests.cluster.slurm import obstacle


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked slurm; ``make test-slurm``, which asks for them, fails instead."""
    wanted = [item for item in items if item.get_closest_marker("slurm")]
    reason = obstacle() if wanted else None
    if reason is None:
        return
    if config.option.markexpr == "slurm":
        pytest.exit(f"the Slurm tests cannot run here: {reason}", returncode=1)
    items[:] = [item for item in items if item not in wanted]
    config.hook.pytest_deselected(items=wanted)
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"Slurm tests left out: {reason}")
