"""Sensitivity profiles and training of transformer recognisers, against a plain batched pass.

    python -m benchmarks.boolean [flips] [exact] [training] [--threads T]

The baseline of ``flips`` makes every flipped string and runs all of them through the definitions
(7) to (14), every row of every layer, in the batches that are fastest for it.  That of ``training``
trains one model after the other with that pass, autograd and ``torch.optim.Adam``.  Both ways run
in this process in turn; seconds are of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from benchmarks.robustness import peak_mb
from wordsens.boolean.flips import flip_logits, neighbours
from wordsens.boolean.languages import language
from wordsens.boolean.recogniser import Recogniser, plain_logits
from wordsens.boolean.sampling import sample_strings
from wordsens.boolean.shape import Shape
from wordsens.boolean.tables import table_profile, truth_table
from wordsens.boolean.training import Examples, Settings, train
from wordsens.randomness import Stream

ROUNDS = 7
WIDTH, HEADS, LENGTH = 64, 4, 100
PARTS = (25, 101, 404)  # strings at once in the plain pass; the fastest counts
MODELS, EXAMPLES, EPOCHS = 10, 1024, 2


def recogniser(depth: int, feedforward: int, models: int = 1, width: int = WIDTH) -> Recogniser:
    """Random models of one shape."""
    streams = [Stream(0, "benchmark", model=model) for model in range(models)]
    return Recogniser.draw(Shape(depth, width, HEADS, feedforward), "xavier-normal", streams)


def in_turn(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median of each way's seconds of the processor, run in turn after one of each."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run()
    for _ in range(ROUNDS):
        for name, run in ways.items():
            began = time.process_time()
            run()
            seconds[name].append(time.process_time() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


@torch.no_grad()
def flips() -> None:
    bits = sample_strings(Stream(0, "strings"), 1, LENGTH)
    every = torch.cat([bits, neighbours(bits)[0]])
    for depth in (2, 4):
        for feedforward in (2 * WIDTH, 4 * WIDTH):
            of = recogniser(depth, feedforward)

            def plain(size: int, of: Recogniser = of) -> torch.Tensor:
                return torch.cat([plain_logits(of, part) for part in every.split(size)], 1)

            ways: dict[str, Callable[[], object]] = {f"{s}": partial(plain, s) for s in PARTS}
            took = in_turn(ways | {"flips": partial(flip_logits, of, bits)})
            mine, away = took.pop("flips"), flip_logits(of, bits)[1][0, 0] - plain(101)[0, 1:]
            best = min(took.values())
            print(
                f"flips L={depth} D={WIDTH} feed-forward {feedforward} N={LENGTH}: plain "
                f"{best * 1e3:.1f} ms, ours {mine * 1e3:.1f} ms, {best / mine:.1f} times; "
                f"logits differ by {away.abs().max():.1e}"
            )


def exact() -> None:
    for N in (16, 20):
        of = recogniser(4, 2 * WIDTH)
        began, processor = time.perf_counter(), time.process_time()
        counts = table_profile(truth_table(of, N))[0]
        print(
            f"exact L=4 D={WIDTH} N={N}: {time.perf_counter() - began:.1f} s, "
            f"{time.process_time() - processor:.1f} s of the processor, {peak_mb():.0f} MB in all, "
            f"{int(counts.sum())} strings"
        )


def training() -> None:
    N = 20
    drawn = [sample_strings(Stream(0, "examples", model=m), EXAMPLES, N) for m in range(MODELS)]
    bits = torch.stack(drawn)
    examples = Examples(bits, language("majority", N).accepts(bits))
    judged = Examples(bits[:, :8], examples.labels[:, :8])
    rates = torch.full((MODELS,), 1e-3)
    streams = [Stream(0, "order", model=m) for m in range(MODELS)]
    for width, batch in ((32, 256), (32, 64), (16, 256), (16, 64)):
        of = recogniser(2, 2 * width, MODELS, width)
        settings = Settings(batch=batch, epochs=EPOCHS)

        def together(of: Recogniser = of, settings: Settings = settings) -> None:
            train(of, examples, judged, rates, streams, settings)

        def one_by_one(of: Recogniser = of, settings: Settings = settings) -> None:
            for model in range(MODELS):
                plainly(of.take([model]), examples.take(torch.tensor([model])), settings)

        took = in_turn({"together": together, "one by one": one_by_one})
        print(
            f"training {MODELS} models L=2 D={width} N={N} batch {batch}: one after the other "
            f"{took['one by one']:.2f} s, together {took['together']:.2f} s, "
            f"{took['one by one'] / took['together']:.1f} times"
        )


def plainly(of: Recogniser, examples: Examples, settings: Settings) -> None:
    """One model by autograd through the plain pass and Adam of Torch."""
    trained = {name: value.clone() for name, value in of.weights.items()}
    learnt = [value.requires_grad_() for name, value in trained.items() if name != "symbols"]
    model, adam = Recogniser(of.shape, trained), torch.optim.Adam(learnt, lr=1e-3)
    for _ in range(settings.epochs):
        for rows in torch.randperm(examples.bits.shape[1]).split(settings.batch):
            adam.zero_grad()
            logits = plain_logits(model, examples.bits[0, rows])
            wanted = examples.labels[:, rows].to(logits)
            functional.binary_cross_entropy_with_logits(logits, wanted).backward()
            adam.step()


WAYS = {"flips": flips, "exact": exact, "training": training}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=[[], *WAYS], default=[])
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    for name in asked.what or WAYS:
        WAYS[name]()
