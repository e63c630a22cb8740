"""Classifiers with their word sensitivity in the loss: models, training, decisive words."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from tests.studies.cells import complete
from tests.test_config import mistakes
from wordsens.data.antonyms import PAIRS, pairs_of
from wordsens.data.embeddings import SCHEMA_VERSION
from wordsens.errors import UserError
from wordsens.randomness import Stream
from wordsens.results import write_arrays, write_cell
from wordsens.studies.training.cell import _decided, run
from wordsens.studies.training.figures import training
from wordsens.studies.training.learning import measured, sensitivity, train
from wordsens.studies.training.model import Classifiers
from wordsens.studies.training.table import tables

SIZES = {"n": 5, "d": 8, "width": 8, "depth": 2, "heads": 2, "mlp": 2}
PIECES = [*(f"w{i}" for i in range(30)), "good", "bad", "love", "hate", "best"]


def streams(count: int = 2, purpose: str = "x") -> list[Stream]:
    return [Stream(0, purpose, trial=t) for t in range(count)]


def vectors(seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(len(PIECES), 8, generator=torch.Generator().manual_seed(seed))
    return drawn * 8**0.5 / drawn.norm(dim=1, keepdim=True)


def texts(count: int, models: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts whose label is whether their words lie below the middle."""
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(30, (models, count, 5), generator=g)
    return ids, torch.where((ids < 15).sum(2) > 2, 1.0, -1.0)


def test_pairs_are_words_of_their_own() -> None:
    words = [word for pair in PAIRS for word in pair]
    praise = [good for good, _ in PAIRS]
    assert len(set(praise)) == len(praise)
    assert not set(praise) & {bad for _, bad in PAIRS}
    assert all(word.isalpha() and word.islower() for word in words)
    assert pairs_of(PIECES) == {30: 31, 32: 33}, "best has no opposite among these pieces"


def test_models_of_a_batch_are_single_models() -> None:
    models = Classifiers.draw(SIZES, streams())
    X = vectors()[texts(4)[0]]
    phi = models.features(X)
    assert phi.shape == (2, 4, 5, 8)
    torch.testing.assert_close(phi.norm(dim=(2, 3)), torch.full((2, 4), 40**0.5), rtol=1e-3, atol=0)
    for t in range(2):
        one = models.only(t)
        torch.testing.assert_close(one.features(X[t : t + 1]), phi[t : t + 1])
        torch.testing.assert_close(one.verdict(phi[t : t + 1]), models.verdict(phi)[t : t + 1])


def test_the_estimate_lies_between_noise_and_what_a_search_finds() -> None:
    models = Classifiers.draw(SIZES | {"n": 1}, streams())  # one word: one place to change
    ids = texts(12)[0][:, :, :1]
    X = vectors()[ids]
    phi = models.features(X)
    noise = [np.random.default_rng(t) for t in range(2)]
    S = sensitivity(models, X, phi, noise, 4).detach()
    moved = torch.randn(X.shape, generator=torch.Generator().manual_seed(3))
    moved = X + moved * 8**0.5 / moved.norm(dim=-1, keepdim=True)
    plain = (models.features(moved) - phi).norm(dim=(2, 3)) / phi.norm(dim=(2, 3))
    found = measured(models, ids, vectors(), streams())
    assert (found * 1.001 >= S).float().mean() > 0.9
    assert S.mean() > plain.mean()


