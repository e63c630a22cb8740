"""Input sensitivity S(x) = ‖x‖ ‖∇f(x)‖ of a minimum-norm interpolator, ``input_sensitivity``.

To first order, an attack with ‖Δ‖ ≤ δ‖x‖ changes f by at most δ S(x); the norm of x makes S
independent of the units of x.  An interpolator is robust where S stays of order one.  Any model of
p parameters that fits n noisy labels in dimension d has a Lipschitz constant of order √(nd/p) at
least (Bubeck and Sellke, 2021); tangent features with an even activation reach it and random
features with E ϕ' ≠ 0 stay above n^{1/6} whatever p (Bombari, Kiyani and Mondelli, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from wordsens.activations import Activation, own_activation
from wordsens.activations import activation as activation_by_name
from wordsens.arguments import check_powers, real_tensor
from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream
from wordsens.robustness.interpolator import INTERPOLATORS, Interpolator
from wordsens.robustness.rows import GivenRows, Rows
from wordsens.robustness.texts import TextInterpolator

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from wordsens.maps import FeatureMap

Model = Interpolator | TextInterpolator
Functions = str | Activation | Sequence[Callable[[torch.Tensor], torch.Tensor]]


@dataclass(frozen=True)
class InputSensitivity:
    """S and what it is made of; plain numbers for one point x, tensors (m,) for several.

    sensitivity  S(x) = ‖x‖ ‖∇f(x)‖
    gradient     ∇f(x), of the shape of x
    output       f(x)
    by_token     for texts, ‖x_i‖ ‖∇_{x_i} f(X)‖ of every token, (n,) or (m, n); else None
    features, activation   the map and its ϕ ("" where it has none)
    samples, dimension, parameters   n (of training samples), d (of one of them) and p
    condition, rank, residual   of K and of the fit, see ``Interpolator``
    """

    sensitivity: Any
    gradient: torch.Tensor
    output: Any
    by_token: torch.Tensor | None
    features: str
    activation: str
    samples: int
    dimension: int
    parameters: int
    condition: float
    rank: int
    residual: float

    @property
    def universal(self) -> float:
        """√(nd/p), the order of the least sensitivity that p parameters allow."""
        return math.sqrt(self.samples * self.dimension / self.parameters)

    def __repr__(self) -> str:
        values = torch.as_tensor(self.sensitivity)
        shown = f"{values.mean():.3g}" + (f" (mean of {len(values)})" if values.ndim else "")
        named = ", ".join(filter(None, (self.features, self.activation)))
        return (
            f"InputSensitivity({named}, n={self.samples}, d={self.dimension}, p={self.parameters}: "
            f"S = {shown}, √(nd/p) = {self.universal:.3g}, residual {self.residual:.1g})"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row per point; for texts one per point and token."""
        import pandas as pd

        S, f = torch.as_tensor(self.sensitivity).reshape(-1), torch.as_tensor(self.output)
        table = pd.DataFrame(
            {
                "point": range(len(S)),
                "features": self.features,
                "activation": self.activation,
                "n": self.samples,
                "d": self.dimension,
                "parameters": self.parameters,
                "sensitivity": S.numpy(),
                "output": f.reshape(-1).numpy(),
                "universal": self.universal,
            }
        )
        if self.by_token is None:
            return table
        tokens = self.by_token.reshape(len(S), -1)
        table = table.loc[table.index.repeat(tokens.shape[1])].reset_index(drop=True)
        table["token"] = list(range(tokens.shape[1])) * len(S)
        table["token_sensitivity"] = tokens.reshape(-1).numpy()
        return table

    def plot(self, axes: Axes | None = None) -> Axes:
        """S of every point beside √(nd/p); for texts, of every token, averaged over the texts."""
        import wordsens  # which only forwards names, so that no cell depends on figures

        return wordsens.plot(self, axes=axes)


def input_sensitivity(
    X: Any,
    y: Any,
    x: Any,
    features: str | FeatureMap = "ntk",
    *,
    width: int | None = None,
    activation: Functions = "tanh",
    weights: Any = None,
    seed: int = 0,
) -> InputSensitivity:
    """S(x) of the minimum-norm interpolator of labels y at the samples X.

    X (n, d) and x (d,) or (m, d), as they are: theory has ‖x‖ = √d.  ``features`` is "rf", ϕ(Vx),
    or "ntk", x ⊗ ϕ'(Wx), of ``width`` k; V or W (k, d) is ``weights``, or drawn with entries
    N(0, 1/d) from ``seed``.  ``activation`` is a name, or functions (ϕ, ϕ') or (ϕ, ϕ', ϕ'').

    Of texts, X is (N, n, d) and x (n, d) or (m, n, d): rf and ntk then see a text as one vector,
    and ``features`` may also be a feature map such as ``build_map("raf", d=d)`` or the name of an
    attention map.  Raises ``UserError`` for arguments that do not fit.
    """
    X = numbers("X", X)
    if X.ndim not in (2, 3) or 0 in X.shape:
        raise UserError(f"X has shape {tuple(X.shape)}; allowed are (n, d), or (N, n, d) for texts")
    y = numbers("y", y).reshape(-1)
    if len(y) != len(X):
        raise UserError(f"y has {len(y)} labels for {len(X)} samples; give one each")
    x = numbers("x", x)
    if x.shape[-(X.ndim - 1) :] != X.shape[1:] or x.ndim not in (X.ndim - 1, X.ndim):
        raise UserError(f"x has shape {tuple(x.shape)}; samples of X have {tuple(X.shape[1:])}")
    model = interpolate(
        X, y, features, width=width, activation=activation, weights=weights, seed=seed
    )
    return sensitivity_at(model, x)


