"""How far found values are from a search thirty times as long: ``make audit``.

    python -m benchmarks.audit --preset small|full [--only MAP] [--resume]
                               [--encoder FOLDER --texts H5]

For every map, draws at several sizes; half of them have words that share a mean.  All draws of a
size are one batch.  The reference is the best of the default search and of one with ten times the
starts and three times the steps.  Losses are compared with a search ten times as long, jointly and
singly, and with the published descent.  With an encoder's folder and embeddings made of its texts,
the layers of the encoder are audited too, trained and random; a draw is a layer of a text.
``audit.csv`` and ``audit.md`` are written after every line; with ``--resume`` the lines of that
table are kept, those of other presets too.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
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
MAPS: dict[str, dict[str, Any]]
MAPS = {"raf": {}, "qkv": {}, "relu_raf": {}, "rf": {}, "drf": {"depth": 8}}
WORDS = (5, 10, 40, 100)
DIMENSIONS = (8, 32, 128)
LAYERS = [1, 3, 6]
FIGURE: dict[str, Any] = {"starts": 2, "steps": 40}  # the effort of the default figure of layers
TRAINED = ("raf", "qkv", "relu_raf", "rf")  # maps whose losses are searched


@dataclass(frozen=True)
class Preset:
    """Draws at every size, sizes with n·d up to ``largest``, ``trials`` of every size for losses.

    ``windows`` are texts of every length n, for trained layers and for random ones.
    """

    draws: int
    trials: int
    largest: int
    windows: dict[int, tuple[int, int]]


PRESETS = {
    "small": Preset(4, 2, 1300, {10: (4, 2), 25: (2, 1)}),
    "full": Preset(24, 8, 100 * 128, {10: (14, 6), 25: (6, 3), 50: (3, 1), 128: (1, 1)}),
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
    short, evaluations, seconds = [], 0, 0.0
    cls = map_class(name)
    options = MapOptions(**MAPS[name])
    for n in WORDS:
        for d in DIMENSIONS:
            if n * d > preset.largest:
                continue
            streams = [Stream(0, "audit", map=name, n=n, d=d, t=t) for t in range(preset.draws)]
            X = torch.stack([s.child("X").normal(n, d, dtype=torch.float64) for s in streams])
            means = [s.child("mean").normal(1, d, dtype=torch.float64) for s in streams]
            X[1::2] += torch.stack(means)[1::2]
            X = (normalize(X, dim=-1) * d**0.5).float()
            sets = torch.zeros(1, 1, dtype=torch.long)
            view = cls.draw_view(X, sets, [s.child("map") for s in streams], options)
            count = [0]
            _counted(view, count)
            effort = cls.effort_for(n, d, options)
            began = time.process_time()
            found = _sup(cls, view, sets, streams, effort, n)
            seconds += time.process_time() - began
            evaluations += count[0]
            far = replace(effort, starts=STARTS * effort.starts, steps=STEPS * effort.steps)
            best = _sup(cls, view, sets, [s.child("longer") for s in streams], far, n)
            known = found > 0  # a ReLU map can be zero at X
            short.append(((best - found).clamp_min(0) / torch.maximum(best, found))[known].numpy())
    return Line.of(name, np.concatenate(short), evaluations, seconds)


def _sup(cls: Any, view: Any, sets: Any, streams: Any, effort: Any, n: int) -> torch.Tensor:
    found = summarise([search(cls, view, sets, streams, effort, n)], sets, single=False)
    return found.sup.nan_to_num(0)


def _counted(view: Any, count: list[int]) -> None:
    step = view.value_and_grad

    def counting(v: torch.Tensor, sharpness: float = 1.0) -> Any:
        count[0] += v.shape[:3].numel()
        return step(v, sharpness)

    view.value_and_grad = counting


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
        name, MAPS[name], preset.trials, preset.largest
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
    parser.add_argument("--texts", type=Path, help="embeddings made of that encoder's texts")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the tables are written")
    parser.add_argument("--resume", action="store_true", help="keep the lines of the last table")
    options = parser.parse_args(arguments)
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
