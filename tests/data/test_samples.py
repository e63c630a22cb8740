"""Samples fulfil Assumption 3.1 and depend on nothing but their names."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from wordsens.data.embeddings import SCHEMA_VERSION
from wordsens.data.samples import draw_samples, draw_tokens, draw_training_set
from wordsens.errors import UserError
from wordsens.randomness import Stream

SAMPLES, TOKENS, DIM = 30, 8, 12


def checksum(file: h5py.File) -> None:
    """Note the checksums of the embeddings as they stand."""
    sums = np.array([zlib.crc32(sample) for sample in file["embeddings"][...]], dtype=np.uint32)
    file.require_dataset("checksums", sums.shape, sums.dtype)[...] = sums


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An embeddings file; sample i has 8 tokens, or 3 where i is a multiple of 5."""
    path = tmp_path / "store.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["embeddings"] = rng.normal(size=(SAMPLES, TOKENS, DIM)).astype(np.float32)
        file["labels"] = np.where(np.arange(SAMPLES) % 2, 1, -1).astype(np.int8)
        file["token_ids"] = np.arange(SAMPLES * TOKENS, dtype=np.int32).reshape(SAMPLES, TOKENS)
        file["lengths"] = np.where(np.arange(SAMPLES) % 5, TOKENS, 3).astype(np.int32)
        checksum(file)
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
    return path


def stream(seed: int = 0) -> Stream:
    return Stream(seed, "test")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("synthetic", [True, False])
def test_rows_have_norm_root_d(store: Path, dtype: torch.dtype, synthetic: bool) -> None:
    samples = draw_samples(None if synthetic else store, 5, 7, 4, stream(), dtype=dtype)
    assert samples.X.shape == (4, 5, 7)
    assert samples.X.dtype == dtype
    norms = samples.X.double().norm(dim=-1)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(norms, torch.full_like(norms, math.sqrt(7)), rtol=tolerance, atol=0)
    assert set(samples.labels.tolist()) <= {1, -1}


def test_a_sample_is_the_start_of_an_embedding(store: Path) -> None:
    samples = draw_samples(store, 5, 7, 6, stream(), dtype=torch.float64)
    with h5py.File(store) as file:
        for X, label, index in zip(samples.X, samples.labels, samples.indices, strict=True):
            row = file["embeddings"][index, :5, :7].astype(float)
            expected = row / np.linalg.norm(row, axis=1, keepdims=True) * math.sqrt(7)
            np.testing.assert_allclose(X, expected, rtol=1e-13)
            assert label == file["labels"][index]


@pytest.mark.parametrize("synthetic", [True, False])
def test_more_trials_change_no_earlier_one(store: Path, synthetic: bool) -> None:
    source = None if synthetic else store
    few, many = (draw_samples(source, 3, 4, trials, stream()) for trials in (2, 9))
    torch.testing.assert_close(many.X[:2], few.X, rtol=0, atol=0)
    torch.testing.assert_close(many.labels[:2], few.labels, rtol=0, atol=0)
    assert not torch.equal(draw_samples(source, 3, 4, 2, stream(1)).X, few.X)


def test_short_samples_are_not_used_for_long_contexts(store: Path) -> None:
    long = draw_samples(store, 4, 2, 200, stream()).indices
    assert set(long) == {index for index in range(SAMPLES) if index % 5}
    short = draw_samples(store, 3, 2, 400, stream()).indices
    assert set(short) == set(range(SAMPLES))


def test_padding_counts_where_the_dataset_says_so(store: Path) -> None:
    with h5py.File(store, "r+") as file:
        file.attrs["use_padding"] = True
    assert {0, 5} <= set(draw_samples(store, 8, 2, 400, stream()).indices)


def test_training_set_is_distinct_and_grows_at_the_end(store: Path) -> None:
    small, large = (draw_training_set(store, 4, 2, N, stream()) for N in (5, 23))
    assert small.X.shape[0] == 6
    assert len(set(large.indices)) == 24
    np.testing.assert_array_equal(large.indices[:6], small.indices)
    torch.testing.assert_close(large.X[:6], small.X, rtol=0, atol=0)
    with pytest.raises(UserError, match=r"glm\.N: is 24, .* has 24 samples .* at most 23"):
        draw_training_set(store, 4, 2, 24, stream(), key="glm")


