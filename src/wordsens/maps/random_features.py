"""Random features (1) and deep random features (6), on Gaussian matrices that are never stored.

The changed words meet only their own columns V_I of the first matrix, and the rest of the sample
enters through one Gaussian vector z = Σ_{j ∉ I} V_j x_j ~ N(0, β (D − m d)/D), independent of
V_I.  A sensitivity sweep therefore draws (z, V_I) directly, exactly in law (``draw_view``); no
D × D matrix exists, and no conditioning is needed between tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from wordsens.activations import Activation, activation, he_scale
from wordsens.deferred import torch
from wordsens.errors import UserError
from wordsens.gaussian import DenseGaussian, GaussianMatrix, LazyGaussian, PartedGaussian
from wordsens.gram import gram, square_root
from wordsens.kernels.products import product
from wordsens.maps.base import FeatureMap
from wordsens.maps.declaration import DEFAULTS, EVERY, Effort, LossEffort, MapOptions
from wordsens.maps.random_view import RandomFeaturesView
from wordsens.randomness import Stream

ROWS = 4096  # rows of a matrix drawn at once
QUERIED = 500_000_000  # neurons × steps beyond which a search makes fewer steps, to bound memory
STORED = 4096  # neurons of a layer up to which a matrix may be stored
NARROW = 500  # n·d up to which losses are searched hardest
HALVED = (6, 12, 18)  # evaluations of 30 after which the better half of a loss's starts goes on


class DeepRandomFeatures(FeatureMap):
    """φ(X) = ϕ(V_L ϕ(… ϕ(V_1 flat(X)))) (6); V_1 is k×D with variance β/D, V_l k×k with β/k.

    β solves E ϕ²(√β ρ) = 1 (7).  ``layers`` are Gaussian matrices with a common batch.
    """

    name = "drf"
    title = "Deep random features (DRF)"
    short = "DRF"
    options: ClassVar[Collection[str]] = ("depth", "width", "activation")
    needs: ClassVar[tuple[str, ...]] = ("depth",)
    sizes = ("n", "d")
    studies: ClassVar[Container[str]] = frozenset({"sensitivity", "generalization"})
    falls = True
    sets_per_view = 1
    joint_training = True
    effort = Effort(starts=16, anneal=0, steps=30, halve=8)

    def __init__(
        self, layers: Sequence[GaussianMatrix], phi: Activation, *, batched: bool = False
    ) -> None:
        self.layers, self.phi = list(layers), phi
        for level, (V, below) in enumerate(zip(layers[1:], layers, strict=False), start=2):
            if V.columns != below.rows or V.batch != below.batch:
                raise UserError(
                    f"weights V{level} are {V.rows}×{V.columns} and V{level - 1} "
                    f"{below.rows}×{below.columns}; every layer takes what the one below gives"
                )
        self.chosen = MapOptions(layers[-1].rows, len(self.layers), phi.name)
        self.batch = layers[0].batch if batched else None
        self.dtype, self.device = layers[0].dtype, layers[0].device

    @classmethod
    def published_schedule(cls, n: int) -> tuple[float, int]:
        return 100.0, 300

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        # few neurons leave many local maxima; many concentrate, and each query costs memory
        k = options.width or n * d
        most = max(15, QUERIED // (k * options.depth))
        if options.depth == 1:
            starts = max(1, min(16, 30_000 // k))
            return replace(cls.effort, starts=starts, steps=min(cls.effort.steps, most))
        starts = min(128, max(2 + round((9000 / k) ** 2), min(8, 60_000 // k), 4))
        steps = max(40, min(60, 576_000 // k), min(75, 96_000 // k))
        return Effort(starts, anneal=0, steps=min(steps, most))

    @classmethod
    def loss_effort_for(cls, n: int, d: int) -> LossEffort:
        # each loss has hills of its own, the more of them and the sharper the narrower the layers
        if n * d <= NARROW:
            return LossEffort(64, 30, 40, 3, beside=4, settle=2, halve=HALVED, apart=True)
        small = min(2, 5_000 // (n * d))
        rounds, few = max(1, small), min(1, small)
        return LossEffort(8, 30, 40, rounds, beside=few, settle=few, halve=HALVED, apart=True)

    @classmethod
    def published_descent(cls, n: int) -> tuple[float, int]:
        return 100.0, 300

    @classmethod
    def limit(cls, n: int, *, words: int = 1, options: MapOptions = DEFAULTS) -> float:
        from wordsens.theory import large_width_limit  # brings SciPy, which no other map needs

        return large_width_limit(
            n, words=words, depth=cls.limit_depth(options), activation=options.activation
        )

    @classmethod
    def limit_depth(cls, options: MapOptions) -> int | None:
        """Layers scaled by β of (7); None for one layer of unit scale."""
        return options.depth

    @classmethod
    def feature_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return options.width or n * d

    @classmethod
    def word_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return cls.feature_count(n, d, options) * d  # V_i

    @classmethod
    def trial_bytes(
        cls, n: int, d: int, options: MapOptions, *, effort: Effort, sets: int, size: int
    ) -> int:
        """Bases of the lazy matrices: two vectors of k numbers for every query of either side."""
        k = cls.feature_count(n, d, options)
        queries = effort.starts * (effort.steps + 1) * sets * 2
        held = 2 * k * queries * options.depth
        if k <= STORED:  # a matrix is stored before its bases outgrow it
            held = min(held, 2 * k * k * options.depth)
        return held * size

    @classmethod
    def sensitivity_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return 400 * 8 * options.depth * n * d  # bases of wide layers

    @classmethod
    def generalization_bytes(
        cls, n: int, d: int, options: MapOptions = DEFAULTS, *, size: int = 4
    ) -> int:
        p = cls.feature_count(n, d, options)
        return 60 * p * size + p * d * size  # candidates' features and V_i

    @classmethod
    def vocabulary_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        return 8 * 3 * n * d * d  # a block of features

    @classmethod
    def with_weights(
        cls,
        weights: Mapping[str, Any],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> DeepRandomFeatures:
        """Given V1 … VL, each (k, m) or (T, k, m)."""
        names = cls._layer_names(weights)
        given = cls.taken(weights, names, dtype, device)
        for name, V in zip(names, given, strict=True):
            if V.ndim not in (2, 3) or 0 in V.shape:
                raise UserError(
                    f"weights {name} have shape {tuple(V.shape)}; allowed are (k, m) and (T, k, m)"
                )
        layers = [DenseGaussian(V.reshape(-1, *V.shape[-2:])) for V in given]
        return cls(layers, activation(options.activation))

    @classmethod
    def _layer_names(cls, weights: Mapping[str, Any]) -> list[str]:
        depth = sum(name.startswith("V") for name in weights)
        return [f"V{layer}" for layer in range(1, max(depth, 1) + 1)]

    @classmethod
    def scale(cls, phi: Activation) -> float:
        """β: entries of V_1 have variance β/D."""
        return he_scale(phi.name)

    @classmethod
    def draw(
        cls,
        shape: tuple[int, int],
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> DeepRandomFeatures:
        D = shape[0] * shape[1]
        k, phi = options.width or D, activation(options.activation)
        first = PartedGaussian(
            k,
            D,
            [s.child("V", layer=1) for s in streams],
            std=(cls.scale(phi) / D) ** 0.5,
            dtype=dtype,
            device=device,
        )
        deeper = cls._deeper(k, options, streams, dtype, device)
        return cls([first, *deeper], phi, batched=True)

    @classmethod
    def _deeper(
        cls,
        k: int,
        options: MapOptions,
        streams: Sequence[Stream],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> list[GaussianMatrix]:
        std = (cls.scale(activation(options.activation)) / k) ** 0.5
        return [
            LazyGaussian(
                k,
                k,
                [stream.child("V", layer=layer) for stream in streams],
                std=std,
                dtype=dtype,
                device=device,
                storable=k <= STORED,
            )
            for layer in range(2, options.depth + 1)
        ]

    def features(self, X: torch.Tensor) -> torch.Tensor:
        """φ(X), (..., n, d) → (..., k); differentiable in X."""
        X = self.cast(X)
        lead = X.shape[:-2]
        h = X.reshape(self.batch or 1, -1, X.shape[-2] * X.shape[-1])
        for V in self.layers:
            h = self.phi.value(V(h))
        return h.reshape(*lead, h.shape[-1])

    def check_size(self, n: int, d: int) -> None:
        if n * d != self.layers[0].columns:
            raise UserError(
                f"X has n·d = {n * d}; this {self.name} map was built for n·d = "
                f"{self.layers[0].columns}"
            )

    def view(self, X: torch.Tensor, sets: torch.Tensor) -> RandomFeaturesView:
        if len(sets) > 1 or X.shape[0] != self.layers[0].batch:
            raise UserError(
                f"map {self.name} answers one sample and one set of positions per draw at a time; "
                "call it once for each"
            )
        d = X.shape[-1]
        index = (sets[0][:, None] * d + torch.arange(d, device=sets.device)).flatten()
        block = self.layers[0].part(index)  # before anything is asked of the whole
        z = self.layers[0].matvec(X.flatten(1).index_fill(1, index, 0)[:, None])
        return RandomFeaturesView(X[:, sets], z, block, self.layers[1:], self.phi)

    @classmethod
    def draw_view(
        cls,
        X: torch.Tensor,
        sets: torch.Tensor,
        streams: Sequence[Stream],
        options: MapOptions = DEFAULTS,
    ) -> RandomFeaturesView:
        """(z, V_I) for disjoint position sets, drawn directly; exactly the law of ``draw``."""
        if len(sets.unique()) != sets.numel():
            raise UserError(f"map {cls.name} needs position sets that share no position")
        (trials, n, d), (count, m) = X.shape, sets.shape
        D = n * d
        k, phi = options.width or D, activation(options.activation)
        beta = cls.scale(phi)
        block = LazyGaussian(
            k,
            m * d,
            [s.child("V", layer=1, words=words) for s in streams for words in sets.tolist()],
            std=(beta / D) ** 0.5,
            dtype=X.dtype,
            device=X.device,
        )
        tokens = X[:, sets]
        own = block.matvec(tokens.reshape(trials * count, 1, m * d)).reshape(trials, count, k)
        # the words outside all sets: one vector of the law of Σ V_j x_j
        left = torch.linalg.vector_norm(X.index_fill(1, sets.flatten(), 0), dim=(1, 2))
        rest = torch.stack([s.child("rest").normal(k, dtype=X.dtype) for s in streams])
        rest = rest.to(X.device) * (left * (beta / D) ** 0.5)[:, None]
        z = rest[:, None] + own.sum(1, keepdim=True) - own
        deeper = cls._deeper(k, options, streams, X.dtype, X.device)
        return RandomFeaturesView(tokens, z, block, deeper, phi)

    @classmethod
    def draw_training(
        cls, X: torch.Tensor, stream: Stream, options: MapOptions = DEFAULTS, position: int = 0
    ) -> tuple[torch.Tensor, RandomFeaturesView]:
        """Features of all samples X (M, n, d), and the view of the first one, from one joint draw.

        V_1 (k×D, entries N(0, s²)) meets the samples only through its products with them and
        through its columns V_i at the changed word.  With G the Gram matrix of the samples without
        that word, G = L Lᵀ, the rows of V_1 𝒳ᵀ are those of V_i 𝒳_iᵀ + E Lᵀ for a k×M matrix E of
        independent N(0, s²), independent of V_i: exactly the joint law, nothing is conditioned.
        Deeper layers are the same lazy matrices for the samples and for the view.
        """
        M, n, d = X.shape
        k, phi = options.width or n * d, activation(options.activation)
        scale = (cls.scale(phi) / (n * d)) ** 0.5
        words = X[:, position]
        exact = words.to(torch.float64)
        L = square_root(gram(X.flatten(1)) - exact @ exact.mT).mul_(scale).to(X.dtype)
        block = stream.child("token").normal(k, d, dtype=X.dtype).mul_(scale).to(X.device)
        Phi, rest = X.new_empty(M, k), X.new_empty(k)
        drawing = stream.child("rest")
        for first in range(0, k, ROWS):
            rows = slice(first, min(first + ROWS, k))
            E = drawing.normal(rows.stop - first, M, dtype=X.dtype).to(X.device)
            Z = product(L, E)  # (M, rows)
            rest[rows] = Z[0]
            Phi[:, rows] = phi.value(Z.add_(product(words, block[rows])))
        deeper = cls._deeper(k, options, [stream], X.dtype, X.device)
        for V in deeper:
            Phi = phi.value(V.matvec(Phi[None])[0])
        view = RandomFeaturesView(
            words[None, :1, None], rest[None, None], DenseGaussian(block[None]), deeper, phi
        )
        return Phi, view


class RandomFeatures(DeepRandomFeatures):
    """φ(X) = ϕ(V flat(X)), V k×D with iid N(0, 1/D) entries (1)."""

    name = "rf"
    title = "Random features (RF)"
    short = "RF"
    options = ("width", "activation")
    needs = ()
    kernel_form = True
    weight_names = ("V1",)
    studies = EVERY
    coincide = True

    @classmethod
    def scale(cls, phi: Activation) -> float:
        return 1.0

    @classmethod
    def limit_depth(cls, options: MapOptions) -> int | None:
        return None

    @classmethod
    def _layer_names(cls, weights: Mapping[str, Any]) -> list[str]:
        return list(cls.weight_names)

    @classmethod
    def loss_effort_for(cls, n: int, d: int) -> LossEffort:
        small = 5_000 // (n * d)
        starts, rounds = max(3, min(16, small)), 2 if small else 1
        return LossEffort(starts, explore=30, polish=40, rounds=rounds, beside=min(4, small))
