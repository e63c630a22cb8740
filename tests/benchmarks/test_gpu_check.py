"""gpu-check without a card: it says so, checks numbers, and a wrong kernel gets no time."""

import pytest
import torch

from benchmarks import gpu_check
from wordsens.kernels import orthogonal

# Triton interprets kernels or compiles them, for a whole process; with a card it compiles.
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="what the script says without a card; on this machine run make gpu-check itself",
)


@pytest.fixture(autouse=True)
def without_the_tests(monkeypatch):
    """The marked tests are run by this very run of pytest."""
    monkeypatch.setattr(gpu_check, "_tests", lambda report: None)


def test_it_passes_and_says_that_nothing_was_measured(capsys, tmp_path):
    assert gpu_check.main(["--quick", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "no CUDA device" in said
    assert "nothing is said about speed" in said
    assert said.rstrip().splitlines()[-1].startswith("Gram matrix"), "the table comes last"
    assert not list(tmp_path.iterdir()), "gpu.csv holds measurements of cards only"


def test_a_wrong_kernel_fails_and_has_no_row(monkeypatch, capsys, tmp_path):
    pytest.importorskip("triton")
    from wordsens.kernels import orthogonal_triton

    right = orthogonal_triton.sweep
    monkeypatch.setattr(orthogonal_triton, "sweep", lambda *given: 0.5 * right(*given))
    assert gpu_check.main(["--quick", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "FAILED 1 queries, 3 vectors" in said
    assert not any(line.startswith("CGS2") for line in said.splitlines())
    assert not orthogonal.fused(torch.zeros(1)), "the interpreter is handed nothing afterwards"