def interpolate(
    X: torch.Tensor,
    y: torch.Tensor,
    features: str | FeatureMap = "ntk",
    *,
    width: int | None = None,
    activation: Functions = "tanh",
    weights: Any = None,
    seed: int | Stream = 0,
) -> Model:
    """The interpolator that ``input_sensitivity`` looks at; float64 arguments, checked there."""
    if not isinstance(features, str) or features not in INTERPOLATORS:
        map = _text_map(features, X, seed)
        for name, value in {"width": width, "weights": weights}.items():
            if value is not None:
                raise UserError(f"{name} is only for features rf and ntk; leave it out")
        return TextInterpolator(map, X, y)
    phi = chosen_activation(activation)
    d = X[0].numel()
    if (width is None) == (weights is None):
        raise UserError(f"features {features} need a width or weights, and not both")
    if weights is None:
        stream = seed if isinstance(seed, Stream) else Stream(seed, "robustness", map=features)
        rows = Rows(whole_number("width", width), d, stream, X.device)
    else:
        rows = GivenRows(numbers("weights", weights).to(X.device))
        if rows.d != d:
            raise UserError(f"weights have {rows.d} columns; samples of X have {d} numbers")
    return INTERPOLATORS[features](X, y, rows, phi)


def sensitivity_at(model: Model, x: torch.Tensor) -> InputSensitivity:
    """S of a fitted interpolator at x, one sample or several."""
    f, gradient = model.value_and_gradient(x)
    dims = tuple(range(-len(model.shape), 0))
    S = torch.linalg.vector_norm(x, dim=dims) * torch.linalg.vector_norm(gradient, dim=dims)
    single = f.ndim == 0
    phi = getattr(model, "phi", None)
    return InputSensitivity(
        sensitivity=S.item() if single else S,
        gradient=gradient,
        output=f.item() if single else f,
        by_token=x.norm(dim=-1) * gradient.norm(dim=-1) if len(dims) == 2 else None,
        features=model.name,
        activation=phi.name if phi else "",
        samples=len(model.X),
        dimension=math.prod(model.shape),
        parameters=model.parameters,
        condition=model.condition,
        rank=model.rank,
        residual=model.residual,
    )


def chosen_activation(given: Functions) -> Activation:
    """An activation by name, of one's own, or as it is."""
    if isinstance(given, Activation):
        return given
    if isinstance(given, str):
        return activation_by_name(given)
    functions: tuple[Any, ...] = tuple(given) if isinstance(given, Sequence) else ()
    if len(functions) not in (2, 3) or not all(callable(each) for each in functions):
        raise UserError(
            f"activation = {given!r} must be a name or functions (ϕ, ϕ') or (ϕ, ϕ', ϕ'') of tensors"
        )
    return own_activation(*functions)


def _text_map(features: Any, X: torch.Tensor, seed: int | Stream) -> FeatureMap:
    from wordsens.maps import FeatureMap, build_map, declared

    if isinstance(features, FeatureMap):
        if X.ndim != 3:
            raise UserError(
                f"X has shape {tuple(X.shape)}; for a feature map of texts it must be (N, n, d)"
            )
        return features
    known = {name: cls for name, cls in declared().items() if "n" not in cls.sizes}
    if features not in known:
        allowed = ", ".join([*INTERPOLATORS, *known])
        raise UserError(f"features = {features!r} is not known; choose {allowed} or give a map")
    if X.ndim != 3:
        raise UserError(
            f"X has shape {tuple(X.shape)}; for features {features}, of texts, it must be (N, n, d)"
        )
    if isinstance(seed, Stream):
        return known[features].draw(
            (X.shape[1], X.shape[2]), [seed], dtype=X.dtype, device=X.device
        )
    return build_map(features, d=X.shape[-1], seed=seed, dtype=X.dtype, device=X.device)


def numbers(name: str, given: Any) -> torch.Tensor:
    """An array of finite real numbers in float64, the powers of which are finite too."""
    values = real_tensor(name, given).to(torch.float64)
    check_powers(name, values)
    return values
