"""The Triton attention step equals the plain one in float64: in the interpreter, or on a card."""

import pytest
import torch

import wordsens
from wordsens.maps import position_sets

triton_step = pytest.importorskip("wordsens.kernels.attention_triton")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """Every buffer begins as NaN, so that an entry nobody wrote shows."""

    def empty(size, *, dtype, device):
        return torch.full(size, float("nan"), dtype=dtype, device=device)

    monkeypatch.setattr(triton_step, "_empty", empty)


def make(name, n, d, *, trials=2, logit=None, twins=False, seed=0, heads=2):
    """A map with a draw per trial, and samples (T, n, d); float64 with float32 values."""
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(trials, n, d, generator=g, dtype=torch.float64)
    X *= d**0.5 / X.norm(dim=-1, keepdim=True)
    if twins:
        X[:, 2] = X[:, 0] = X[:, 1]

    def weights(*size):
        return torch.randn(trials, *size, generator=g, dtype=torch.float64) / d**0.5

    cls = wordsens.maps.map_class(name)
    sizes = [(heads, 5, d), (heads, 5, d), (heads, 3, d)] if name == "qkv" else [(d, d)]
    drawn = [weights(*size) for size in sizes]
    if logit is not None:
        scores = cls(*drawn).state(X).scores
        drawn[0] *= logit / scores.abs().amax((1, 2, 3)).view(-1, *[1] * len(sizes[0]))
    return cls(*(W.float().double() for W in drawn)), X.float().double()


def cast(map, dtype):
    tensors = {"raf": 1, "relu_raf": 1, "qkv": 3}[map.name]
    d = map.query.matrix.shape[-1]
    if tensors == 1:
        return type(map)((map.query.matrix[:, 0].mT * d**0.5).to(DEVICE, dtype))
    width = map.query.matrix.shape[-2]
    parts = (map.query.matrix * width**0.5, map.key.matrix, map.value.matrix)
    return type(map)(*(W.to(DEVICE, dtype) for W in parts))


def compare(map, X, sets, starts, sharpness=1.0, seed=1, tolerance=2e-5):
    n, d = X.shape[-2:]
    chosen = position_sets([[i] for i in sets], n)
    g = torch.Generator().manual_seed(seed)
    delta = torch.randn(len(X), len(sets), starts, 1, d, generator=g, dtype=torch.float64)
    if starts > 1:
        delta[:, :, 1] = 0  # no change at all
    view = map.view(X, chosen)
    v = (view.tokens[:, :, None] + delta).float().double()
    value, grad = view.plain_step(v, sharpness)
    low = cast(map, torch.float32).view(X.to(DEVICE, torch.float32), chosen.to(DEVICE)).constants
    got, got_grad = triton_step.value_and_grad(low, v.to(DEVICE, torch.float32), sharpness)
    assert got.shape == value.shape
    assert got_grad.shape == grad.shape
    size = value.amax() + 1e-2 * view.norm.amax() ** 2
    slope = grad.norm(dim=-1).amax() + 1e-2 * view.norm.amax()
    assert (got.cpu() - value).abs().max() <= tolerance * size
    assert (got_grad.cpu() - grad).norm(dim=-1).max() <= 5 * tolerance * slope
    return low


# a matrix-vector product, dots with few candidates and with more
@pytest.mark.parametrize(("sets", "starts"), [([1], 1), ([0, 3], 2), ([4, 0, 2], 3)])
@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_step_equals_float64(name, sets, starts):
    map, X = make(name, 19, 21)
    compare(map, X, sets, starts)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
def test_products_by_torch(monkeypatch, name):
    monkeypatch.setattr(triton_step, "FUSED", 3)
    map, X = make(name, 19, 21)
    compare(map, X, [0, 3], 2)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
@pytest.mark.parametrize(("n", "d"), [(2, 1), (5, 33), (17, 2), (33, 16)])
def test_odd_and_tiny_shapes(name, n, d):
    map, X = make(name, n, d, trials=1)
    compare(map, X, [n - 1], 2)
    compare(map, X, [0], 1, sharpness=0.4)


@pytest.mark.parametrize("name", ["raf", "relu_raf", "qkv"])
@pytest.mark.parametrize("logit", [28.0, 60.0])
@pytest.mark.parametrize("twins", [False, True], ids=["distinct", "twins"])
def test_extreme_logits(name, logit, twins):
    map, X = make(name, 9, 6, trials=1, logit=logit, twins=twins, seed=3, heads=1)
    low = compare(map, X, list(range(9)), 1, tolerance=2e-5 * logit)
    # pairs that are recomputed over the other keys must have been among them
    assert len(low.heavy[0]) > 0


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_sharpness(name):
    map, X = make(name, 11, 8, trials=1)
    compare(map, X, [2, 7], 2, sharpness=0.55)


def test_long_rows_take_several_scans(monkeypatch):
    monkeypatch.setattr(triton_step, "SCAN", 16)
    map, X = make("raf", 37, 18, trials=1)
    compare(map, X, [36, 5], 1)
    map, X = make("relu_raf", 37, 18, trials=1)
    compare(map, X, [36, 5], 1)


@pytest.mark.parametrize("candidates", [17, 33])
def test_many_candidates(candidates):
    map, X = make("raf", 5, 4, trials=1)
    compare(map, X, [3], candidates)


def test_weights_shared_by_all_samples():
    map, X = make("raf", 9, 7, trials=1)
    plain = wordsens.maps.map_class("raf")(map.query.matrix[0, 0].mT * 7**0.5)
    compare_shared = X.repeat(3, 1, 1) * torch.tensor([1.0, -1.0, 0.5]).view(3, 1, 1)
    sets = position_sets([[2]], 9)
    view = plain.view(compare_shared, sets)
    v = view.tokens[:, :, None] + 0.3
    value, grad = view.plain_step(v)
    low = type(plain)((map.query.matrix[0, 0].mT * 7**0.5).to(DEVICE, torch.float32))
    seen = low.view(compare_shared.to(DEVICE, torch.float32), sets.to(DEVICE)).constants
    got, got_grad = triton_step.value_and_grad(seen, v.to(DEVICE, torch.float32))
    assert torch.allclose(got.cpu().double(), value, rtol=1e-4)
    assert (got_grad.cpu() - grad).abs().max() <= 1e-4 * grad.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["raf", "relu_raf"])
@pytest.mark.parametrize(("n", "d", "trials", "starts"), [(250, 768, 3, 24), (1031, 1500, 1, 64)])
def test_paper_sizes_on_a_card(name, n, d, trials, starts):
    map, X = make(name, n, d, trials=trials)
    compare(map, X, [0], starts, tolerance=1e-4)
