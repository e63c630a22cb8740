"""Input sensitivity in kernel form against the explicit Jacobian and autograd.

    python -m benchmarks.robustness [--large]

The baseline does what public scripts do: the features ∇_W f(x_i; W) of every sample by autograd, a
row of the n × p Jacobian each, θ* = Φᵀ(ΦΦᵀ)⁻¹y, and ∇_x φ(x)ᵀθ* by autograd again.  Both run in
this process on one thread, in turn, on the same weights; seconds are of the processor, memory is
the peak above what the process held before, each in a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import wordsens
from wordsens.activations import activation
from wordsens.randomness import Stream
from wordsens.robustness.rows import Rows
from wordsens.robustness.vectors import Vectors, draw_vectors

N, D, K = 200, 400, 800
LARGE = (2000, 1000, 8000)
ROUNDS = 5
PHI = "tanh"


def setting(n: int = N, d: int = D, k: int = K) -> tuple[Vectors, torch.Tensor]:
    """Samples and weights."""
    stream = Stream(0, "benchmark")
    return draw_vectors(None, n, d, 1, stream), torch.cat(list(Rows(k, d, stream)))


def explicit(drawn: Vectors, W: torch.Tensor) -> tuple[float, torch.Tensor]:
    """S and ∇f at the point by the Jacobian of the antisymmetric two-layer network and autograd."""
    phi, x = activation(PHI), drawn.x[0]
    weights = W.clone().requires_grad_()
    twin = W.clone()

    def features(point: torch.Tensor, graph: bool = False) -> torch.Tensor:
        f = phi.value(weights @ point).sum() - phi.value(twin @ point).sum()
        return torch.autograd.grad(f, weights, create_graph=graph)[0].reshape(-1)

    Phi = torch.stack([features(each) for each in drawn.X])
    theta = Phi.mT @ torch.linalg.solve(Phi @ Phi.mT, drawn.y)
    at = x.clone().requires_grad_()
    gradient = torch.autograd.grad(features(at, graph=True) @ theta, at)[0]
    return (x.norm() * gradient.norm()).item(), gradient


def kernel(drawn: Vectors, W: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The same by ``input_sensitivity``."""
    found = wordsens.input_sensitivity(
        drawn.X, drawn.y, drawn.x[0], "ntk", weights=W, activation=PHI
    )
    return found.sensitivity, found.gradient


WAYS = {"explicit": explicit, "kernel": kernel}


def peak_mb() -> float:
    """Peak memory of this process; what getrusage says begins with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def memory(way: str) -> float:
    """Peak memory of one way above what its process held before, in MB."""
    code = f"from benchmarks import robustness as r; print(r.grown({way!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def grown(way: str) -> float:
    """Called in a process of its own: everything loaded and warm on a small case first."""
    torch.set_num_threads(1)
    WAYS[way](*setting(20, 10, 20))
    drawn, W = setting()
    before = peak_mb()
    WAYS[way](drawn, W)
    return peak_mb() - before


def compare() -> None:
    torch.set_num_threads(1)
    drawn, W = setting()
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    found = {}
    for way in WAYS:
        WAYS[way](*setting(20, 10, 20))
    for _ in range(ROUNDS):
        for name, run in WAYS.items():
            began = time.process_time()
            found[name] = run(drawn, W)
            seconds[name].append(time.process_time() - began)
    (S, slow), (T, quick) = found["explicit"], found["kernel"]
    away = ((slow - quick).norm() / slow.norm()).item()
    print(f"n = {N}, d = {D}, k = {K}: S = {S:.12g} and {T:.12g}, gradients differ by {away:.1e}")
    ratios = [a / b for a, b in zip(seconds["explicit"], seconds["kernel"], strict=True)]
    for name, each in seconds.items():
        print(f"{name:9} {statistics.median(each):8.3f} s of the processor")
    print(
        f"ratio     {statistics.median(ratios):8.1f} (from {min(ratios):.1f} to {max(ratios):.1f})"
    )
    mb = {name: memory(name) for name in WAYS}
    print(", ".join(f"{name} {value:.1f} MB" for name, value in mb.items()), end="; ")
    print(f"{mb['explicit'] / mb['kernel']:.0f} times less memory")


def large() -> None:
    n, d, k = LARGE
    drawn = draw_vectors(None, n, d, 1, Stream(0, "benchmark"))
    began, processor = time.perf_counter(), time.process_time()
    found = wordsens.input_sensitivity(drawn.X, drawn.y, drawn.x[0], width=k, activation=PHI)
    print(found)
    print(
        f"{time.perf_counter() - began:.1f} s, {time.process_time() - processor:.1f} s of the "
        f"processor on {torch.get_num_threads()} threads, {peak_mb():.0f} MB in all"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="n = 2000, d = 1000, k = 8000")
    large() if parser.parse_args().large else compare()
