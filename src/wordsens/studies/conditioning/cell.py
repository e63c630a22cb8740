"""One depth's smallest eigenvalues at every n and width of an entry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from wordsens.activations import activation
from wordsens.progress import portion
from wordsens.randomness import Stream
from wordsens.robustness.tangent_kernel import draw_layers, kernel_of

NAMES = ("d", "depth", "shape", "narrow", "activation")


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A row per n, trial and width.

    Arrays: n, trial, width, parameters, smallest, largest, floor (of rounding), transition (the
    smallest width of the trial whose λ_min is above the floor) and enough (the smallest width with
    as many parameters as samples).
    """
    rows: list[dict[str, Any]] = []
    names = {name: cell[name] for name in NAMES}
    for n in cell["n"]:
        for trial in range(cell["trials"]):
            stream = Stream(cell["seed"], "conditioning", **names, n=n).child("trial", trial=trial)
            X = stream.child("samples").normal(n, cell["d"], dtype=torch.float64)
            X = (X * (cell["d"] ** 0.5 / X.norm(dim=1, keepdim=True))).to(device)
            spectrum = cache(partial(_spectrum, cell, X, stream))
            widths = sorted({max(1, round(c * n**0.5)) for c in cell["multiples"]})
            with portion(1 / (len(cell["n"]) * cell["trials"])):
                enough = first_width(partial(_enough, cell, n))
                transition = first_width(partial(_positive, spectrum), start=enough)
                for width in widths:
                    smallest, largest, floor = spectrum(width)
                    rows.append(
                        {
                            **{"n": n, "trial": trial, "width": width},
                            "parameters": parameters(cell, width),
                            **{"smallest": smallest, "largest": largest, "floor": floor},
                            "transition": transition,
                            "enough": enough,
                        }
                    )
    arrays = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    lists = ("n", "multiples", "section")
    return arrays, {key: value for key, value in cell.items() if key not in lists}


def _spectrum(
    cell: Mapping[str, Any], X: torch.Tensor, stream: Stream, width: int
) -> tuple[float, float, float]:
    """λ_min, λ_max and the floor of rounding of one network."""
    widths = hidden(width, cell["depth"], cell["shape"], cell["narrow"])
    layers = draw_layers(cell["d"], widths, stream.child("weights", width=width))
    found = kernel_of(X, [W.to(X.device) for W in layers], activation(cell["activation"]))
    return found.smallest, found.largest, found.floor


def _positive(spectrum: Callable[[int], tuple[float, float, float]], width: int) -> bool:
    smallest, _, floor = spectrum(width)
    return smallest > floor


def _enough(cell: Mapping[str, Any], n: int, width: int) -> bool:
    return parameters(cell, width) >= n


def hidden(width: int, depth: int, shape: str, narrow: int) -> list[int]:
    """The hidden layers' widths."""
    if shape == "pyramid":
        return [max(1, math.ceil(width / 2**layer)) for layer in range(depth - 1)]
    return [width] + [narrow if shape == "one_wide" else width] * (depth - 2)


def parameters(cell: Mapping[str, Any], width: int) -> int:
    """How many weights the network has."""
    widths = hidden(width, cell["depth"], cell["shape"], cell["narrow"])
    return sum(a * b for a, b in pairwise([cell["d"], *widths, 1]))


def first_width(holds: Callable[[int], bool], start: int = 1) -> int:
    """The smallest width at which something holds that holds at every larger one.

    ``start`` is a width below which it cannot hold.
    """
    low, step = start - 1, 1
    while not holds(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
