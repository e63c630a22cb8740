"""Profiles against brute force, languages against their closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import binom

import wordsens
from wordsens.boolean import sampling, tables
from wordsens.boolean.languages import language, random_function_counts
from wordsens.boolean.profile import Profile
from wordsens.boolean.recogniser import Recogniser, plain_logits
from wordsens.boolean.sampling import exact_interval
from wordsens.boolean.shape import Shape
from wordsens.boolean.volume import census, named, walsh
from wordsens.errors import UserError
from wordsens.randomness import Stream

LANGUAGES = ["parity", "majority", "first", "random"]
LANGUAGES += [
    f"{kind}-{m}" for kind in ("dictator", "sparse-parity", "sparse-majority") for m in (1, 3, 4)
]


def brute_force(f, N):
    """K_0 … K_N by Definitions 2.2 and 2.6, string by string."""
    counts = [0] * (N + 1)
    for x in itertools.product((0, 1), repeat=N):
        value = f(x)
        flips = [f((*x[:n], 1 - x[n], *x[n + 1 :])) for n in range(N)]
        counts[sum(flip != value for flip in flips)] += 1
    return counts


def draw(shape, initialisation="uniform", models=4, **more):
    streams = [Stream(5, "model", m=m) for m in range(models)]
    return Recogniser.draw(shape, initialisation, streams, dtype=torch.float64, **more)


@pytest.mark.parametrize("N", [4, 5, 7])
@pytest.mark.parametrize("name", LANGUAGES)
def test_languages_equal_brute_force(name, N):
    known = language(name, N, Stream(2, "language"))
    want = brute_force(lambda x: bool(known.accepts(torch.tensor(x))), N)
    if known.counts is not None:
        assert known.counts == want
    exact = wordsens.profile(lambda bits: known.accepts(bits), N)
    assert exact.counts.tolist() == want
    table = known.accepts(tables.strings(N))
    assert wordsens.profile(table).counts.tolist() == want


@pytest.mark.parametrize("N", [1, 2, 3, 6, 12])
def test_recognisers_equal_brute_force(N):
    of = draw(Shape(2, 8, 2, 8), models=6)
    x = tables.strings(N)
    values = (plain_logits(of, x) >= 0).tolist()
    for model, own in enumerate(values):
        function = dict(zip(map(tuple, x.tolist()), own, strict=True))
        want = brute_force(function.__getitem__, N)
        assert wordsens.profile(of.take([model]), N).counts.tolist() == want


def test_chunks_change_nothing(monkeypatch):
    of = draw(Shape(3, 8, 1, 8, epsilon=0.0))
    whole = tables.truth_table(of, 9)
    assert 0 < whole.float().mean() < 1
    monkeypatch.setattr(tables, "CHUNK_BYTES", 20_000)
    assert torch.equal(tables.truth_table(of, 9), whole)


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_sampled_strings_have_their_exact_sensitivity(margin):
    of = draw(Shape(2, 8, 2, 8), margin=margin)
    table = tables.sensitivities(tables.truth_table(of, 8))
    x = tables.strings(8)
    assert torch.equal(sampling.recogniser_sensitivities(of, x), table.to(torch.int16))
    assert (table < 0).any() == (margin > 0)


def test_unclassified_strings_are_counted_and_said():
    of = draw(Shape(2, 8, 2, 8), margin=1.0).take([0])
    found = wordsens.profile(of, 8)
    assert found.unclassified == (plain_logits(of, tables.strings(8)).abs() < 1).sum() > 0
    assert found.strings + found.unclassified == 256
    assert f"unclassified={found.unclassified}" in repr(found)


def test_profiles_summarise_their_counts():
    found = wordsens.profile("majority", 5)
    assert repr(found) == "Profile(majority, N=5, exact, average=1.875, minimum=0, maximum=3)"
    assert found.counts.tolist() == [12, 0, 0, 20, 0, 0]
    frame = found.to_dataframe()
    assert frame["share"].sum() == pytest.approx(1)
    assert (frame["low"] == frame["share"]).all()
    long = wordsens.profile("sparse-majority-7", 100)
    assert sum(int(count) for count in long.counts) == 2**100
    assert long.average == pytest.approx(wordsens.profile("majority", 7).average)
    assert len(found.plot().patches) == 2


def test_sampled_profiles_hold_the_truth():
    """Six intervals at confidence 1 − 1e-8 each: a false alarm has probability 6e-8."""
    found = wordsens.profile("majority", 11, strings=2000, seed=1)
    low, high = found.intervals(1 - 1e-8)
    truth = wordsens.profile("majority", 11).shares
    assert ((low <= truth) & (truth <= high)).all()
    assert found.counts.sum() == 2000
    assert found.exact is False


def test_the_random_function_is_fair_and_fixed():
    """At N = 16 labels are binomial; five standard deviations are passed at random by 6e-7."""
    table = language("random", 16, Stream(1, "r")).accepts(tables.strings(16))
    assert abs(int(table.sum()) - 2**15) < 5 * 2**7
    again = language("random", 16, Stream(1, "r")).accepts(tables.strings(16))
    other = language("random", 16, Stream(2, "r")).accepts(tables.strings(16))
    assert torch.equal(table, again)
    assert abs(int((table ^ other).sum()) - 2**15) < 5 * 2**7
    counts = tables.table_profile(table[None].to(torch.int8))[0, :-1]
    share = counts.double() / 2**16
    want = torch.tensor(random_function_counts(16), dtype=torch.float64) / 2**16
    assert sum(random_function_counts(16)) == 2**16
    torch.testing.assert_close(share, want, rtol=0, atol=0.02)
    long = language("random", 70, Stream(1, "r"))
    x = sampling.sample_strings(Stream(1, "x"), 4000, 70)
    last = x.clone()
    last[:, -1] ^= 1
    assert abs(int((long.accepts(x) ^ long.accepts(last)).sum()) - 2000) < 5 * 32


def test_exact_intervals_are_clopper_and_pearson():
    low, high = exact_interval(np.array([0, 3, 10]), 10, 0.9)
    assert low[0] == 0
    assert high[2] == 1
    assert binom.sf(2, 10, low[1]) == pytest.approx(0.05)
    assert binom.cdf(3, 10, high[1]) == pytest.approx(0.05)


def test_the_census_knows_languages_and_their_negations():
    N = 5
    names = ["parity", "majority", "first", "dictator-3", "sparse-parity-2", "random"]
    truth = [language(name, N).accepts(tables.strings(N)) for name in names]
    truth += [~table for table in truth] + [torch.ones(2**N, dtype=torch.bool)]
    table = torch.stack(truth).to(torch.int8)
    kinds = ["parity", "majority", "first", "dictator", "sparse-parity", "other"]
    found = named(table, tables.table_profile(table)[:, :-1])
    assert found.tolist() == [*kinds, *kinds, "constant"]


def test_walsh_gives_the_average_sensitivity():
    """Σ_S |S| f̂(S)² is the average sensitivity of signs over 1 (O'Donnell, 2014)."""
    of = draw(Shape(2, 8, 2, 8))
    table = tables.truth_table(of, 7)
    spectrum = (walsh(1.0 - 2.0 * table.double()) / 2**7) ** 2
    sizes = tables.strings(7).sum(1)
    found = census(of, 7)
    np.testing.assert_allclose((spectrum * sizes).sum(1), found["average"], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: wordsens.profile("parties", 5), "parity, majority, first"),
        (lambda: wordsens.profile("sparse-parity-6", 5), "at least 6 bits"),
        (lambda: wordsens.profile("dictator-0", 5), "reads no bit"),
        (lambda: wordsens.profile("parity"), "how many bits"),
        (lambda: wordsens.profile("parity", 0), "N = 0"),
        (lambda: wordsens.profile("random", 21), "at most 20"),
        (lambda: wordsens.profile(lambda bits: bits, 3), "want"),
        (lambda: wordsens.profile(lambda bits: 2 * bits[:, 0], 3), "other than 0 and 1"),
        (lambda: wordsens.profile([0, 1, 1]), "2\\^N values"),
        (lambda: wordsens.profile([0, 1, 1, 0], 3), "has 4 values"),
        (lambda: wordsens.profile(draw(Shape(1, 4)), 3), "take one"),
        (lambda: wordsens.profile(object(), 3), "truth table"),
    ],
)
def test_mistakes_are_one_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_profiles_of_nothing():
    empty = Profile.of("recogniser", [0, 0], unclassified=2)
    assert np.isnan(empty.average)
    assert empty.maximum is None
