"""The Triton accumulation over a vocabulary equals the plain one in float64."""

import pytest
import torch

from wordsens.kernels import vocabulary

kernel = pytest.importorskip("wordsens.kernels.vocabulary_triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    def empty(size, *, dtype, device):
        return torch.full(size, float("nan"), dtype=dtype, device=device)

    monkeypatch.setattr(kernel, "_empty", empty)


def operands(n, places, words, seed=0, extreme=False):
    """Operands as ``changed_rows`` takes them, float64 with float32 values; some pairs not kept."""
    g = torch.Generator().manual_seed(seed)

    def rand(*size):
        return torch.rand(*size, generator=g, dtype=torch.float64).float().double()

    p, far, dot, dot_own = rand(n, words), 3 * rand(n, words), rand(n, words), rand(places, words)
    s, lean, away = rand(n, places) / 2, rand(n, places) - 0.5, 2 * rand(n, places)
    keep = (rand(n, places) < 0.8).double()
    if extreme:
        p[::2] = torch.where(p[::2] < 0.5, 0.0, 1.0)
        s[0], keep[0] = 1.0, 0.0  # the word is all of its row: the pair is counted elsewhere
        s[1:] = 0.5
    return p, far, dot, dot_own, s, lean, away, keep


@pytest.mark.parametrize(("n", "places", "words"), [(1, 1, 1), (5, 3, 7), (9, 33, 5), (4, 2, 130)])
@pytest.mark.parametrize("extreme", [False, True])
def test_equals_float64(n, places, words, extreme):
    given = operands(n, places, words, extreme=extreme)
    wanted = vocabulary.changed_rows(*given)
    got = kernel.changed_rows(*(x.to(DEVICE, torch.float32) for x in given)).cpu()
    assert got.shape == (places, words)
    assert (got - wanted).abs().max() <= 2e-6 * n * max(1.0, wanted.abs().max().item())


def test_operands_need_not_be_contiguous():
    given = operands(6, 5, 4)
    turned = [x.to(DEVICE, torch.float32).T.contiguous().T for x in given]
    wanted = vocabulary.changed_rows(*given)
    assert torch.allclose(kernel.changed_rows(*turned).cpu().double(), wanted, atol=1e-5)


@pytest.mark.gpu
def test_a_whole_vocabulary_on_a_card():
    given = operands(250, 250, 30522)
    got = kernel.changed_rows(*(x.cuda().float() for x in given)).cpu()
    wanted = vocabulary.changed_rows(*(x[..., :999] if x.shape[-1] == 30522 else x for x in given))
    assert (got[:, :999] - wanted).abs().max() <= 1e-5 * wanted.abs().max()
