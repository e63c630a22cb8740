"""One measurement, in a process of its own so that its peak memory is its own.

    python -m benchmarks.measure '{"who": "ours", "kind": "Setting", "setting": {…}, "seed": 1, …}'

prints one line of JSON.  Time runs from the sample in memory to the value found and includes
drawing the weights; imports and a first tiny run, which loads the libraries, come before.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import wordsens
from benchmarks import published, published_training
from benchmarks.settings import PENALTIES, Fit, Setting, Training, Words

BRIEF = 2.0  # seconds; a shorter run is repeated and its median reported
REPEATS = 5


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator of its own for each purpose: sample and weights must not share their numbers."""
    digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def gaussian_sample(n: int, d: int, seed: int) -> torch.Tensor:
    """n Gaussian tokens, each scaled to length √d (Assumption 3.1)."""
    X = torch.randn(n, d, dtype=torch.float64, generator=generator(seed, "sample"))
    return X * (d**0.5 / torch.linalg.vector_norm(X, dim=1, keepdim=True))


def attention_weights(d: int, seed: int) -> torch.Tensor:
    """W of (3), the same for the baseline and for ours."""
    return torch.randn(d, d, dtype=torch.float64, generator=generator(seed, "W")) / d**0.5


def ours(setting: Setting, X: torch.Tensor, seed: int) -> dict[str, Any]:
    """Our search, once, or once per set of starts."""
    n, d = X.shape
    values, seconds = [], []
    for start_seed in range(setting.seeds):
        begun = time.perf_counter()
        if setting.map in ("raf", "relu_raf"):
            phi = wordsens.build_map(setting.map, weights={"W": attention_weights(d, seed)})
        else:
            depth = {"depth": setting.depth} if setting.map == "drf" else {}
            phi = wordsens.build_map(setting.map, n=n, d=d, seed=seed, **depth)
        found = wordsens.word_sensitivity(phi, X, positions=setting.positions, seed=start_seed)
        seconds.append(time.perf_counter() - begun)
        values.append(float(found.sup))
    return {
        "seconds": statistics.median(seconds),
        "value": max(values),
        "bound": float(found.bound),
        "steps": int(found.steps),
        "spread": (max(values) - min(values)) / max(values) if len(values) > 1 else None,
    }


def baseline(setting: Setting, X: torch.Tensor, seed: int) -> dict[str, Any]:
    """The published procedure at the first position; extrapolated where only some steps run."""
    n, d = X.shape
    rate, steps = published.schedule(setting.map, n)
    timed = steps if setting.baseline == "full" else min(int(setting.baseline or 0), steps)
    begun = time.perf_counter()
    if setting.map == "raf":
        phi = published.softmax_attention(attention_weights(d, seed))
    elif setting.map == "relu_raf":
        phi = published.relu_attention(attention_weights(d, seed))
    else:
        phi = published.draw(setting.map, n, d, setting.depth, generator(seed, "V"))
    noise = torch.randn(d, dtype=torch.float64, generator=generator(seed, "start"))
    drawn = time.perf_counter()
    value, _ = published.ascend(phi, X, noise, rate=rate, steps=timed)
    climbed = time.perf_counter() - drawn
    return {
        "seconds": (drawn - begun) + climbed * steps / timed,
        "value": value if timed == steps else None,
        "steps": steps,
        "steps_timed": timed,
    }


LOSSES = ("features", "alignment", "error_finetuned", "error_retrained")
GOALS = [(loss, penalty) for loss in LOSSES for penalty in PENALTIES]


