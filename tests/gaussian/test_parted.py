"""A part of a matrix and the matrix are one."""

import pytest
import torch

from wordsens.gaussian import PartedGaussian
from wordsens.randomness import Stream


@pytest.mark.parametrize("asked_before", [False, True])
def test_parts_answer_as_the_columns_of_the_whole(asked_before):
    V = PartedGaussian(50, 30, [Stream(0, "V", trial=t) for t in range(2)])
    g = torch.Generator().manual_seed(0)
    if asked_before:
        V.matvec(torch.randn(2, 1, 30, generator=g, dtype=torch.float64))
    for index in (torch.tensor([4, 2, 9]), torch.tensor([9, 11, 20, 3]), torch.tensor([4, 2, 9])):
        part = V.part(index)
        h = torch.randn(2, 2, len(index), generator=g, dtype=torch.float64)
        u = torch.randn(2, 2, 50, generator=g, dtype=torch.float64)
        whole = torch.zeros(2, 2, 30, dtype=torch.float64)
        whole[..., index] = h
        assert torch.allclose(part.matvec(h), V.matvec(whole), atol=1e-12)
        assert torch.allclose(part.rmatvec(u), V.rmatvec(u)[..., index], atol=1e-12)


def test_a_word_of_its_own_is_asked_at_its_own_length():
    V = PartedGaussian(50, 3000, [Stream(0, "V")])
    assert V.part(torch.arange(7)).columns == 7
    assert V.part(torch.arange(7)) is V.part(torch.arange(7))


def test_the_parts_of_a_parted_matrix_are_independent():
    rows, columns = 4000, 8
    V = PartedGaussian(rows, columns, [Stream(3, "parted")], dtype=torch.float64)
    word = V.part(torch.arange(3))
    one = word.matvec(torch.eye(3, dtype=torch.float64)[None, :1])[0, 0]
    other = V.matvec(torch.eye(columns, dtype=torch.float64)[None, 5:6])[0, 0]
    share = torch.corrcoef(torch.stack([one, other]))[0, 1].abs()
    assert share < 5.5 / rows**0.5  # exceeded by independent ones with probability 4e-8
