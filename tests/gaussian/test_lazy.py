"""What only the lazy matrix promises: its law, its bases, and equality with a dense oracle."""

import math
from functools import partial

import pytest
import torch
from scipy import stats

from wordsens.gaussian import DenseGaussian, LazyGaussian
from wordsens.randomness import Stream


class FromDense(LazyGaussian):
    """A lazy matrix whose fresh draws are answered by a stored one."""

    def __init__(self, dense):
        streams = [Stream(0, "unused")] * dense.batch
        super().__init__(dense.rows, dense.columns, streams, dtype=dense.dtype)
        self.dense = dense

    def _fresh_right(self, q):
        return self.dense.matvec(q)

    def _fresh_left(self, p):
        return self.dense.rmatvec(p)


@pytest.mark.parametrize("block", [1, 3, 70])
@pytest.mark.parametrize(("rows", "columns"), [(80, 50), (40_000, 24)])
def test_equals_the_dense_matrix_that_answers_its_draws(block, rows, columns):
    dense = DenseGaussian.draw(rows, columns, [Stream(1, "V", trial=t) for t in range(2)])
    lazy = FromDense(dense)
    g = torch.Generator().manual_seed(0)
    for _ in range(10):
        h = torch.randn(2, block, columns, generator=g, dtype=torch.float64)
        u = torch.randn(2, block, rows, generator=g, dtype=torch.float64)
        assert torch.allclose(lazy.matvec(h), dense.matvec(h), atol=1e-10)
        assert torch.allclose(lazy.rmatvec(u), dense.rmatvec(u), atol=1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_bases_stay_orthonormal_and_adjoint_after_1000_mixed_queries(dtype, tolerance):
    V = LazyGaussian(1500, 1300, [Stream(3, "V")], std=1 / math.sqrt(1300), dtype=dtype)
    g = torch.Generator().manual_seed(0)
    last_h = last_u = None
    for i in range(1000):
        # every third query nearly repeats the one before: the hard case for Gram–Schmidt
        if i % 2 == 0:
            fresh = torch.randn(1, 1, 1300, generator=g, dtype=torch.float64).to(dtype)
            last_h = last_h + 1e-3 * fresh if i % 3 == 0 and i else fresh
            answer_h = V.matvec(last_h)
        else:
            fresh = torch.randn(1, 1, 1500, generator=g, dtype=torch.float64).to(dtype)
            last_u = last_u + 1e-3 * fresh if i % 3 == 0 and i > 1 else fresh
            answer_u = V.rmatvec(last_u)
    for side in (V._right, V._left):
        gram = side.basis[0] @ side.basis[0].mT
        assert (gram - torch.eye(len(gram), dtype=dtype)).abs().max() <= tolerance
    scale = last_h.norm() * last_u.norm()
    assert ((answer_h * 0 + V.matvec(last_h)) @ last_u.mT - last_h @ answer_u.mT).abs() <= (
        tolerance * scale
    ).item()


@pytest.mark.parametrize("apart", [1e-2, 1e-6, 1e-9, 1e-12, 1e-13, 0.0])
def test_near_equal_rows_of_one_block_stay_orthogonal_to_everything(apart):
    """Starts of one search converge, so that blocks hold almost the same vector several times."""
    V = LazyGaussian(60, 50, [Stream(0, "V", trial=t) for t in range(3)])
    g = torch.Generator().manual_seed(1)
    for _ in range(4):
        V.matvec(torch.randn(3, 2, 50, generator=g, dtype=torch.float64))
        V.rmatvec(torch.randn(3, 2, 60, generator=g, dtype=torch.float64))
    h = torch.randn(3, 1, 50, generator=g, dtype=torch.float64)
    block = h + apart * torch.randn(3, 4, 50, generator=g, dtype=torch.float64)
    block = torch.cat([block, V._right.basis[:, :1] + apart * block], 1)
    image = V.matvec(block)
    for side in (V._right, V._left):
        gram = side.basis @ side.basis.mT
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        assert (gram - torch.diag_embed(diagonal)).abs().max() < 1e-13
        assert (((diagonal - 1).abs() < 1e-13) | (diagonal == 0)).all()
    # the images of near-equal vectors are near-equal
    assert (image[:, 1:4] - image[:, :1]).norm() <= 40 * (
        block[:, 1:4] - block[:, :1]
    ).norm() + 1e-10
    u = torch.randn(3, 1, 60, generator=g, dtype=torch.float64)
    assert ((image @ u.mT) - block @ V.rmatvec(u).mT).abs().max() < 1e-10


def second_moments(make, seeds=4000):
    """Entries of V probed through alternating queries, for many seeds: (seeds, 3·3)."""
    V = make([Stream(seed, "law") for seed in range(seeds)])
    eye_right = torch.eye(4, dtype=torch.float64).expand(seeds, -1, -1)
    eye_left = torch.eye(3, dtype=torch.float64).expand(seeds, -1, -1)
    # adaptive: the second query depends on the first answer, as in a search
    first = V.matvec(eye_right[:, :1])
    back = V.rmatvec(first)
    V.matvec(back)
    V.rmatvec(eye_left[:, 1:2])
    return torch.stack([V.matvec(eye_right[:, j : j + 1])[:, 0] for j in range(4)], 2).flatten(1)


def moments_agree(entries):
    """Mean 0, variance 1, no correlation: each entry within 5.5 standard errors.

    12 means, 78 second moments and 12 fourth moments: false alarm below 1e-5 · 1e-1 = 1e-6 by
    the union bound over 102 two-sided tests at 5.7σ (1.2e-8 each).
    """
    seeds = len(entries)
    second = entries.mT @ entries / seeds
    eye = torch.eye(entries.shape[1], dtype=torch.float64)
    deviation = torch.where(eye > 0, math.sqrt(2), 1) / math.sqrt(seeds)
    fourth = (entries**4).mean(0) - 3
    return bool(
        (entries.mean(0).abs() * math.sqrt(seeds) < 5.7).all()
        and ((second - eye).abs() < 5.7 * deviation).all()
        and (fourth.abs() < 5.7 * math.sqrt(96 / seeds)).all()
    )


def test_law_of_adaptively_probed_entries():
    assert moments_agree(second_moments(lambda s: LazyGaussian(3, 4, s)))


def there_and_back(make, seeds=2000):
    """uᵀ V Vᵀ u for a unit u: χ² with as many degrees of freedom as V has columns."""
    V = make([Stream(seed, "law") for seed in range(seeds)])
    u = torch.full((seeds, 1, 3), 3**-0.5, dtype=torch.float64)
    return (V.matvec(V.rmatvec(u)) * u).sum((1, 2)).numpy()


def law_is_right(sample):
    """Kolmogorov–Smirnov and a test of the mean, each with false-alarm rate 5e-7."""
    mean_error = abs(sample.mean() - 4) / math.sqrt(8 / len(sample))
    return stats.kstest(sample, stats.chi2(4).cdf).pvalue > 5e-7 and mean_error < 5.03


def test_law_of_products_there_and_back():
    assert law_is_right(there_and_back(lambda s: LazyGaussian(3, 4, s)))


class WithoutConditioning(LazyGaussian):
    """The mutant: new right queries forget what the left queries revealed."""

    def _product(self, x, asked, other, fresh):
        forgotten = type(other)(self.batch, self.rows, self.columns, self.dtype, self.device)
        return super()._product(x, asked, forgotten if asked is self._right else other, fresh)


def test_the_law_test_catches_a_missing_conditioning_term():
    assert not law_is_right(there_and_back(lambda s: WithoutConditioning(3, 4, s)))


@pytest.mark.parametrize(("rows", "columns", "storable"), [(12, 9, None), (30, 30, True)])
def test_singular_values_have_the_dense_law(rows, columns, storable):
    """The largest, by power steps, on the way of which the square matrix is stored."""

    def largest(make, seed):
        V = make(rows, columns, [Stream(seed, "sv", trial=t) for t in range(500)])
        v = torch.ones(500, 1, columns, dtype=torch.float64)
        for _ in range(20):
            v = V.rmatvec(V.matvec(v))
            v = v / v.norm(dim=-1, keepdim=True)
        return V.matvec(v).norm(dim=-1).flatten().numpy()

    lazy = largest(partial(LazyGaussian, storable=storable), 0)
    dense = largest(DenseGaussian.draw, 1)
    assert stats.ks_2samp(lazy, dense).pvalue > 1e-6
    assert stats.ttest_ind(lazy, dense).pvalue > 1e-6


def stored_halfway(make, seeds=1500):
    """‖V‖², ‖VᵀV u‖² and entries asked for at the end, of matrices that are stored on the way."""
    V = make(1100, 4, [Stream(seed, "stored") for seed in range(seeds)], std=1100**-0.5)
    u = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).expand(seeds, 1, -1)
    back = V.rmatvec(V.matvec(u))
    whole = V.matvec(torch.eye(4, dtype=torch.float64).expand(seeds, -1, -1))
    assert torch.allclose(whole[:, :1] @ whole.mT, back, atol=1e-12)
    return torch.stack([(whole**2).sum((1, 2)), (back**2).sum((1, 2)), whole[:, 3, 7] * 30]).numpy()


