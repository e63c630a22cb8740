"""Training many recognisers at once: the same as one by one, and resumable to the same bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from wordsens.boolean import training
from wordsens.boolean.checkpoint import read_checkpoint, write_checkpoint
from wordsens.boolean.languages import language
from wordsens.boolean.optimiser import Schedule, adam_step
from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.sampling import sample_strings
from wordsens.boolean.shape import Shape
from wordsens.boolean.training import Examples, Settings, judge, train
from wordsens.randomness import Stream

N, MODELS = 7, 3
STREAMS = [Stream(1, "training", m=m) for m in range(MODELS)]
SETTINGS = Settings(batch=50, epochs=6, halve_after=1, stop_after=2)


def start(dtype=torch.float32):
    return Recogniser.draw(Shape(2, 16, 2, 16), "xavier-normal", STREAMS, dtype=dtype)


def examples(what, count, name="first"):
    bits = torch.stack([sample_strings(s.child(what), count, N) for s in STREAMS])
    return Examples(bits, language(name, N).accepts(bits))


RATES = torch.tensor([3e-3, 1e-2, 1e-1])  # the last is too large, and stops early


def run(settings=SETTINGS, dtype=torch.float32, models=None, **more):
    index = torch.arange(MODELS) if models is None else torch.tensor(models)
    return train(
        start(dtype).take(index),
        examples("train", 240).take(index),
        examples("validation", 100).take(index),
        RATES[index],
        [STREAMS[m] for m in index.tolist()],
        settings,
        **more,
    )


def same(a, b):
    assert all(torch.equal(a.recogniser.weights[k], v) for k, v in b.recogniser.weights.items())
    for name in ("loss", "epochs", "rate"):
        assert torch.equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("stopped_after", [1, 3, 4])
def test_a_killed_training_goes_on_to_the_same_bits(tmp_path, monkeypatch, stopped_after):
    whole = run()
    path = tmp_path / "checkpoint.safetensors"
    epoch, passed = training._epoch, []

    def killed(*arguments):
        if len(passed) == stopped_after:
            raise KeyboardInterrupt
        passed.append(epoch(*arguments))

    monkeypatch.setattr(training, "_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, every=2)
    monkeypatch.setattr(training, "_epoch", lambda *a: passed.append(epoch(*a)))
    passed.clear()
    same(run(checkpoint=path, every=2), whole)
    assert len(passed) <= SETTINGS.epochs - stopped_after + stopped_after % 2


def test_models_train_together_as_alone():
    together = run(dtype=torch.float64)
    assert len(set(together.epochs.tolist())) > 1  # they do not stop at once
    for m in range(MODELS):
        alone = run(dtype=torch.float64, models=[m])
        assert alone.epochs[0] == together.epochs[m]
        torch.testing.assert_close(alone.loss[0], together.loss[m], rtol=1e-6, atol=1e-9)


def test_parts_of_a_batch_add_up(monkeypatch):
    whole = run(replace(SETTINGS, epochs=2), dtype=torch.float64)
    monkeypatch.setattr(training, "CACHE_BYTES", 1)
    parts = run(replace(SETTINGS, epochs=2), dtype=torch.float64)
    torch.testing.assert_close(parts.loss, whole.loss, rtol=1e-6, atol=1e-9)


def test_first_is_learnt_and_labels_matter():
    settings = Settings(batch=40, epochs=30, enough=1e-2)
    found = run(settings, models=[0, 1])
    loss, accuracy = judge(found.recogniser, examples("test", 200).take(torch.tensor([0, 1])))
    assert (accuracy == 1).all()
    assert (loss < 0.1).all()
    assert (found.epochs < 30).all()
    other = judge(found.recogniser, examples("test", 200, "parity").take(torch.tensor([0, 1])))[1]
    assert (other < 0.7).all()


def test_the_kept_weights_have_the_least_validation_loss():
    found = run()
    loss = judge(found.recogniser, examples("validation", 100))[0]
    torch.testing.assert_close(loss, found.loss, rtol=1e-6, atol=1e-9)


def test_adam_is_torchs():
    value = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, theirs = {"w": value.clone()}, value.clone().requires_grad_()
    first, second = {"w": torch.zeros_like(value)}, {"w": torch.zeros_like(value)}
    optimiser = torch.optim.Adam([theirs], lr=0.01)
    for step in range(1, 6):
        ours["w"].grad = torch.cos(ours["w"] * step)
        theirs.grad = torch.cos(theirs.detach() * step)
        adam_step(ours, first, second, torch.tensor([0.01, 0.01], dtype=torch.float64), step)
        optimiser.step()
    torch.testing.assert_close(ours["w"], theirs.detach(), rtol=1e-9, atol=1e-12)


def test_the_schedule_halves_after_five_flat_epochs_and_stops_after_ten():
    schedule, live = Schedule.begin(torch.tensor([1.0])), torch.tensor([0])
    history = []
    for loss in [1.0, *[2.0] * 5, 0.5, *[float("nan")] * 10]:
        better, stop = schedule.after(live, torch.tensor([loss]).double(), 5, 10)
        history.append((bool(better), float(schedule.rates), bool(stop)))
    assert history[0] == (True, 1.0, False)
    assert history[5] == (False, 0.5, False)
    assert history[6] == (True, 0.5, False)
    assert [rate for _, rate, _ in history[11:]] == [0.25] * 5 + [0.125]
    assert [stop for *_, stop in history].index(True) == 16


def test_checkpoints_of_other_trainings_and_damaged_ones_are_not_taken_up(tmp_path):
    path = tmp_path / "c.safetensors"
    assert read_checkpoint(path, "a") is None
    write_checkpoint(path, {"x": torch.ones(3)}, "a")
    assert torch.equal(read_checkpoint(path, "a")["x"], torch.ones(3))
    assert read_checkpoint(path, "b") is None
    path.write_bytes(path.read_bytes()[:-4])
    assert read_checkpoint(path, "a") is None
    same(run(checkpoint=path), run())
