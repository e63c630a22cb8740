"""Every kernel compiles for an H100 at every size class, without a card, and fits it."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")


def test_kernels_compile_for_an_h100_and_fit():
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--json"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["kernel"] for row in rows} == {
        *("scalars", "row_step", "own_weights", "column_step", "own_slope", "own_pull"),
        *("own_query", "slice_step", "rows_changed"),
    }
    for row in rows:
        assert row["tensor_cores"] == 0, row  # these would round to tf32
        assert row["shared"] <= 113 * 1024, row  # two programs on a multiprocessor
        assert row["registers"] <= 255, row
        assert row["stack"] == 0, row  # nothing spills
    # what the five size classes of the attention step are compiled to
    classes = {r["configuration"] for r in rows if r["kernel"] == "row_step"}
    assert {c.split("candidates=")[1].split()[0] for c in classes} == {"1", "8", "16", "32"}
    assert any("fused=0" in c for c in classes)
    assert any("heavy=1" in c for c in classes)