def labelled_samples(setting: Training | Fit, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """N + 1 Gaussian samples and random labels; the first one is the sample that gets changed."""
    shape = (setting.N + 1, setting.n, setting.d)
    X = torch.randn(shape, dtype=torch.float64, generator=generator(seed, "samples"))
    X *= setting.d**0.5 / torch.linalg.vector_norm(X, dim=-1, keepdim=True)
    heads = torch.rand(len(X), generator=generator(seed, "labels")) < 0.5
    return X, torch.where(heads, -1.0, 1.0).double()


def our_training(setting: Training, seed: int) -> dict[str, Any]:
    """Train on the samples and search all losses of ``GOALS`` at once."""
    X, Y = labelled_samples(setting, seed)
    W = attention_weights(setting.d, seed)
    begun = time.perf_counter()
    model = wordsens.fit(wordsens.build_map(setting.map, weights={"W": W}), X[1:], Y[1:])
    found = model.search_all(X[0], Y[0].item(), GOALS)
    return {
        "seconds": time.perf_counter() - begun,
        "losses": [each.loss for each in found],
        "steps": found[0].steps,
    }


def our_fit(setting: Fit, seed: int) -> dict[str, Any]:
    """Train on the samples, no more; the value is how far the labels are from interpolated."""
    X, Y = labelled_samples(setting, seed)
    W = attention_weights(setting.d, seed)
    begun = time.perf_counter()
    model = wordsens.fit(wordsens.build_map(setting.map, weights={"W": W}), X[1:], Y[1:])
    return {"seconds": time.perf_counter() - begun, "value": model.residual}


def published_trial(setting: Training, seed: int) -> dict[str, Any]:
    """The same by the published procedure, a loss at a time."""
    X, Y = labelled_samples(setting, seed)
    W = attention_weights(setting.d, seed)
    rate, steps = published_training.schedule(setting.n)
    timed = steps if setting.baseline == "full" else min(setting.baseline, steps)
    phi = {"raf": published.softmax_attention, "relu_raf": published.relu_attention}[setting.map](W)
    begun = time.perf_counter()
    trained = published_training.train(phi, X[1:], Y[1:], X[0], Y[0].item())
    ready = time.perf_counter()
    losses = published_training.descend(trained, GOALS, rate=rate, steps=timed)
    return {
        "seconds": (ready - begun) + (time.perf_counter() - ready) * steps / timed,
        "losses": losses if timed == steps else None,
        "steps": steps,
        "steps_timed": timed,
    }


MAPS = {"raf": published.softmax_attention, "relu_raf": published.relu_attention}


def substitutions(setting: Words, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A sample, a vocabulary of the same law, and pairs (position, word) to recompute."""
    X = gaussian_sample(setting.n, setting.d, seed)
    E = gaussian_sample(setting.vocabulary, setting.d, seed + 1)
    drawn = torch.rand(setting.baseline, 2, generator=generator(seed, "substitutions"))
    pairs = (drawn * torch.tensor([setting.n, setting.vocabulary])).long()
    return X, E, pairs


def recomputed(setting: Words, seed: int) -> dict[str, Any]:
    """The whole map for each of the pairs; extrapolated to every position and word."""
    X, E, pairs = substitutions(setting, seed)
    begun = time.perf_counter()
    phi = MAPS[setting.map](attention_weights(setting.d, seed))
    before = phi(X)
    changes = []
    for i, v in pairs.tolist():
        changed = X.clone()
        changed[i] = E[v]
        changes.append(float((phi(changed) - before).norm() / before.norm()))
    every = setting.n * setting.vocabulary
    return {
        "seconds": (time.perf_counter() - begun) * every / len(pairs),
        "changes": changes,
        "steps": every,
        "steps_timed": len(pairs),
    }


def our_words(setting: Words, seed: int) -> dict[str, Any]:
    """Every substitution, and how far the recomputed ones lie from ours."""
    X, E, pairs = substitutions(setting, seed)
    dtype = getattr(torch, setting.precision)
    W = attention_weights(setting.d, seed)
    begun = time.perf_counter()
    phi = wordsens.build_map(setting.map, weights={"W": W}, dtype=dtype)
    found = wordsens.vocabulary_sensitivity(phi, X, E)
    seconds = time.perf_counter() - begun
    assert found.change is not None
    changes = torch.tensor(recomputed(setting, seed)["changes"], dtype=torch.float64)
    gap = found.change[pairs[:, 0], pairs[:, 1]] - changes
    return {"seconds": seconds, "value": found.sup, "deviation": float(gap.abs().max())}


class Disturbance:
    """The share of the machine that other processes (and a hypervisor) took meanwhile.

    Threads that wait for each other crawl when they must share a core: two threads beside one
    busy process took 29 s for work of 0.9 s.  Such a time says nothing about the program.
    """

    def __init__(self) -> None:
        self.wall, self.busy, self.own = self._now()

    def share(self) -> float | None:
        """Between 0 and 1; None where the system does not tell."""
        wall, busy, own = (b - a for a, b in zip(vars(self).values(), self._now(), strict=True))
        if not busy or wall <= 0:
            return None
        return max(0.0, busy - own) / (wall * (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        try:
            ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
            idle = ticks[3] + ticks[4]  # idle and waiting for a disk
            busy = (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            busy = 0.0
        return time.perf_counter(), busy, time.process_time()


def runner(request: dict[str, Any]) -> tuple[Callable[[], dict[str, Any]], bool]:
    """What one request asks to run, after a tiny run of the same; and whether to repeat it."""
    seed, ours_asked = request["seed"], request["who"] == "ours"
    if request["kind"] == "Training":
        trained = Training(**request["setting"])
        trial = our_training if ours_asked else published_trial
        trial(Training(trained.map, n=4, d=8, N=5), seed)
        return lambda: trial(trained, seed), True
    if request["kind"] == "Fit":
        fitted = Fit(**request["setting"])
        our_fit(Fit(fitted.map, n=4, d=8, N=5), seed)
        return lambda: our_fit(fitted, seed), True
    if request["kind"] == "Words":
        words = Words(**request["setting"])
        everything = our_words if ours_asked else recomputed
        everything(Words(words.map, n=12, d=8, vocabulary=9, precision=words.precision), seed)
        return lambda: everything(words, seed), False
    setting = Setting(**request["setting"])
    run = ours if ours_asked else baseline
    tiny = Setting(setting.map, n=4, d=8, depth=setting.depth, positions=setting.positions)
    run(tiny, gaussian_sample(4, 8, seed), seed)
    X = gaussian_sample(setting.n, setting.d, seed)
    return lambda: run(setting, X, seed), setting.seeds == 1


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request and add the peak memory of this process and the versions in use."""
    torch.set_num_threads(request["threads"])
    run, repeat = runner(request)
    disturbance = Disturbance()
    result = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of one run: what is freed is kept
    if result["seconds"] < BRIEF and repeat:
        times = [result["seconds"], *(run()["seconds"] for _ in range(REPEATS - 1))]
        result["seconds"] = statistics.median(times)
        result["noise"] = (max(times) - min(times)) / result["seconds"]
    return {
        **result,
        "others": disturbance.share(),
        "peak_mib": peak / 1024,
        "threads": torch.get_num_threads(),
        "versions": {
            "wordsens": wordsens.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
