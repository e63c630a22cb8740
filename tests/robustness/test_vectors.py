"""Samples as theory wants them: norm √d, training and test apart."""

import pytest
import torch

from wordsens.errors import UserError
from wordsens.randomness import Stream
from wordsens.robustness.vectors import draw_vectors


@pytest.mark.parametrize("source", [None, "digits"])
@pytest.mark.parametrize("labels", ["own", "random"])
def test_rows_and_labels(source, labels):
    drawn = draw_vectors(source, 300, 64, 40, Stream(0, "test"), labels=labels)
    assert drawn.X.shape == (300, 64)
    assert drawn.x.shape == (40, 64)
    everything = torch.cat([drawn.X, drawn.x])
    assert torch.allclose(everything.norm(dim=1), torch.full((340,), 8.0, dtype=torch.float64))
    assert set(drawn.y.tolist()) == {-1.0, 1.0}
    assert len(everything.unique(dim=0)) == 340
    assert drawn.X.mean(0).norm() < 1.5  # the mean of 300 centred rows, about √(64/300)
    again = draw_vectors(source, 300, 64, 40, Stream(0, "test"), labels=labels)
    assert torch.equal(again.X, drawn.X)
    assert torch.equal(again.y, drawn.y)


def test_own_labels_can_be_learnt_and_random_ones_not():
    for labels, least, most in (("own", 0.7, 1.0), ("random", 0.35, 0.65)):
        drawn = draw_vectors("digits", 600, 64, 200, Stream(0, "test"), labels=labels)
        half = 300
        seen, eye = drawn.X[:half], torch.eye(64, dtype=torch.float64)
        weights = torch.linalg.solve(seen.mT @ seen + 10 * eye, seen.mT @ drawn.y[:half])
        right = (torch.sign(drawn.X[half:] @ weights) == drawn.y[half:]).double().mean()
        assert least < right < most


@pytest.mark.parametrize(
    ("N", "d", "message"), [(300, 32, r"robustness.d: is 32"), (1790, 64, "at most 1757")]
)
def test_more_than_there_is(N, d, message):
    with pytest.raises(UserError, match=message):
        draw_vectors("digits", N, d, 40, Stream(0, "test"))
