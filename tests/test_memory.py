"""Batches fit the memory at hand, and what cannot fit is refused before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import wordsens
from wordsens import memory
from wordsens.data.encoders import Encoder
from wordsens.errors import UserError


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(memory, "available", lambda device="cpu": size)


def test_plenty_of_memory_leaves_batches_alone(monkeypatch) -> None:
    for size in (1 << 34, 1 << 36):
        free(monkeypatch, size)
        assert memory.batch_bytes(1 << 30) == 1 << 30
    free(monkeypatch, 1 << 30)
    assert memory.batch_bytes(1 << 30) == 1 << 28
    free(monkeypatch, 0)
    assert memory.batch_bytes(1 << 30) == memory.LEAST, "something still runs"


def test_a_control_groups_limit_counts(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "max").write_text("5000\n")
    (tmp_path / "current").write_text("3000\n")
    groups = ((str(tmp_path / "max"), str(tmp_path / "current")),)
    monkeypatch.setattr(memory, "GROUPS", groups)
    assert memory.available() == 2000
    (tmp_path / "max").write_text("max\n")
    assert memory.available() > 1 << 20


def test_a_model_that_does_not_fit_is_not_loaded(monkeypatch, tiny_bert: Path) -> None:
    free(monkeypatch, 10_000)
    with pytest.raises(
        UserError, match=r"tiny bert, in float32, needs about 1 MB .* 1 MB are free"
    ):
        Encoder.open(tiny_bert).blocks()


def test_a_text_that_does_not_fit_is_not_searched(monkeypatch, tiny_bert: Path) -> None:
    known = Encoder.open(tiny_bert)
    known.blocks()
    free(monkeypatch, 10_000)
    with pytest.raises(
        UserError, match=r"a search on 12 tokens needs about .* take a shorter text"
    ):
        wordsens.layer_sensitivity(known, "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10", starts=1, steps=1)


def test_small_batches_find_what_large_ones_do(monkeypatch, tiny_bert: Path) -> None:
    found = [wordsens.layer_sensitivity(tiny_bert, "w1 w2 w3", starts=2, steps=3, seed=1)]
    monkeypatch.setattr("wordsens.encoders.view.batch_bytes", lambda *_: 1)
    found.append(wordsens.layer_sensitivity(tiny_bert, "w1 w2 w3", starts=2, steps=3, seed=1))
    assert found[0].sup.tolist() == pytest.approx(found[1].sup.tolist(), rel=1e-4)
