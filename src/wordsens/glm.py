"""Generalized linear models f(X, θ) = φ(X)ᵀθ trained to least squares, without projectors.

With Φ (N×p) the features of the training samples, K = ΦΦᵀ and p ≫ N, everything of Section 6 of
Bombari and Mondelli (2024) is a few products with Φ and solves with K:

    θ* = θ_0 + Φᵀ K⁺ (Y − Φθ_0)                                            (12)
    P⊥φ = φ − Φᵀ K⁺ Φφ           p numbers; the p×p projector never exists

    fine-tuned on (X, y)   θ* + φ (y − f(X, θ*)) / ‖φ‖²                        (14)
    re-trained with it     θ* + P⊥φ (y − f(X, θ*)) / ‖P⊥φ‖²                    (15), (22), (23)

K⁺ is the pseudo-inverse: repeated samples make K singular, and real corpora repeat themselves.
The factorisation is a float64 Cholesky that is checked, and an eigendecomposition with an explicit
cutoff where K is singular to working precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from wordsens.errors import UserError
from wordsens.gram import float64_columns, gram
from wordsens.search.goals import Evaluation, Neighbourhood, evaluation, parse_goal
from wordsens.search.losses import search_losses

if TYPE_CHECKING:
    from wordsens.maps import FeatureMap


class GramFactor:
    """K⁺ for a positive semidefinite K (N, N), float64.

    ``kind`` is "cholesky", or "eigen" where the smallest eigenvalue is not above ``cutoff``: then
    eigenvalues up to the cutoff count as zero.  ``rank`` eigenvalues are kept and ``condition``
    is the ratio of the largest to the smallest of them.

    ``noise`` is the unit roundoff of the features K was made of: rounding of the features moves
    eigenvalues by about noise² times the trace of K, rounding of K itself by N eps times the
    largest one.
    """

    def __init__(self, K: torch.Tensor, noise: float) -> None:
        values = torch.linalg.eigvalsh(K).clamp_min(0)
        top = values[-1].item()
        eps = torch.finfo(torch.float64).eps
        self.cutoff = max(len(K) * eps * top, 100 * noise**2 * K.trace().item())
        self.kind = "cholesky" if values[0].item() > self.cutoff else "eigen"
        if self.kind == "cholesky":
            self._root, failed = torch.linalg.cholesky_ex(K)
            self.kind = "eigen" if failed.item() else "cholesky"
        kept = values[values > self.cutoff]
        if self.kind == "eigen":
            values, vectors = torch.linalg.eigh(K)
            keep = values > self.cutoff
            kept, self._vectors = values[keep], vectors[:, keep]
            self._values = kept
        self.rank = len(kept)
        self.condition = (kept[-1] / kept[0]).item() if self.rank else float("nan")

    def solve(self, b: torch.Tensor) -> torch.Tensor:
        """K⁺ b for b (N,)."""
        if self.kind == "cholesky":
            return torch.cholesky_solve(b[:, None], self._root)[:, 0]
        return self._vectors @ ((self._vectors.mT @ b) / self._values)


class LeastSquares:
    """The minimum-norm least-squares solution (12) over features Φ (N, p), any float dtype.

    θ* and all products are float64; Φ is converted in pieces.

    theta        θ* (p,)
    condition, rank, cutoff, factor   of K = ΦΦᵀ, see ``GramFactor``
    residual     max_j |f(X_j, θ*) − y_j|, zero to rounding when the labels are interpolated
    duplicates   how many samples have the features of an earlier one
    contradictions   pairs (i, j) of such samples whose labels differ; f then fits their mean
    """

    def __init__(
        self, Phi: torch.Tensor, Y: torch.Tensor, theta0: torch.Tensor | None = None
    ) -> None:
        self.Phi = Phi
        self.noise = torch.finfo(Phi.dtype).eps
        K = gram(Phi)
        self.factor = GramFactor(K, self.noise)
        self.condition, self.rank = self.factor.condition, self.factor.rank
        self.cutoff = self.factor.cutoff
        self.duplicates, self.contradictions = _twins(K, Y)
        target = Y if theta0 is None else Y - self.times(theta0)
        alpha = self.factor.solve(target)
        self.theta = self.transposed(alpha)
        if theta0 is not None:
            self.theta = self.theta + theta0
        self.residual = (K @ alpha - target).abs().max().item()  # Φθ* − Y

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
        rest = phi - self.transposed(b)
        return rest - self.transposed(self.factor.solve(self.times(rest))), b

    def retraining(self, phi: torch.Tensor) -> torch.Tensor:
        """w (p,) with f(·, θ_r) = f(·, θ*) + ⟨φ(·), w⟩ (y − f(X, θ*)), φ = φ(X).

        w = P⊥φ/‖P⊥φ‖² (23).  Where φ lies in the span of the training features (N ≥ p, or X is
        one of the samples), that is 0/0 and the least-squares update (Greville's) takes its
        place: w = (ΦᵀΦ)⁺φ / (1 + φᵀ(ΦᵀΦ)⁺φ).
        """
        rest, b = self.orthogonal(phi)
        if rest.norm() > 1e3 * self.noise * phi.norm():
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


@dataclass(frozen=True)
class SearchResult(Evaluation):
    """A change Δ (d,) that a search found, the value of its loss, and what the models say of it.

    ``start`` names the start that won, ``steps`` the evaluations that the search took.
    """

    delta: torch.Tensor
    loss: float
    start: str
    steps: int


class Model:
    """f(X) = φ(X)ᵀθ*, trained by ``fit``; see ``LeastSquares`` for what is reported of the fit."""

    def __init__(self, map: FeatureMap, solution: LeastSquares) -> None:
        self.map, self.solution = map, solution

    def __getattr__(self, name: str) -> Any:
        reported = ("theta", "condition", "rank", "cutoff", "residual", "duplicates")
        if name in (*reported, "contradictions"):
            return getattr(self.solution, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def predict(self, X: Any) -> torch.Tensor:
        """f(X, θ*), (...) for X (..., n, d)."""
        X = torch.as_tensor(X)
        flat = X.reshape(-1, *X.shape[-2:])
        return (self.map.rows(flat).to(torch.float64) @ self.theta).reshape(X.shape[:-2])

    def evaluate(
        self, x: Any, y: float, delta: Any, position: int | Sequence[int] = 0
    ) -> Evaluation:
        """The fine-tuned and re-trained models on x with its word at ``position`` moved by Δ.

        x (n, d) with label y is the new sample, ``delta`` (d,) or any number of them (..., d);
        for m positions at once, (..., m, d).  Numbers for one Δ, tensors (...) for several.
        """
        delta = torch.as_tensor(delta)
        around = self._around(x, y)
        changed = self.map.perturb(self.map.cast(x), position).features(delta)
        tail = 1 if isinstance(position, int) else 2
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
        method: str = "spectral",
        *,
        position: int | Sequence[int] = 0,
        starts: int | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Minimise a loss over ‖Δ‖ ≤ √d.

        ``loss`` is "features" (145), "alignment" (146), "error_finetuned" or "error_retrained"
        (16); ``penalty`` p adds p·(f(X^i(Δ), θ*) − f(X, θ*))², as in (147)–(149).  "change"
        maximises |f(X^i(Δ)) − f(X)| of the re-trained model (Appendix E).  ``method`` is
        "spectral" (projected gradients with spectral steps, several starts), "published" (the
        authors' projected gradient descent from Δ = 0) or "thorough" (both).  Raises
        ``UserError`` for unknown names.
        """
        goals = [(loss, penalty)]
        return self.search_all(x, y, goals, method, position=position, starts=starts, seed=seed)[0]

    def search_all(
        self,
        x: Any,
        y: float,
        goals: Sequence[tuple[str, float]],
        method: str = "spectral",
        *,
        position: int | Sequence[int] = 0,
        starts: int | None = None,
        seed: int = 0,
    ) -> list[SearchResult]:
        """``search`` for several (loss, penalty) at once, which learn from each other's steps."""
        from wordsens.maps import position_sets
        from wordsens.randomness import Stream

        parsed = [parse_goal(loss, penalty) for loss, penalty in goals]
        around = self._around(x, y)
        sample = self.map.cast(x)
        chosen = [position] if isinstance(position, int) else list(position)
        view = self.map.view(
            sample[None], position_sets([chosen], sample.shape[0]).to(sample.device)
        )
        effort = self.map.loss_effort_for(*sample.shape)
        found = search_losses(
            view,
            around,
            parsed,
            [Stream(seed, "search")],
            schedule=self.map.published_descent(sample.shape[0]),
            effort=effort if starts is None else replace(effort, starts=starts),
            method=method,
        )
        deltas = found.delta[0, :, 0] if isinstance(position, int) else found.delta[0]
        changed = self.map.perturb(sample, position).features(deltas)
        phi = changed.reshape(1, -1, around.u.shape[-1]).to(torch.float64)
        quantities = evaluation(phi @ around.u.mT, around)
        return [
            SearchResult(
                **{name: value[0, j].item() for name, value in vars(quantities).items()},
                delta=delta,
                loss=found.value[0, j].item(),
                start=found.start[0][j],
                steps=found.steps,
            )
            for j, delta in enumerate(deltas)
        ]

    def _around(self, x: Any, y: float) -> Neighbourhood:
        sample = self.map.cast(x)
        if sample.ndim != 2:
            raise UserError(f"x has shape {tuple(sample.shape)}; one sample is (n, d)")
        if not math.isfinite(y):
            raise UserError(f"y = {y} is no label; give a number, −1 or 1 as a rule")
        return self.solution.around(self.map.rows(sample[None])[0], y)


def fit(map: FeatureMap, X: Any, Y: Any, theta0: Any = None) -> Model:
    """Train f(·, θ) = φ(·)ᵀθ on samples X (N, n, d) with labels Y (N,): θ* of (12).

    ``theta0`` (p,) is where gradient descent starts; θ* interpolates nearest to it.  Features are
    kept in the map's precision, the factorisation is float64, and neither float64 features nor
    anything p×p is formed, so that memory is little more than N·p numbers.  Raises ``UserError``
    for shapes that do not fit and for a map with several draws.
    """
    X = torch.as_tensor(X)
    if X.ndim != 3 or len(X) == 0:
        raise UserError(
            f"X has shape {tuple(X.shape)}; fit takes training samples (N, n, d), N ≥ 1"
        )
    if map.batch is not None:
        raise UserError(f"fit takes one map, not a batch of {map.batch} draws; see build_map")
    labels = torch.as_tensor(Y).to(dtype=torch.float64, device=map.device).flatten()
    if len(labels) != len(X):
        raise UserError(f"Y has {len(labels)} labels for {len(X)} samples; give one each")
    if not labels.isfinite().all():
        raise UserError("Y holds nan or inf; labels are numbers, −1 and 1 as a rule")
    Phi = map.rows(X)
    if not Phi.isfinite().all():
        raise UserError("X has samples whose features are not finite; look for nan or inf in X")
    start = None
    if theta0 is not None:
        start = torch.as_tensor(theta0).to(dtype=torch.float64, device=map.device).flatten()
        if len(start) != Phi.shape[1]:
            raise UserError(f"theta0 has {len(start)} entries; the map has p = {Phi.shape[1]}")
    return Model(map, LeastSquares(Phi, labels, start))


def _twins(K: torch.Tensor, Y: torch.Tensor) -> tuple[int, list[tuple[int, int]]]:
    """How many samples repeat an earlier one, and the repeating pairs of different labels."""
    square = K.diagonal()
    gap = square[:, None] + square - 2 * K
    same = (gap <= 1e-11 * (square[:, None] + square)).tril(-1)
    later, earlier = (same & (Y[:, None] != Y)).nonzero(as_tuple=True)
    pairs = sorted(zip(earlier.tolist(), later.tolist(), strict=True))
    return int(same.any(1).sum()), pairs
