"""What is measured: one row per setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Setting:
    """One map at one size.

    ``positions`` is what ours searches; the baseline always does the first position only.
    ``baseline`` is "full" for the whole published schedule, a number of steps to time and
    extrapolate from (the table says so), or None where the matrices would not fit.
    ``seeds`` > 1 repeats our search with as many sets of starts on one map and sample.
    """

    map: str
    n: int
    d: int
    depth: int = 1
    positions: str = "first"
    baseline: Literal["full"] | int | None = "full"
    seeds: int = 1

    @property
    def label(self) -> str:
        depth = f" L={self.depth}" if self.map == "drf" else ""
        where = "" if self.positions == "first" else f", {self.positions} positions"
        return f"{self.map}{depth} n={self.n} d={self.d}{where}"


PENALTIES = (0.0, 0.01, 0.1, 1.0)


@dataclass(frozen=True)
class Training:
    """One trial of the generalization experiments: N samples, four losses × ``PENALTIES``.

    ``baseline`` is "full", or the number of steps per loss to time and extrapolate from.
    """

    map: str
    n: int
    d: int
    N: int
    baseline: Literal["full"] | int = "full"

    @property
    def label(self) -> str:
        return f"{self.map} N={self.N} n={self.n} d={self.d}"


@dataclass(frozen=True)
class Fit:
    """``fit`` alone on N samples: their features, their Gram matrix and θ*."""

    map: str
    n: int
    d: int
    N: int
    baseline: None = None  # the p×p projector of the published way would not fit

    @property
    def label(self) -> str:
        return f"fit {self.map} N={self.N} n={self.n} d={self.d}"


@dataclass(frozen=True)
class Words:
    """Every word of a random vocabulary at every position, against recomputing the whole map.

    ``baseline`` is the number of substitutions to recompute and extrapolate from.
    """

    map: str
    n: int
    d: int
    vocabulary: int
    precision: Literal["float32", "float64"] = "float32"
    baseline: int = 200

    @property
    def label(self) -> str:
        return f"{self.map} n={self.n} d={self.d}, {self.vocabulary} words, {self.precision}"


Measured = Setting | Training | Fit | Words

SMALL = (
    Setting("raf", n=40, d=192),
    Setting("raf", n=40, d=192, positions="all"),
    Setting("relu_raf", n=40, d=192),
    Setting("rf", n=10, d=192),
    Setting("drf", n=10, d=96, depth=4),
    Setting("raf", n=100, d=384, baseline=None, seeds=20),
    Training("raf", n=10, d=96, N=100),
    Training("relu_raf", n=10, d=96, N=100),
    Fit("raf", n=10, d=96, N=100),
    Words("raf", n=40, d=192, vocabulary=30522),
)

# The quick ones first: the table is written anew after each.
FULL = (
    Setting("rf", n=20, d=384),
    Setting("rf", n=40, d=192),
    Setting("rf", n=40, d=384),
    Setting("rf", n=150, d=768, baseline=None),
    Setting("drf", n=10, d=384, depth=4),
    Setting("drf", n=20, d=384, depth=4),
    Setting("drf", n=80, d=768, depth=8, baseline=None),
    Setting("raf", n=100, d=768, baseline=None, seeds=20),
    Words("raf", n=250, d=384, vocabulary=30522),
    Words("relu_raf", n=250, d=384, vocabulary=30522),
    Training("raf", n=40, d=384, N=400),
    Fit("raf", n=120, d=768, N=1300),
    Setting("raf", n=250, d=768),
    Setting("raf", n=250, d=768, positions="all"),
    Setting("rf", n=4096, d=5120, baseline=None),
    Setting("relu_raf", n=250, d=768, baseline=1000),
    Words("raf", n=250, d=384, vocabulary=30522, precision="float64"),
    Training("relu_raf", n=40, d=384, N=400),
)

PRESETS = {"small": SMALL, "full": FULL}
