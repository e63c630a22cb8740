"""How far found values are from a search thirty times as long: ``make audit``.

    python -m benchmarks.audit --preset small|full [--only MAP] [--resume]
                               [--texts H5 [--encoder FOLDER]]

For every map, draws at several sizes; half of them have words that share a mean.  All draws of a
size are one batch.  The reference is the best of the default search and of one with ten times the
starts and three times the steps.  Losses are compared with a search ten times as long, jointly and
singly, and with the published descent.  With embeddings of texts, attention is audited on them too;
with the folder of the encoder that made them, its layers, trained and random; a draw is a layer of
a text.  ``audit.csv`` and ``audit.md`` are written after every line; with ``--resume`` the lines of
that table are kept, those of other presets too.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from benchmarks.audit_losses import audited_losses
from wordsens.maps import MapOptions, map_class
from wordsens.randomness import Stream
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search

HERE = Path(__file__).resolve().parent
STARTS, STEPS = 10, 3  # of the reference, in those of the default
MAPS: dict[str, dict[str, Any]]  # by map, and after a comma what distinguishes the line
MAPS = {"raf": {}, "qkv": {}, "relu_raf": {}, "rf": {}}
MAPS |= {f"drf, L = {depth}": {"depth": depth} for depth in (2, 4, 8)}
SIZES = tuple((n, d) for n in (5, 10, 40, 100) for d in (8, 32, 128))
DEEP = 1300  # largest n·d for deep features, which have a matrix n·d × n·d a layer
EMBEDDED = ((10, 384), (50, 96), (100, 192), (250, 96))  # sizes of word embeddings
ON_TEXTS = ("raf", "relu_raf")
LAYERS = [1, 3, 6]
FIGURE: dict[str, Any] = {"starts": 4, "steps": 60}  # the effort of the default figure of layers
TRAINED = ("raf", "qkv", "relu_raf", "rf", "drf, L = 2")  # maps whose losses are searched


@dataclass(frozen=True)
class Preset:
    """Draws at every size, sizes with n·d up to ``largest``, ``trials`` of every size for losses.

    ``samples`` are of word embeddings, of every size; ``windows`` are texts of every length n, for
    trained layers and for random ones.
    """

    draws: int
    trials: int
    largest: int
    samples: int
    windows: dict[int, tuple[int, int]]


PRESETS = {
    "small": Preset(4, 2, 1300, 4, {10: (4, 2), 25: (2, 1)}),
    "full": Preset(24, 8, 100 * 128, 8, {10: (14, 6), 25: (6, 3), 50: (3, 1), 128: (1, 1)}),
}


@dataclass(frozen=True)
class Line:
    """Shares by which the default search stayed below the reference."""

    what: str
    draws: int
    mean: float
    within: float  # share of draws within 1 %
    worst: float
    evaluations: float  # of F and its gradient, per draw
    seconds: float  # of one core, per draw
    preset: str = ""

    @classmethod
    def of(cls, what: str, short: np.ndarray, evaluations: float, seconds: float) -> Line:
        many = len(short)
        return cls(
            what,
            many,
            float(short.mean()),
            float((short <= 0.01).mean()),
            float(short.max()),
            evaluations / many,
            seconds / many,
        )


def audited_map(name: str, preset: Preset) -> Line:
    draws = []
    most = min(preset.largest, DEEP) if name.startswith("drf") else preset.largest
    for n, d in SIZES:
        if n * d > most:
            continue
        streams = [Stream(0, "audit", map=name, n=n, d=d, t=t) for t in range(preset.draws)]
        X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
        means = [s.child("mean").normal(1, d, dtype=torch.float64) for s in streams]
        X[1::2] += torch.stack(means)[1::2]
        draws.append(((normalize(X, dim=-1) * d**0.5).float(), streams))
    return _audited(name, name, draws)


def audited_texts(name: str, texts: Path, preset: Preset) -> Line:
    """The same for samples of word embeddings."""
    from wordsens.data.samples import draw_samples

    draws = []
    for n, d in EMBEDDED:
        streams = [Stream(0, "audit", map=name, n=n, d=d, t=t) for t in range(preset.samples)]
        samples = draw_samples(texts, n, d, preset.samples, Stream(0, "audit", n=n, d=d))
        draws.append((samples.X, streams))
    return _audited(f"{name}, word embeddings", name, draws)


def _audited(what: str, name: str, draws: Sequence[tuple[torch.Tensor, list[Stream]]]) -> Line:
    """A line from samples (T, n, d) of several sizes, with the streams of their trials."""
    short, evaluations, seconds = [], 0, 0.0
    cls, options = map_class(name.split(",")[0]), MapOptions(**MAPS[name])
    sets = torch.zeros(1, 1, dtype=torch.long)
    for X, streams in draws:
        n, d = X.shape[1:]
        view = cls.draw_view(X, sets, [s.child("map") for s in streams], options)
        effort = cls.effort_for(n, d, options)
        began = time.process_time()
        with _counted(type(view)) as count:
            found = _sup(cls, view, sets, streams, effort, n)
        seconds += time.process_time() - began
        evaluations += count[0]
        far = replace(effort, starts=STARTS * effort.starts, steps=STEPS * effort.steps)
        best = _sup(cls, view, sets, [s.child("longer") for s in streams], far, n)
        known = found > 0  # a ReLU map can be zero at X
        short.append(((best - found).clamp_min(0) / torch.maximum(best, found))[known].numpy())
    return Line.of(what, np.concatenate(short), evaluations, seconds)


def _sup(cls: Any, view: Any, sets: Any, streams: Any, effort: Any, n: int) -> torch.Tensor:
    found = summarise([search(cls, view, sets, streams, effort, n)], sets, single=False)
    return found.sup.nan_to_num(0)


@contextmanager
def _counted(kind: Any) -> Iterator[list[int]]:
    """Counts the evaluations of all views of a class."""
    count, step = [0], kind.value_and_grad

    def counting(self: Any, v: torch.Tensor, sharpness: float = 1.0) -> Any:
        count[0] += v.shape[:3].numel()
        return step(self, v, sharpness)

    kind.value_and_grad = counting
    try:
        yield count
    finally:
        kind.value_and_grad = step


def audited_layers(folder: Path, texts: Path, weights: str, n: int, windows: int) -> Line:
    """The default figure's effort at the first word of texts, against thirty times as much."""
    from wordsens.data.samples import draw_tokens
    from wordsens.encoders.layered import LayeredEncoder
    from wordsens.encoders.sensitivity import layer_sensitivity

    def model(seed: int) -> LayeredEncoder:
        return LayeredEncoder.load(folder, weights, stream=Stream(seed, "weights"))

    short, seconds = [], 0.0
    stream = Stream(0, "audit layers", n=n)
    ids, _ = draw_tokens(texts, n, windows, stream, special=2, key="audit")
    known = model(0)
    for window, row in enumerate(torch.from_numpy(ids.astype(np.int64))):
        known = model(window) if weights == "random" else known
        began = time.process_time()
        found = layer_sensitivity(known, row, layers=LAYERS, seed=window, **FIGURE)
        seconds += time.process_time() - began
        effort = {"starts": STARTS * FIGURE["starts"], "steps": STEPS * FIGURE["steps"]}
        far = layer_sensitivity(known, row, layers=LAYERS, seed=window + windows, **effort)
        best = torch.maximum(far.sup, found.sup)
        short.append(((best - found.sup) / best).numpy())
    return Line.of(line_of_layers(weights, n), np.concatenate(short), float("nan"), seconds)


