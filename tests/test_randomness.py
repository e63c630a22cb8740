import numpy as np
import torch
from scipy import stats

from wordsens.randomness import CHUNK, Stream


def test_a_name_is_a_stream():
    first = Stream(1, "weights", map="raf", trial=3).normal(100)
    assert torch.equal(first, Stream(1, "weights", trial=3, map="raf").normal(100))
    for other in (
        Stream(2, "weights", map="raf", trial=3),
        Stream(1, "samples", map="raf", trial=3),
        Stream(1, "weights", map="raf", trial=4),
        Stream(1, "weights", map="raf", trial=3).child("x"),
    ):
        assert not torch.equal(first, other.normal(100))


def test_successive_draws_differ_and_repeat():
    stream, again = Stream(0, "a"), Stream(0, "a")
    draws = [stream.normal(50) for _ in range(3)]
    assert all(torch.equal(d, again.normal(50)) for d in draws)
    assert not torch.equal(draws[0], draws[1])


def test_numbers_do_not_depend_on_threads_or_precision():
    size = 2 * CHUNK + 17
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = Stream(0, "a").normal(size)
        torch.set_num_threads(2)
        two = Stream(0, "a").normal(size)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one, two)
    assert torch.equal(one.double(), Stream(0, "a").normal(size, dtype=torch.float64))


def test_normal_law_across_chunks():
    drawn = Stream(0, "law").normal(4 * CHUNK, dtype=torch.float64).numpy()
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    lagged = np.corrcoef(drawn[:CHUNK], drawn[CHUNK : 2 * CHUNK])[0, 1]
    assert abs(lagged) < 5 / CHUNK**0.5  # five standard deviations: false alarm 6e-7
