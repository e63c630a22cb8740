"""The tangent kernel of a deep network and its smallest eigenvalue, without a Jacobian.

A fully connected network without biases, f_0 = x, f_l = ϕ(W_l f_{l−1}) for l < L, f = W_L f_{L−1},
has

    K = JJᵀ = Σ_{l=0}^{L−1} F_l F_lᵀ ∘ B_{l+1} B_{l+1}ᵀ,

F_l (n, m_l) the features and B_l = ∂f/∂(W_l f_{l−1}) (n, m_l) the back-propagated vectors of all
samples: b_L = 1, b_l = ϕ'(W_l f_{l−1}) ∘ W_{l+1}ᵀ b_{l+1} (Mondelli's talk; Bombari, Amani and
Mondelli, 2022).  A layer costs n² m_l operations.  Entries of W_l are N(0, 1/m_{l−1}).

K has rank min(n, p) at most, so that λ_min > 0 needs p ≥ n: widths of order √n.  Below that what is
computed as λ_min is rounding, of the order of ``floor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from wordsens.activations import Activation
from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream
from wordsens.robustness.input_sensitivity import Functions, chosen_activation, numbers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class TangentKernel:
    """K of n samples.

    matrix      K (n, n), float64
    parameters  p, the number of weights
    widths, activation   of the hidden layers
    """

    matrix: torch.Tensor
    parameters: int
    widths: tuple[int, ...]
    activation: str

    @cached_property
    def eigenvalues(self) -> torch.Tensor:
        """In ascending order, (n,)."""
        return torch.linalg.eigvalsh(self.matrix)

    @property
    def smallest(self) -> float:
        """λ_min(K); of the order of ``floor``, of either sign, where it is zero."""
        return self.eigenvalues[0].item()

    @property
    def largest(self) -> float:
        return self.eigenvalues[-1].item()

    @property
    def floor(self) -> float:
        """√n eps λ_max: what rounding of K's entries and of its eigenvalues may make of zero."""
        return len(self.matrix) ** 0.5 * torch.finfo(torch.float64).eps * self.largest

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.widths))
        return (
            f"TangentKernel({self.activation}, widths {shape}, n={len(self.matrix)}, "
            f"p={self.parameters}: λ_min = {self.smallest:.3g}, floor {self.floor:.1g})"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row per eigenvalue, the smallest first."""
        import pandas as pd

        return pd.DataFrame(
            {
                "index": range(len(self.matrix)),
                "eigenvalue": self.eigenvalues.numpy(),
                "floor": self.floor,
                "n": len(self.matrix),
                "parameters": self.parameters,
                "activation": self.activation,
            }
        )

    def plot(self, axes: Axes | None = None) -> Axes:
        """The spectrum of K above the floor of rounding."""
        import wordsens  # which only forwards names, so that no cell depends on figures

        return wordsens.plot(self, axes=axes)


def tangent_kernel(
    X: Any,
    widths: Sequence[int] | None = None,
    *,
    activation: Functions = "softplus",
    weights: Sequence[Any] | None = None,
    seed: int = 0,
) -> TangentKernel:
    """K at X (n, d) of a network with hidden layers of ``widths`` and one output, freshly drawn.

    ``weights`` are W_1 (m_1, d), …, W_L (1, m_{L−1}) in place of ``widths`` and ``seed``.  Raises
    ``UserError`` for arguments that do not fit.
    """
    X = numbers("X", X)
    if X.ndim != 2 or 0 in X.shape:
        raise UserError(f"X has shape {tuple(X.shape)}; allowed is (n, d)")
    phi = chosen_activation(activation)
    if (weights is None) == (widths is None):
        raise UserError("tangent_kernel needs widths or weights, and not both")
    if widths is not None:
        if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
            raise UserError(
                f"widths = {widths!r} must be a list of whole numbers, such as [30, 30]"
            )
        sizes = [whole_number("widths", width) for width in widths]
        layers = draw_layers(X.shape[1], sizes, Stream(seed, "tangent kernel"))
    else:
        layers = [numbers("weights", W) for W in weights or ()]
        _chained(layers, X.shape[1])
    return kernel_of(X, layers, phi)


def draw_layers(d: int, widths: Sequence[int], stream: Stream) -> list[torch.Tensor]:
    """W_1, …, W_L with entries N(0, 1/fan-in) for hidden layers of ``widths`` and one output."""
    sizes = [d, *widths, 1]
    return [
        stream.child("layer", layer=layer).normal(rows, columns, dtype=torch.float64) / columns**0.5
        for layer, (columns, rows) in enumerate(pairwise(sizes), start=1)
    ]


def kernel_of(X: torch.Tensor, layers: Sequence[torch.Tensor], phi: Activation) -> TangentKernel:
    """K at X (n, d), float64, of the network with these layers."""
    _, features, backwards = passes(X, layers, phi)
    K = X.new_zeros(len(X), len(X))
    for F, B in zip(features, backwards, strict=True):
        K.addcmul_(F @ F.mT, B @ B.mT)
    widths = tuple(len(W) for W in layers[:-1])
    return TangentKernel(K, sum(W.numel() for W in layers), widths, phi.name)


def passes(
    X: torch.Tensor, layers: Sequence[torch.Tensor], phi: Activation
) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    """f (n,), features F_0 … F_{L−1} and back-propagated vectors B_1 … B_L."""
    features, slopes = [X], []
    for W in layers[:-1]:
        before = features[-1] @ W.mT
        features.append(phi.value(before))
        slopes.append(phi.derivative(before))
    output = (features[-1] @ layers[-1].mT)[:, 0]
    backwards = [X.new_ones(len(X), 1)]
    for W, slope in zip(reversed(layers[1:]), reversed(slopes), strict=True):
        backwards.append(slope * (backwards[-1] @ W))
    return output, features, backwards[::-1]


def _chained(layers: Sequence[torch.Tensor], d: int) -> None:
    shapes = [tuple(W.shape) for W in layers]
    columns = [d, *(shape[0] for shape in shapes if shape)]
    fits = len(shapes) > 1 and all(
        len(shape) == 2 and 0 not in shape and shape[1] == wanted
        for shape, wanted in zip(shapes, columns, strict=False)
    )
    if not fits or shapes[-1][0] != 1:
        raise UserError(
            f"weights have shapes {', '.join(map(str, shapes))}; for X of {d} columns they must be "
            f"(m1, {d}), (m2, m1), …, (1, m)"
        )
