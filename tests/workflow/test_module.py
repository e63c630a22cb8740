"""The Snakefile as a module of somebody's own workflow, run for real."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SNAKEFILE = """
configfile: "mine.json"

module words:
    snakefile: {snakefile!r}
    config: config

use rule * from words as words_*

rule mine:
    default_target: True
    input: "results/figures/lengths.pdf"
    output: "size.txt"
    shell: "wc -c < {{input}} > {{output}}"
"""


def test_another_workflow_imports_the_rules_with_its_own_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "another workflow"
    folder.mkdir()
    (folder / "Snakefile").write_text(SNAKEFILE.format(snakefile=str(ROOT / "Snakefile")))
    sweep = {"map": "raf", "dataset": "plain", "d": [8], "n": [3, 4], "trials": 1}
    config = {
        "datasets": {"plain": {"source": "gaussian"}},
        "sweeps": {"raf": sweep},
        "figures": {"lengths": {"kind": "context_length", "sweeps": ["raf"]}},
    }
    (folder / "mine.json").write_text(json.dumps(config))
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "rule words_sensitivity_cell:" in run.stderr
    assert int((folder / "size.txt").read_text()) > 1000