def test_what_is_left_of_a_matrix_is_drawn_with_its_law():
    lazy = stored_halfway(LazyGaussian)
    dense = stored_halfway(
        lambda rows, columns, streams, std: DenseGaussian.draw(
            rows, columns, [stream.child("dense") for stream in streams], std=std
        )
    )
    for ours, theirs in zip(lazy, dense, strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-6
        assert stats.ttest_ind(ours, theirs).pvalue > 1e-6


@pytest.mark.parametrize(("rows", "columns", "storable"), [(900, 20, None), (150, 150, True)])
def test_a_matrix_is_stored_once_it_was_asked_much(rows, columns, storable):
    """It goes on as the same matrix, from both sides, whatever companions it has."""
    V = LazyGaussian(
        rows, columns, [Stream(0, "few", trial=t) for t in range(2)], storable=storable
    )
    g = torch.Generator().manual_seed(0)
    asked = [torch.randn(2, 2, columns, generator=g, dtype=torch.float64) for _ in range(80)]
    answers = [V.matvec(h) for h in asked[:30]]
    lazily = torch.randn(2, 1, rows, generator=g, dtype=torch.float64)
    before = V.bytes_held
    answers += [V.matvec(h) for h in asked[30:]]
    assert V.bytes_held == 2 * rows * columns * 8
    assert storable is None or before != V.bytes_held
    again = [V.take([1]).matvec(h[1:]) for h in asked]
    for first, later in zip(answers, again, strict=True):
        assert torch.allclose(first[1:], later, atol=1e-12)
    back = V.rmatvec(lazily)
    for h, answer in zip(asked, answers, strict=True):  # ⟨V h, g⟩ = ⟨h, Vᵀ g⟩
        assert torch.allclose((answer * lazily).sum(-1), (h * back).sum(-1), atol=1e-9)


def test_others_are_not_stored():
    for storable, rows in ((None, 150), (False, 900)):
        V = LazyGaussian(rows, 150, [Stream(0, "not")], storable=storable)
        for i in range(140):
            V.matvec(torch.eye(150, dtype=torch.float64)[None, i : i + 1])
        assert V.bytes_held != rows * 150 * 8


def test_memory_is_that_of_the_queries():
    V = LazyGaussian(200_000, 150_000, [Stream(0, "big")], dtype=torch.float32)
    h = torch.ones(1, 1, 150_000)
    for _ in range(3):
        h = V.rmatvec(V.matvec(h))
        h = h / h.norm()
    assert V.bytes_held < 20 * 350_000 * 4  # the stored matrix would take 120 GB