def line_of_layers(weights: str, n: int) -> str:
    return f"layers, {weights}, n = {n}"


def lines_of_losses(name: str, preset: Preset) -> Iterator[Line]:
    above, published, evaluations, seconds = audited_losses(
        name.split(",")[0], MAPS[name], preset.trials, preset.largest
    )
    cost = (evaluations * above.shape[1], seconds * above.shape[1])  # of a trial, not of a value
    yield Line.of(f"losses, {name}", above.ravel(), *cost)
    yield Line.of(f"losses, {name}, above the published", published.ravel(), *cost)


def markdown(lines: Sequence[Line]) -> str:
    head = "# Found values against a search thirty times as long\n\n"
    rows = ["| what | preset | draws | mean | within 1 % | worst | evaluations | core seconds |"]
    rows.append("|---|---|--:|--:|--:|--:|--:|--:|")
    for x in lines:
        evaluations = "" if np.isnan(x.evaluations) else f"{x.evaluations:.0f}"
        rows.append(
            f"| {x.what} | {x.preset} | {x.draws} | {x.mean:.3%} | {x.within:.1%} | "
            f"{x.worst:.1%} | {evaluations} | {x.seconds:.3f} |"
        )
    return head + "\n".join(rows) + "\n"


def lines(options: argparse.Namespace) -> Iterator[Line]:
    known = kept(options)
    yield from known
    for line in fresh(options, {line.what for line in known if line.preset == options.preset}):
        yield replace(line, preset=options.preset)


def fresh(options: argparse.Namespace, done: set[str]) -> Iterator[Line]:
    preset = PRESETS[options.preset]
    for name in MAPS:
        if options.only in name and name not in done:
            yield audited_map(name, preset)
    for name in ON_TEXTS if options.texts else ():
        line = f"{name}, word embeddings"
        if options.only in line and line not in done:
            yield audited_texts(name, options.texts, preset)
    for name in TRAINED:
        if options.only in f"losses, {name}" and f"losses, {name}" not in done:
            yield from lines_of_losses(name, preset)
    if not (options.encoder and options.texts):
        return
    for n, windows in preset.windows.items():
        for weights, count in zip(("pretrained", "random"), windows, strict=True):
            what = line_of_layers(weights, n)
            if options.only in what and what not in done:
                yield audited_layers(options.encoder, options.texts, weights, n, count)


def kept(options: argparse.Namespace) -> list[Line]:
    """The lines of the table that is there, where it goes on."""
    path = options.folder / "audit.csv"
    if not options.resume or not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [_line(row) for row in rows]


def _line(row: dict[str, Any]) -> Line:
    texts = {name: row.pop(name) for name in ("what", "preset")}
    draws = int(row.pop("draws"))
    numbers: dict[str, Any] = {name: float(value) for name, value in row.items()}
    return Line(draws=draws, **texts, **numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--only", default="", help="lines whose name contains this text")
    parser.add_argument("--encoder", type=Path, help="folder of an encoder, for its layers")
    parser.add_argument("--texts", type=Path, help="word embeddings of texts")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the tables are written")
    parser.add_argument("--resume", action="store_true", help="keep the lines of the last table")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    done: list[Line] = []
    for line in lines(options):
        done.append(line)
        text = markdown(done)
        print(text.splitlines()[-1], flush=True)
        (options.folder / "audit.md").write_text(text, encoding="utf-8")
        with (options.folder / "audit.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(asdict(line)), lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(x) for x in done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
