"""Split sums along long vectors equal plain products in float64, and leave x orthogonal."""

import pytest
import torch

from wordsens.kernels import orthogonal

kernel = pytest.importorskip("wordsens.kernels.orthogonal_triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    def empty(size, *, dtype, device):
        return torch.full(size, float("nan"), dtype=dtype, device=device)

    monkeypatch.setattr(kernel, "_empty", empty)


def vectors(batch, count, basis, length, seed=0):
    """x (B, b, k), and a buffer whose first vectors are an orthonormal basis (B, t, k)."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, count, length, generator=g).double()
    q = torch.randn(batch, length, basis, generator=g).double()
    held = torch.full((batch, basis + 3, length), float("nan"), dtype=torch.float64)
    held[:, :basis] = torch.linalg.qr(q).Q.mT.float()
    return x, held


@pytest.mark.parametrize("count", [1, 2, 9, 17])
@pytest.mark.parametrize(("basis", "length"), [(1, 3), (5, 300), (37, 513)])
def test_sweep_equals_float64(count, basis, length):
    basis = min(basis, length)
    x, held = vectors(2, count, basis, length)
    low, buffer = x.to(DEVICE, torch.float32), held.to(DEVICE, torch.float32)
    wanted = x @ held[:, :basis].mT
    got = kernel.sweep(low, buffer[:, :basis])
    assert (got.cpu() - wanted).abs().max() <= 1e-5 * x.norm(dim=-1).max()
    assert torch.equal(low.cpu().double(), x)  # without a step x stays
    step = got.cpu().double()
    left = kernel.sweep(low, buffer[:, :basis], got)
    rest = x - step @ held[:, :basis]
    assert (low.cpu() - rest).abs().max() <= 1e-5 * x.abs().max()
    assert (left.cpu() - rest @ held[:, :basis].mT).abs().max() <= 1e-5 * x.norm(dim=-1).max()


def test_an_empty_basis():
    x, held = vectors(2, 3, 4, 50)
    assert kernel.sweep(x.float(), held[:, :0].float()).shape == (2, 3, 0)


def test_vectors_that_are_not_contiguous():
    x, held = vectors(2, 3, 4, 50)
    turned = x.float().mT.contiguous().mT.to(DEVICE)
    low = held[:, :4].float().to(DEVICE)
    first = kernel.sweep(turned, low)
    kernel.sweep(turned, low, first)
    assert (turned.cpu() - (x - first.cpu().double() @ held[:, :4])).abs().max() <= 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-15)])
def test_projecting_twice_leaves_nothing_in_the_basis(dtype, tolerance):
    x, held = vectors(2, 3, 20, 400, seed=1)
    basis = torch.linalg.qr(held[:, :20].mT).Q.mT.to(dtype)
    mixed = (x + 1e4 * torch.ones(2, 3, 20).double() @ held[:, :20]).to(dtype)
    rest = mixed.clone()
    coefficients = orthogonal.project_out(rest, basis)
    assert (rest @ basis.mT).abs().max() <= 20 * tolerance * rest.norm(dim=-1).max()
    whole = coefficients @ basis + rest
    assert (whole - mixed).abs().max() <= 20 * tolerance * mixed.norm(dim=-1).max()


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 8, 32])
def test_a_wide_layer_on_a_card(count):
    x, held = vectors(2, count, 75, 61440)
    low, buffer = x.cuda().float(), held.cuda().float()
    got = kernel.sweep(low, buffer[:, :75]).cpu()
    assert (got - x @ held[:, :75].mT).abs().max() <= 1e-5 * x.norm(dim=-1).max()