def test_synthetic_labels_are_linear_and_of_both_signs() -> None:
    samples = draw_training_set(None, 4, 6, 200, stream(), dtype=torch.float64)
    u = stream().child("direction").normal(4, 6, dtype=torch.float64)
    assert torch.equal(samples.labels, torch.sign((samples.X * u).sum((1, 2))).long())
    # 201 fair coins leave this interval with probability below 1e-6.
    assert 65 < (samples.labels == 1).sum() < 136
    assert set(samples.indices) == {-1}


def test_too_long_and_too_wide(store: Path) -> None:
    with pytest.raises(
        UserError, match=r"sweeps\.rf\.n: is 9, .*\(sample 1\) has 8 tokens; allowed"
    ):
        draw_samples(store, 9, 2, 1, stream(), key="sweeps.rf")
    with pytest.raises(UserError, match=r"sweeps\.rf\.d: is 13, .* dimension 12; allowed: at most"):
        draw_samples(store, 2, 13, 1, stream(), key="sweeps.rf")


def test_rows_that_cannot_be_scaled_are_named(store: Path) -> None:
    with h5py.File(store, "r+") as file:
        file["embeddings"][:, 2, :4] = 0
        checksum(file)
    with pytest.raises(UserError, match=r"sample \d+, token 2: the first 4 .* sweeps\.rf\.d"):
        draw_samples(store, 3, 4, 1, stream(), key="sweeps.rf")
    draw_samples(store, 3, 5, 1, stream())
    draw_samples(store, 2, 4, 1, stream())
    with h5py.File(store, "r+") as file:
        file["embeddings"][:, 1, 0] = np.nan
        checksum(file)
    with pytest.raises(UserError, match=r"sample \d+, token 1: .* not finite"):
        draw_samples(store, 2, 4, 1, stream())


def test_tokens_are_the_start_of_a_sample_and_never_padding(store: Path) -> None:
    ids, indices = draw_tokens(store, 6, 24, stream(), special=2)
    assert ids.shape == (24, 4)
    assert (ids == indices[:, None] * TOKENS + np.arange(4)).all()
    assert (indices % 5 != 0).all(), "samples of 3 tokens and 2 special ones are no 6"
    assert (draw_tokens(store, 5, 30, stream(), special=2)[1] % 5 == 0).any()
    with h5py.File(store, "r+") as file:
        file.attrs["policy"], file.attrs["use_padding"] = "documents", True
    inner, found = draw_tokens(store, 8, 5, stream(), special=2)
    assert (inner == found[:, None] * TOKENS + np.arange(1, 7)).all(), "special tokens come off"
    with pytest.raises(UserError, match=r"layers\.x\.n: is 9, .* has 8 tokens"):
        draw_tokens(store, 9, 1, stream(), special=2, key="layers.x")


def test_trials_are_of_different_texts_while_there_are_any(store: Path) -> None:
    for seed in range(5):
        indices = draw_samples(store, 4, 2, 24 * 3 + 1, stream(seed)).indices
        for first in (0, 24, 48):
            assert len(set(indices[first : first + 24])) == 24, "each as often as any other"
        few = draw_samples(store, 4, 2, 20, stream(seed)).indices
        np.testing.assert_array_equal(indices[:20], few)
        assert len(set(draw_tokens(store, 4, 24, stream(seed))[1])) == 24
    with pytest.raises(UserError, match=r"layers\.x\.trials: is 25, but .* has 24 different texts"):
        draw_tokens(store, 4, 25, stream(), key="layers.x")


def test_texts_that_begin_alike_are_one_text(store: Path) -> None:
    with h5py.File(store, "r+") as file:
        file["token_ids"][10:, :3] = [7, 8, 9]
    indices = draw_samples(store, 3, 2, 11, stream()).indices
    assert sum(index >= 10 for index in indices) == 1
    assert len(set(indices)) == 11
    with pytest.raises(UserError, match="has 11 different texts of n = 3 tokens; allowed: at most"):
        draw_tokens(store, 3, 12, stream())
    assert len(draw_tokens(store, 4, 24, stream())[0]) == 24


def test_a_damaged_sample_is_named(store: Path) -> None:
    with h5py.File(store, "r+") as file:
        file["embeddings"][:, 1, 0] += 1e-3
    with pytest.raises(UserError, match=r"store\.h5: sample \d+ is damaged; delete it and run"):
        draw_samples(store, 2, 4, 1, stream())
