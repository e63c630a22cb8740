"""The baseline computes what the paper defines, independently of the library's own code."""

from __future__ import annotations

import pytest
import torch

import wordsens
from benchmarks import published, published_training
from benchmarks.measure import attention_weights, gaussian_sample, generator
from wordsens.search import published_ascent

N, D_TOKEN = 5, 8


def weights(name: str) -> dict[str, torch.Tensor]:
    if name in ("raf", "relu_raf"):
        return {"W": attention_weights(D_TOKEN, 3)}
    size = N * D_TOKEN
    beta = 1.0 if name == "rf" else 2.0
    draws = generator(3, "V")
    return {
        f"V{layer + 1}": torch.randn(size, size, dtype=torch.float64, generator=draws)
        * (beta / size) ** 0.5
        for layer in range(1 if name == "rf" else 3)
    }


def plain(name: str, given: dict[str, torch.Tensor]) -> published.Map:
    if name == "raf":
        return published.softmax_attention(given["W"])
    if name == "relu_raf":
        return published.relu_attention(given["W"])
    return published.random_features(list(given.values()))


@pytest.mark.parametrize("name", ["rf", "drf", "raf", "relu_raf"])
def test_two_implementations_of_the_published_ascent_agree(name: str) -> None:
    given, X = weights(name), gaussian_sample(N, D_TOKEN, 3)
    phi, ours = plain(name, given), wordsens.build_map(name, weights=given)
    torch.testing.assert_close(phi(X), ours.features(X), rtol=1e-10, atol=1e-12)

    rate, _ = published.schedule(name, N)
    noise = torch.randn(D_TOKEN, dtype=torch.float64, generator=generator(3, "start"))
    value, delta = published.ascend(phi, X, noise, rate=rate, steps=12)
    view = ours.view(X[None], torch.tensor([[0]]))
    size = phi(X).numel()
    found = published_ascent(
        view, noise.reshape(1, 1, 1, 1, -1), rate=rate, steps=12, features=size
    )
    assert float(found.value.sqrt() / view.norm) == pytest.approx(value, rel=1e-8)
    torch.testing.assert_close(found.delta.flatten(), delta, rtol=1e-6, atol=1e-8)


def test_ascent_stays_in_the_ball_and_climbs() -> None:
    X = gaussian_sample(N, D_TOKEN, 4)
    phi = published.softmax_attention(attention_weights(D_TOKEN, 4))
    noise = torch.randn(D_TOKEN, dtype=torch.float64, generator=generator(4, "start"))
    start, _ = published.ascend(phi, X, noise, rate=10.0, steps=0)
    value, delta = published.ascend(phi, X, noise, rate=10.0, steps=200)
    assert value > start
    assert float(delta.norm()) <= D_TOKEN**0.5 * (1 + 1e-12)


def test_a_row_without_positive_score_gives_zero() -> None:
    X = gaussian_sample(3, D_TOKEN, 5)
    out = published.relu_attention(-torch.eye(D_TOKEN, dtype=torch.float64))(X[:1])
    assert torch.equal(out, torch.zeros_like(out))


def test_schedule_is_the_published_one() -> None:
    assert published.schedule("rf", 40) == published.schedule("drf", 40) == (100.0, 300)
    assert published.schedule("raf", 40) == published.schedule("relu_raf", 40) == (10.0, 2000)


def test_sample_and_weights_do_not_share_their_numbers() -> None:
    size = 24
    X = gaussian_sample(size, size, 1).flatten()
    W = attention_weights(size, 1).flatten()
    correlation = torch.corrcoef(torch.stack([X, W]))[0, 1].abs()
    assert correlation < 0.25  # 6 standard deviations of an independent pair: alarm rate 2e-9


@pytest.mark.parametrize("name", ["raf", "relu_raf"])
def test_two_implementations_of_the_published_training_agree(name: str) -> None:
    shape, labels = (7, N, D_TOKEN), torch.tensor([1.0, -1, 1, 1, -1, -1]).double()
    X = torch.randn(shape, dtype=torch.float64, generator=generator(3, "samples"))
    goals = [("features", 0.0), ("alignment", 0.1), ("error_finetuned", 0.0)]
    goals.append(("error_retrained", 1.0))
    given = weights(name)
    rate, steps = published_training.schedule(N)
    model = wordsens.fit(wordsens.build_map(name, weights=given), X[1:], labels)
    mine = [each.loss for each in model.search_all(X[0], -1.0, goals, "published")]
    trained = published_training.train(plain(name, given), X[1:], labels, X[0], -1.0)
    theirs = published_training.descend(trained, goals, rate=rate, steps=steps)
    assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-9)
