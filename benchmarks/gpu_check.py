"""Check and measure the GPU path: the marked tests, the kernels, and the paper's Figures 2 and 3.

    make gpu-check        or        PYTHONPATH=src python -m benchmarks.gpu_check [--quick]

Needs torch, pytest and what a cell of a sweep needs (h5py, numpy, scipy); neither an installation
nor a network.  A time stands in the table only where the kernel's numbers agreed with the plain
functions'.  Exits with 1 on any mismatch and prints the table last.  Without a CUDA device the same
script runs the kernels in Triton's interpreter at tiny sizes: that checks numbers and no speed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_report import CARD, Report, print_table, triton_version, write
from wordsens import kernels
from wordsens.glm import gram
from wordsens.kernels import attention, orthogonal, vocabulary
from wordsens.maps import position_sets
from wordsens.maps.raf import RandomAttentionFeatures, ReLUAttentionFeatures
from wordsens.studies.sensitivity.cell import run

ROOT = Path(__file__).resolve().parents[1]
DEVICE = "cuda" if CARD else "cpu"
LIMIT = 300.0  # seconds for everything
TARGET_SHARE, TARGET_SECONDS = 0.60, 60.0
TOLERANCE = 2e-5  # of kernels against plain float32 functions, relative to the largest
AGREE = 2e-3  # of a search's suprema across devices: rounding may send a start elsewhere


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--quick", action="store_true", help="leave out the paper's sweeps")
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks", help="for gpu.csv")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    if not CARD:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton, not imported yet, reads it then
    report = Report()
    name = torch.cuda.get_device_name() if CARD else "no CUDA device"
    print(f"device: {name}; torch {torch.__version__}, {triton_version()}, {platform.machine()}")
    if not CARD:
        print("No card: kernels run in Triton's interpreter at tiny sizes. Numbers are checked;")
        print("nothing is said about speed.")
    torch.backends.cuda.matmul.allow_tf32 = False
    with _kernels_on():
        _tests(report)
        if CARD:
            _copy(report)
        for part in (_attention, _vocabulary, _orthogonal, _gram, _devices_agree):
            print(f"{part.__name__.strip('_')}:", flush=True)
            part(report)
            if CARD:
                torch.cuda.empty_cache()
        if not options.quick:
            _sweeps(report, began)
    write(report, name, options.folder)
    for failure in report.failures:
        print(f"FAILED {failure}")
    print(f"\n{name}; {time.perf_counter() - began:.0f} s in all; {len(report.failures)} failures")
    print_table(report.rows)
    return 1 if report.failures else 0


def _interpreter() -> bool:
    """Whether kernels can be interpreted here: NumPy ≥ 2.4 needs Triton ≥ 3.7 (triton#9171)."""
    if CARD or not kernels.has_triton():
        return False
    import triton

    return tuple(int(x) for x in triton.__version__.split(".")[:2]) >= (3, 7)


@contextmanager
def _kernels_on() -> Iterator[None]:
    """Without a card, hand float32 tensors of the CPU to the interpreted kernels."""
    modules = (kernels, attention, orthogonal, vocabulary)
    kept = [module.fused for module in modules]
    if _interpreter():
        for module in modules:
            module.fused = lambda x: x.dtype == torch.float32  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, before in zip(modules, kept, strict=True):
            module.fused = before  # type: ignore[attr-defined]


@contextmanager
def _plain() -> Iterator[None]:
    modules = (kernels, attention, orthogonal, vocabulary)
    kept = [module.fused for module in modules]
    for module in modules:
        module.fused = lambda x: False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, before in zip(modules, kept, strict=True):
            module.fused = before  # type: ignore[attr-defined]


def _tests(report: Report) -> None:
    selected = ["-m", "gpu", "tests"] if CARD else ["tests/kernels"]
    ignored = ["--ignore=tests/workflow", "--ignore=tests/kernels/test_compiled.py"]
    if not (CARD or _interpreter()):
        print("tests: left out, this Triton has no interpreter for this NumPy")
        return
    print("tests:", flush=True)
    # files of tests that need packages missing here are reported and left out, not failures
    missing = ["--continue-on-collection-errors"] if CARD else []
    done = subprocess.run(
        [
            sys.executable,
            *["-m", "pytest", "-q", "-p", "no:cacheprovider"],
            *missing,
            *ignored,
            *selected,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    print("\n".join(done.stdout.splitlines()[-12:]))
    if " failed" in done.stdout or " passed" not in done.stdout:
        report.failures.append("the marked tests; see above")


def _seconds(step: Callable[[], Any], repeat: int = 15) -> float:
    """The median time of a step on the card; one call without a card."""
    if not CARD:
        began = time.perf_counter()
        step()
        return time.perf_counter() - began
    for _ in range(3):
        step()
    times = []
    for _ in range(repeat):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def _copy(report: Report) -> None:
    source = torch.empty(1 << 28, device=DEVICE)
    target = torch.empty_like(source)
    seconds = _seconds(lambda: target.copy_(source))
    moved = 2.0 * source.numel() * 4
    report.copy = moved / seconds
    report.add("copy", "1 GiB", seconds, moved=moved)


def _randn(*size: int) -> torch.Tensor:
    return torch.randn(*size, device=DEVICE)


def _attention(report: Report) -> None:
    """The step at n=4096, d=5120; bytes are those of the row matrices as often as they are read."""
    from wordsens.kernels import attention_triton as kernel

    n, d = (4096, 5120) if CARD else (12, 10)
    # trials × candidates per trial: 64 in four ways, then the long context's and the default's
    pairs = [(2, 1), (1, 2)]
    if CARD:
        pairs = [(64, 1), (8, 8), (4, 16), (1, 64), (3, 8), (1, 24), (1, 8)]
    for name in ("raf", "relu_raf"):
        for trials, starts in pairs if name == "raf" else pairs[1:2]:
            X = _randn(trials, n, d)
            X *= d**0.5 / X.norm(dim=-1, keepdim=True)
            sets = position_sets([[0]], n).to(DEVICE)
            view = _attention_map(name, _randn(trials, d, d) / d**0.5).view(X, sets)
            v = view.tokens[:, :, None] + _randn(trials, 1, starts, 1, d)
            size = f"{name} n={n} d={d} {trials}x{starts}"
            with _plain():
                wanted = view.value_and_grad(v)
                plain = _seconds(partial(view.value_and_grad, v))
            got = view.value_and_grad(v)
            good = [
                report.check(f"{size} {part}", a, b, 10 * TOLERANCE)
                for part, a, b in zip(("F", "gradient"), got, wanted, strict=True)
            ]
            if not all(good):
                continue
            # A and φ forward and back, X four times, W twice: see docs/gpu.md
            moved = 4.0 * trials * (8 * n * d + 2 * d * d)
            seconds = _seconds(partial(view.value_and_grad, v))
            note = "" if not CARD or starts > kernel.FUSED else "products in kernels"
            if CARD and trials * starts == 64 and trials > 1:
                note = f"{note}, target {TARGET_SHARE:.0%} of copy".lstrip(", ")
            report.add("attention step", size, seconds, plain, moved, note)
            if CARD and 1 < starts <= kernel.FUSED:
                kept, kernel.FUSED = kernel.FUSED, 1
                other = _seconds(partial(view.value_and_grad, v))
                kernel.FUSED = kept
                report.add("attention step", size, other, plain, moved, "products by cuBLAS")
            del view, X, v, wanted, got


def _attention_map(name: str, W: torch.Tensor) -> RandomAttentionFeatures:
    return (RandomAttentionFeatures if name == "raf" else ReLUAttentionFeatures)(W)


def _vocabulary(report: Report) -> None:
    n, places, words = (250, 250, 30522) if CARD else (6, 4, 9)
    p, far, dot, own = (torch.rand(*s, device=DEVICE) for s in [(n, words)] * 3 + [(places, words)])
    s, lean, away = (torch.rand(n, places, device=DEVICE) / 8 for _ in range(3))
    keep = torch.ones_like(s)
    pairs = (s, lean, away, keep)
    with _plain():
        wanted = vocabulary.changed_rows(p, far, dot, own, *pairs)
    if not report.check(
        "rows", vocabulary.changed_rows(p, far, dot, own, *pairs), wanted, TOLERANCE
    ):
        return
    seconds = _seconds(lambda: vocabulary.changed_rows(p, far, dot, own, *pairs))
    expansion = vocabulary.expand(*pairs)
    plain = _seconds(lambda: vocabulary.changed_rows_expanded(p, far, dot, own, expansion))
    rate = f"{n * places * words / seconds / 1e9:.0f} G terms/s; plain: as products" if CARD else ""
    report.add("vocabulary", f"n={n} P={places} V={words}", seconds, plain, note=rate)


def _orthogonal(report: Report) -> None:
    """Twice-done Gram–Schmidt of one layer of drf at d=768, n=80, ten trials."""
    length, batch = (61440, 10) if CARD else (4096, 1)
    for queries, vectors in ((1, 80), (16, 160)) if CARD else ((1, 3),):
        basis = torch.linalg.qr(_randn(batch, length, vectors)).Q.mT.contiguous()
        x = _randn(batch, queries, length)
        with _plain():
            wanted = x.clone()
            orthogonal.project_out(wanted, basis)
            plain = _seconds(partial(_projected, x, basis))
        got = x.clone()
        orthogonal.project_out(got, basis)
        if report.check(f"{queries} queries, {vectors} vectors", got, wanted, TOLERANCE):
            seconds = _seconds(partial(_projected, x, basis))
            size = f"{batch} x {length}: {queries} on {vectors}"
            report.add("CGS2", size, seconds, plain, 4.0 * (3 * basis.numel() + 8 * x.numel()))


def _projected(x: torch.Tensor, basis: torch.Tensor) -> None:
    orthogonal.project_out(x.clone(), basis)


def _gram(report: Report) -> None:
    """K = ΦΦᵀ in float64, by Torch alone."""
    N, p = (1300, 92160) if CARD else (5, 40)
    Phi = _randn(N, p)
    if report.check("K", gram(Phi)[:4], Phi[:4].double() @ Phi.double().mT, 1e-12):
        seconds = _seconds(lambda: gram(Phi), repeat=5)
        rate = f"{N * N * p / seconds / 1e12:.1f} TFLOP/s of float64" if CARD else ""
        report.add("Gram matrix", f"N={N} p={p}", seconds, moved=4.0 * N * p, note=rate)


def _cell(
    map: str, d: int, n: int, depth: int = 1, trials: int = 10, **more: Any
) -> dict[str, Any]:
    fixed = {"sweep": "check", "dataset": "synthetic", "words": 1, "positions": "first"}
    fixed |= {"seed": 2024, "search": "power", "audit": 0, "precision": "float32"}
    return {"map": map, "d": d, "n": n, "depth": depth, "trials": trials, **fixed, **more}


def _devices_agree(report: Report) -> None:
    """The same cell by the plain functions on the CPU and by the kernels where they run."""
    small = {} if CARD else {"starts": 1, "steps": 3, "trials": 1}
    sizes = [("raf", 192, 50, 1), ("relu_raf", 192, 50, 1), ("drf", 192, 20, 3)]
    if not CARD:
        sizes = [("raf", 8, 6, 1), ("drf", 8, 4, 2)]
    for name, d, n, depth in sizes:
        cell = _cell(name, d, n, depth, **small)
        with _plain():
            wanted, _ = run(cell, {}, "cpu")
        got, _ = run(cell, {}, DEVICE)
        for key in ("sup", "norm"):
            tolerance = AGREE if key == "sup" else TOLERANCE
            report.check(
                f"{name} d={d} n={n}: {key} on {DEVICE} and cpu",
                torch.from_numpy(got[key]),
                torch.from_numpy(wanted[key]),
                tolerance,
            )


def _sweeps(report: Report, began: float) -> None:
    """Figures 2 and 3 of the paper's preset on synthetic samples, all trials."""
    if CARD:
        import yaml

        text = (ROOT / "workflow" / "presets" / "paper-synthetic.yaml").read_text(encoding="utf-8")
        sweeps = yaml.safe_load(text)["sweeps"]
    else:
        sweeps = {"raf": {"d": [8], "n": [4]}, "drf": {"d": [8], "n": [3], "depth": [2]}}
    total = 0.0
    for name in ("raf", "drf", "relu_raf", "rf"):
        if name not in sweeps:
            continue
        space = sweeps[name]
        points = [
            (d, n, depth)
            for d in space["d"]
            for n in space["n"]
            for depth in space.get("depth", [1])
        ]
        small = {} if CARD else {"starts": 1, "steps": 2, "trials": 1}
        start, finite, done = time.perf_counter(), True, 0
        for d, n, depth in points:
            if time.perf_counter() - began > LIMIT:
                break
            arrays, _ = run(_cell(name, d, n, depth, **small), {}, DEVICE)
            finite &= bool((arrays["sup"] > 0).all() and (arrays["sup"] < 1e3).all())
            done += 1
        seconds = time.perf_counter() - start
        total += seconds
        if not finite:
            report.failures.append(f"sweep {name}: a supremum is not a positive number")
        note = "" if done == len(points) else f"stopped at {LIMIT:.0f} s: {done} of {len(points)}"
        report.add("paper sweep", f"{name}: {done} cells, all trials", seconds, note=note)
        print(f"sweep {name}: {done} of {len(points)} cells", flush=True)
    note = f"target {TARGET_SECONDS:.0f} s" if CARD else ""
    report.add("paper sweeps", "Figures 2 and 3", total, note=note)


if __name__ == "__main__":
    sys.exit(main())