def test_the_gradient_of_the_estimate_is_that_of_the_weights() -> None:
    models = Classifiers.draw(SIZES, streams())
    models.weights = {name: W.double().requires_grad_() for name, W in models.weights.items()}
    X = vectors()[texts(3)[0]].double()

    def estimate(ascent: int = 1) -> torch.Tensor:
        noise = [np.random.default_rng(t) for t in range(2)]
        return sensitivity(models, X, models.features(X), noise, ascent).sum()

    # without an ascent Δ does not depend on the weights, and a difference sees the same gradient
    estimate(0).backward()
    W = models.weights["WV"]
    way = torch.randn(W.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slope, values = float((W.grad * way).sum()), []
    for sign in (1, -1):
        with torch.no_grad():
            models.weights["WV"] = W + sign * 1e-6 * way
            values.append(float(estimate(0)))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def test_a_penalty_lowers_sensitivity_and_a_reward_raises_it() -> None:
    found = {}
    for weight in (-0.3, 0.0, 0.3):
        models = Classifiers.draw(SIZES, streams())
        ids, y = texts(200)
        settings = {"weight": weight, "epochs": 6, "batch": 20, "rate": 0.01, "ascent": 2}
        train(models, ids, y, vectors(), streams(), settings)
        right = models.verdict(models.features(vectors()[ids])) * y > 0
        found[weight] = measured(models, ids[:, :8], vectors(), streams()).mean()
        if weight == 0:
            assert right.float().mean() > 0.75
    assert found[0.3] < found[0.0] < found[-0.3] <= 2.01


def test_decisive_words_are_those_that_say_the_label() -> None:
    class Reader:
        """Knows good and love, bad and hate, and nothing else."""

        def features(self, X: torch.Tensor) -> torch.Tensor:
            return X

        def verdict(self, X: torch.Tensor) -> torch.Tensor:
            return X.sum((-1, -2))

    says = torch.zeros(len(PIECES), 1)
    says[[30, 32]], says[[31, 33]] = 1.0, -1.0
    ids = torch.tensor([[1, 30, 2], [31, 3, 4], [30, 32, 5], [30, 31, 6], [30, 7, 8], [9, 9, 9]])
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    row = _decided(Reader(), ids, y, says, pairs_of(PIECES))  # type: ignore[arg-type]
    # two words, contradicting words, a word against the label and none decide nothing
    assert row == {"decided": 2, "accuracy_decided": 1, "accuracy_changed": 1, "flipped": 1}


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, str]:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 30, (160, 6)).astype(np.int32)
    labels = np.where(rng.random(160) < 0.5, 1, -1).astype(np.int8)
    ids[np.arange(160), rng.integers(0, 5, 160)] = np.where(labels > 0, 30, 31)
    states = np.zeros((160, 6, 8), dtype=np.float32)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["embeddings"] = states
        file["checksums"] = np.array([zlib.crc32(x) for x in states], dtype=np.uint32)
        file["labels"], file["token_ids"] = labels, ids
        file["lengths"] = np.full(160, 6, dtype=np.int32)
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
    words = {"words": vectors().numpy(), "places": np.zeros((0, 8), np.float32)}
    empty = {name: np.empty(0, dtype=np.float32) for name in ("scale", "shift", "eps")}
    listed = {
        "pieces": np.array(PIECES, dtype=object),
        "special": np.zeros(len(PIECES), dtype=bool),
    }
    write_arrays(tmp_path / "words.h5", {**listed, **words, **empty}, {})
    return {"data": str(tmp_path / "data.h5"), "vocabulary": str(tmp_path / "words.h5")}


def made(**changes: Any) -> dict[str, Any]:
    small = {**SIZES, "examples": 100, "epochs": 3, "batch": 20, "measured": 2, "trials": 2}
    cell = {"seed": 0, "dataset": "mine", "weight": 0.0, "rate": 0.01, **small, **changes}
    return complete("training", **cell)


def test_a_cell_its_table_and_figure(inputs: dict[str, str], tmp_path: Path) -> None:
    paths = []
    for weight in (0.0, 1.0):
        arrays, attributes = run(made(weight=weight), inputs, "cpu")
        assert arrays["sup"].shape == arrays["sup_before"].shape == (2, 2)
        assert (arrays["decided"] == 60).all(), "every judged text has one word that decides"
        np.testing.assert_array_equal(arrays["accuracy_decided"], arrays["accuracy"])
        paths.append(str(tmp_path / f"{weight}.h5"))
        write_cell(paths[-1], arrays, attributes)
    table = tables(paths)["table"]
    assert len(table) == 2 * 2
    before = table.groupby("weight")["sup_before"].mean()
    assert before[0.0] == before[1.0], "weights and texts before training are the same"
    assert table.groupby("weight")["sup"].mean().is_monotonic_decreasing
    figure, numbers = training.figure({"t": table})
    assert list(numbers["weight"]) == [0, 1]
    assert "60 of those judged are decided by one word" in training.contents(table)
    plt.close(figure)


def test_mistakes_are_one_line(inputs: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"examples: is 155, .* has 160 samples.* at most 148"):
        run(made(examples=155), inputs, "cpu")
    for key, value, says in (
        ("heads", 5, "heads: is 5, which must divide 64"),
        ("n", 30, "at most 24"),
        ("dataset", "synthetic", "which has no words"),
        ("weight", ["free"], "weight[0]: is 'free'"),
    ):
        lines = mistakes({f"trainings.control_training.{key}": value})
        assert any(says in line for line in lines), lines
