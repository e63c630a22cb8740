"""One trial of a random transformer, against projected gradient with autograd.

    python -m benchmarks.depth [--n 100] [--d 192] [--depth 6] [--draws 1] [--share 0.05]

The baseline is the published procedure: the whole map anew at every step, its gradient from
autograd, one start, 50 n steps.  ``share`` of its steps are run and its seconds extrapolated; with
1 all are, and the values can be compared.  Seconds are of the processor.  The floor is what the
products of the search take at the speed of a single large one.
"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks import published
from benchmarks.measure import gaussian_sample
from benchmarks.robustness import peak_mb
from wordsens import build_map, word_sensitivity
from wordsens.maps.blocks.view import BlocksView

RATIO = 4  # width of the MLP in units of d, the map's default


def operations(n: int, d: int, depth: int) -> int:
    """Floating-point operations of one evaluation with its gradient, one head."""
    return 2 * depth * ((6 + 4 * RATIO) * n * d * d + 4 * n * n * d)


def speed(n: int, d: int) -> float:
    """Operations per second of the MLP's product for eight candidates."""
    A, B = torch.randn(8 * n, d), torch.randn(d, RATIO * d)
    A @ B
    began = time.process_time()
    for _ in range(50):
        A @ B
    return 50 * 2 * 8 * n * d * RATIO * d / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, value in {"n": 100, "d": 192, "depth": 6, "draws": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--share", type=float, default=0.05)
    given = parser.parse_args()
    n, d, depth = given.n, given.d, given.depth
    made = [0]
    step = BlocksView.value_and_grad

    def counted(view: BlocksView, v: torch.Tensor, sharpness: float = 1.0) -> tuple[object, object]:
        made[0] += v.shape[:3].numel()
        return step(view, v, sharpness)

    BlocksView.value_and_grad = counted  # type: ignore[method-assign, assignment]
    for seed in range(given.draws):
        X = gaussian_sample(n, d, seed).float()
        map = build_map("transformer", d=d, depth=depth, seed=seed, dtype=torch.float32)
        made[0], began = 0, time.process_time()
        found = word_sensitivity(map, X, seed=seed)
        ours = time.process_time() - began
        floor = made[0] * operations(n, d, depth) / speed(n, d)
        rate, whole = published.schedule("transformer", n)
        steps = max(1, round(given.share * whole))
        noise = torch.randn(d, generator=torch.Generator().manual_seed(seed))
        began = time.process_time()
        reached, _ = published.ascend(map.features, X, noise, rate=rate, steps=steps)
        theirs = (time.process_time() - began) * whole / steps
        print(
            f"draw {seed}: {found.sup:.3f} in {ours:.1f} s ({made[0]} evaluations, floor "
            f"{floor:.1f} s, peak {peak_mb()} MB); published {reached:.3f} after {steps} of {whole}"
            f" steps, {theirs:.1f} s for all; ratio {theirs / ours:.1f}"
        )


if __name__ == "__main__":
    main()
