"""Generalized linear models f(X, θ) = φ(X)ᵀθ trained to least squares, without projectors.

With Φ (N×p) the features of the training samples, K = ΦΦᵀ and p ≫ N, everything of Section 6 of
Bombari and Mondelli (2024) is a few products with Φ and solves with K:

    θ* = θ_0 + Φᵀ K⁺ (Y − Φθ_0)                                            (12)
    P⊥φ = φ − Φᵀ K⁺ Φφ           p numbers; the p×p projector never exists

    fine-tuned on (X, y)   θ* + φ (y − f(X, θ*)) / ‖φ‖²                        (14)
    re-trained with it     θ* + P⊥φ (y − f(X, θ*)) / ‖P⊥φ‖²                    (15), (22), (23)

K⁺ is the pseudo-inverse: repeated samples make K singular, and real corpora repeat themselves.
They are merged (``pseudoinverse``); the factorisation is a float64 Cholesky that is checked, and an
eigendecomposition with an explicit cutoff where K is singular to working precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from wordsens.arguments import all_finite, check_powers, real_number, real_tensor, several, single
from wordsens.errors import UserError, whole_number
from wordsens.gram import float64_columns, gram
from wordsens.maps.base import FeatureMap, position_sets
from wordsens.pseudoinverse import TWIN, GramFactor, contradictions
from wordsens.randomness import Stream
from wordsens.search.goals import Evaluation, Neighbourhood, evaluation, parse_goal
from wordsens.search.losses import Question, search_losses
from wordsens.tidy import Tidy

if TYPE_CHECKING:
    import pandas as pd


class LeastSquares:
    """The minimum-norm least-squares solution (12) over features Φ (N, p), any float dtype.

    θ* and all products are float64; Φ is converted in pieces.

    theta        θ* (p,)
    condition, rank, cutoff, factor   of K = ΦΦᵀ, see ``GramFactor``
    residual     max_j |f(X_j, θ*) − y_j|, zero to rounding when the labels are interpolated
    digits       decimal digits of the predictions, in units of the largest label, that rounding
                 leaves: ‖φ‖ ‖θ*‖ roundoffs of the features and ‖K‖ ‖α‖ of K are lost; 0 for none
    duplicates   how many samples have the features of an earlier one (see ``GramFactor``)
    contradictions   pairs (i, j) of such samples whose labels differ; f then fits their mean
    """

    def __init__(
        self, Phi: torch.Tensor, Y: torch.Tensor, theta0: torch.Tensor | None = None
    ) -> None:
        self.Phi = Phi
        self.noise = torch.finfo(Phi.dtype).eps
        K = gram(Phi)
        sizes = K.diagonal()[K.diagonal() != 0]
        if len(sizes) and not (sizes.min() > 1e-250 and sizes.max() < 1e250):
            raise UserError(
                f"samples have features of length {float(sizes.min()) ** 0.5:.3g} to "
                f"{float(sizes.max()) ** 0.5:.3g}, powers of which are no numbers; scale X"
            )
        self.factor = GramFactor(K, self.noise)
        self.condition, self.rank = self.factor.condition, self.factor.rank
        self.cutoff = self.factor.cutoff
        group = self.factor.group
        self.duplicates = len(group) - len(group.unique())
        self.contradictions = contradictions(group, Y)
        target = Y if theta0 is None else Y - self.times(theta0)
        alpha = self.factor.solve(target)
        self.theta = self.transposed(alpha)
        if theta0 is not None:
            self.theta = self.theta + theta0
        lost = self.noise * (K.diagonal().max() ** 0.5 * self.theta.norm()).item()
        lost += torch.finfo(torch.float64).eps * self.factor.top * alpha.norm().item()
        scale = Y.abs().max().item() or target.abs().max().item()
        share = max(lost / scale if scale else 0.0, 1e-15)
        self.digits = math.floor(-math.log10(share)) if share < 1 else 0
        fitted = K @ alpha - target if theta0 is None else self.times(self.theta) - Y
        self.residual = fitted.abs().max().item()  # Φθ* − Y

    def times(self, vector: torch.Tensor) -> torch.Tensor:
        """Φ vector (N,), for a vector (p,)."""
        found = vector.new_zeros(len(self.Phi))
        for columns, part in float64_columns(self.Phi):
            found += part @ vector[columns]
        return found

    def transposed(self, vector: torch.Tensor) -> torch.Tensor:
        """Φᵀ vector (p,), for a vector (N,)."""
        found = vector.new_empty(self.Phi.shape[1])
        for columns, part in float64_columns(self.Phi):
            found[columns] = vector @ part
        return found

    def orthogonal(self, phi: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """P⊥φ (p,) and K⁺Φφ (N,); projected twice, which removes the rounding of the first."""
        b = self.factor.solve(self.times(phi))
        rest, left = phi.clone(), torch.zeros_like(b)
        for columns, part in float64_columns(self.Phi):  # φ − Φᵀb, and Φ times it
            rest[columns] -= b @ part
            left += part @ rest[columns]
        return rest - self.transposed(self.factor.solve(left)), b

    def retraining(self, phi: torch.Tensor) -> torch.Tensor:
        """w (p,) with f(·, θ_r) = f(·, θ*) + ⟨φ(·), w⟩ (y − f(X, θ*)), φ = φ(X).

        w = P⊥φ/‖P⊥φ‖² (23).  Where φ lies in the span of the training features (N ≥ p, or X is
        one of the samples or its twin), that is 0/0 and the least-squares update (Greville's) takes
        its place: w = (ΦᵀΦ)⁺φ / (1 + φᵀ(ΦᵀΦ)⁺φ).
        """
        rest, b = self.orthogonal(phi)
        least = max((1e3 * self.noise) ** 2, 2 * TWIN) * (phi @ phi).item()
        if (rest @ rest).item() > max(least, 2 * self.factor.cutoff):
            return rest / (rest @ rest)
        return self.transposed(self.factor.solve(b)) / (1 + b @ b)

    def around(self, phi: torch.Tensor, y: float) -> Neighbourhood:
        """The model as seen from a new sample with features φ (p,) and label y."""
        phi = phi.to(torch.float64)
        w = self.retraining(phi)
        u = torch.stack([self.theta, phi / (phi @ phi), w])
        f_x = u[0] @ phi
        label = torch.as_tensor(y, dtype=torch.float64, device=phi.device)
        return Neighbourhood(
            u[None], f_x[None], label[None], (f_x + (w @ phi) * (label - f_x))[None]
        )


@dataclass(frozen=True, repr=False)
class SearchResult(Tidy, Evaluation):
    """A change Δ (d,) that a search found, the value of its loss, and what the models say of it.

    ``start`` names the start that won, ``steps`` the evaluations that the search took.
    """

    delta: torch.Tensor
    loss: float
    start: str
    steps: int
    about: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        return (
            f"loss {self.loss:.4g}, γ {self.gamma:.4g}, test error {self.err_finetuned:.4g} "
            f"fine-tuned, {self.err_retrained:.4g} re-trained"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row per way of training, as in a workflow's tables."""
        import pandas as pd

        shared = {"trial": 0, "limit": float("nan"), **self.about}
        shared |= {"value": self.loss, "start": self.start, "gamma": self.gamma}
        errors = {"finetuned": self.err_finetuned, "retrained": self.err_retrained}
        table = pd.DataFrame([{**shared, "mode": k, "error": v} for k, v in errors.items()])
        line = max(2 - self.gamma, 0) ** 2
        return table.assign(below_line=table["error"] < line)


class Model:
    """f(X) = φ(X)ᵀθ*, trained by ``fit``; see ``LeastSquares`` for what is reported of the fit."""

    def __init__(self, map: FeatureMap, solution: LeastSquares) -> None:
        self.map, self.solution = map, solution

    def __repr__(self) -> str:
        return (
            f"Model({self.map.name}, {len(self.solution.Phi)} samples, condition "
            f"{self.condition:.3g}, residual {self.residual:.2g}, {self.digits:.0f} digits)"
        )

    def __getattr__(self, name: str) -> Any:
        reported = ("theta", "condition", "rank", "cutoff", "residual", "digits")
        if name in (*reported, "duplicates", "contradictions"):
            return getattr(self.solution, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def predict(self, X: Any) -> torch.Tensor:
        """f(X, θ*), (...) for X (..., n, d)."""
        X = self.map.cast(X, graph=False)
        flat = X.reshape(-1, *X.shape[-2:])
        return (self.map.rows(flat).to(torch.float64) @ self.theta).reshape(X.shape[:-2])

    def evaluate(
        self, x: Any, y: float, delta: Any, position: int | Sequence[int] = 0
    ) -> Evaluation:
        """The fine-tuned and re-trained models on x with its word at ``position`` moved by Δ.

        x (n, d) with label y is the new sample, ``delta`` (d,) or any number of them (..., d);
        for m positions at once, (..., m, d).  Numbers for one Δ, tensors (...) for several.
        """
        delta = real_tensor("delta", delta)
        around = self._around(x, y)
        changed = self.map.perturb(self.map.cast(x, graph=False), position).features(delta)
        tail = 2 if single(position) is None else 1
        lead = delta.shape[: delta.ndim - tail]
        phi = changed.reshape(1, -1, around.u.shape[-1]).to(torch.float64)
        found = evaluation(phi @ around.u.mT, around)
        return found.reshaped(lead) if lead else found.plain()

    def search(
        self,
        x: Any,
        y: float,
        loss: str = "features",
        penalty: float = 0.0,
        search: str = "spectral",
        *,
        position: int | Sequence[int] = 0,
        starts: int | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Minimise a loss over ‖Δ‖ ≤ √d.

        ``loss`` is "features" (145), "alignment" (146), "error_finetuned" or "error_retrained"
        (16); ``penalty`` p adds p·(f(X^i(Δ), θ*) − f(X, θ*))², as in (147)–(149).  "change"
        maximises |f(X^i(Δ)) − f(X)| of the re-trained model (Appendix E).  ``search`` is
        "spectral" (projected gradients with spectral steps, several starts), "published" (the
        authors' projected gradient descent from Δ = 0) or "thorough" (both).  Raises
        ``UserError`` for unknown names.
        """
        goals = [(loss, penalty)]
        return self.search_all(x, y, goals, search, position=position, starts=starts, seed=seed)[0]

    def search_all(
        self,
        x: Any,
        y: float,
        goals: Sequence[tuple[str, float]],
        search: str = "spectral",
        *,
        position: int | Sequence[int] = 0,
        starts: int | None = None,
        seed: int = 0,
    ) -> list[SearchResult]:
        """``search`` for several (loss, penalty) at once, which learn from each other's steps."""
        if starts is not None:
            starts = whole_number("starts", starts)
        parsed = [parse_goal(loss, penalty) for loss, penalty in goals]
        around = self._around(x, y)
        sample = self.map.cast(x, graph=False)
        alone = single(position)
        chosen = several(position) if alone is None else [alone]
        view = self.map.view(
            sample[None], position_sets([chosen], sample.shape[0]).to(sample.device)
        )
        effort = self.map.loss_effort_for(*sample.shape)
        if starts is not None:
            effort = replace(effort, starts=starts)
        schedule = self.map.published_descent(sample.shape[0])
        streams = [Stream(seed, "search")]
        asked = Question(view, around, parsed, streams, schedule, effort)
        found = search_losses(asked, search)
        deltas = found.delta[0] if alone is None else found.delta[0, :, 0]
        changed = self.map.perturb(sample, position).features(deltas)
        phi = changed.reshape(1, -1, around.u.shape[-1]).to(torch.float64)
        quantities = evaluation(phi @ around.u.mT, around)
        return [
            SearchResult(
                **{name: value[0, j].item() for name, value in vars(quantities).items()},
                delta=delta,
                loss=_found(found.value[0, j].item()),
                start=found.start[0][j],
                steps=found.steps,
                about=self._about(sample, *goals[j]),
            )
            for j, delta in enumerate(deltas)
        ]

    def _about(self, sample: torch.Tensor, loss: str, penalty: float) -> dict[str, Any]:
        n, d = sample.shape
        sizes = {"map": self.map.name, "d": d, "n": n, "N": len(self.solution.Phi)}
        return {"study": "", **sizes, "loss": loss, "penalty": float(penalty)}

    def _around(self, x: Any, y: float) -> Neighbourhood:
        sample = self.map.cast(x, graph=False)
        if sample.ndim != 2:
            raise UserError(f"x has shape {tuple(sample.shape)}; one sample is (n, d)")
        y = real_number("y", y)
        return self.solution.around(self.map.rows(sample[None])[0], y)


def _found(loss: float) -> float:
    """A loss; NaN where no Δ has one, as without features."""
    return loss if math.isfinite(loss) else math.nan


def fit(map: FeatureMap, X: Any, Y: Any, theta0: Any = None) -> Model:
    """Train f(·, θ) = φ(·)ᵀθ on samples X (N, n, d) with labels Y (N,): θ* of (12).

    ``theta0`` (p,) is where gradient descent starts; θ* interpolates nearest to it.  Features are
    kept in the map's precision, the factorisation is float64, and neither float64 features nor
    anything p×p is formed, so that memory is little more than N·p numbers.  Raises ``UserError``
    for shapes that do not fit and for a map with several draws.

    >>> import torch, wordsens
    >>> X = torch.randn(20, 6, 8, generator=torch.Generator().manual_seed(0))
    >>> Y = torch.tensor([1.0, -1.0] * 10)
    >>> model = wordsens.fit(wordsens.build_map("raf", d=8, seed=0), X, Y)
    >>> bool(abs(model.predict(X) - Y).max() < 1e-6)
    True
    """
    if not isinstance(map, FeatureMap):
        raise UserError(f"map = {map!r} is no feature map; make one with build_map")
    X = real_tensor("X", X)
    if X.ndim != 3 or len(X) == 0:
        raise UserError(
            f"X has shape {tuple(X.shape)}; fit takes training samples (N, n, d), N ≥ 1"
        )
    if map.batch is not None:
        raise UserError(f"fit takes one map, not a batch of {map.batch} draws; see build_map")
    given = real_tensor("Y", Y)
    if given.ndim > 2 or (given.ndim == 2 and given.shape[1] != 1):
        raise UserError(f"Y has shape {tuple(given.shape)}; labels are (N,), one for each sample")
    check_powers("Y", given.double())
    labels = given.to(dtype=torch.float64, device=map.device).flatten()
    if len(labels) != len(X):
        raise UserError(f"Y has {len(labels)} labels for {len(X)} samples; give one each")
    Phi = map.rows(X)
    if not all_finite(Phi):
        raise UserError("X has samples whose features are not finite; look for nan or inf in X")
    start = None
    if theta0 is not None:
        start = real_tensor("theta0", theta0).to(dtype=torch.float64, device=map.device).flatten()
        if len(start) != Phi.shape[1]:
            raise UserError(f"theta0 has {len(start)} entries; the map has p = {Phi.shape[1]}")
    return Model(map, LeastSquares(Phi, labels, start))
