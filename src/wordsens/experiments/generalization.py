"""One cell of a generalization study: does training on X teach a model X with a word changed?

A trial draws a map, N training samples and one more, trains a linear model on the map's features
(``glm``), and searches for changes Δ of the first word that minimise the losses of Section 6 and
Appendices E and F of Bombari and Mondelli (2024).  All losses, penalties and both ways of
training share the draw, the Gram matrix and its factorisation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wordsens.activations import Activation, activation
from wordsens.data.embeddings import open_embeddings
from wordsens.data.samples import draw_training_set
from wordsens.errors import UserError
from wordsens.gaussian import DenseGaussian
from wordsens.glm import LeastSquares, feature_rows, gram
from wordsens.maps import FeatureMap, MapOptions, map_class, position_sets
from wordsens.maps.random_features import RandomFeatures, RandomFeaturesView
from wordsens.perturbation import OneTokenView
from wordsens.progress import portion, reached
from wordsens.randomness import Stream
from wordsens.search.goals import (
    Evaluation,
    FoundLosses,
    Goal,
    Neighbourhood,
    evaluation,
    parse_goal,
    trade_off,
)
from wordsens.search.losses import effort_for, published_descent, search_losses

# What names a cell's randomness: the draws are the same whatever losses are asked of them.
NAMES = ("dataset", "map", "d", "n", "N", "width", "activation", "heads", "head_dim")
DEFAULT_LOSSES = ("features", "alignment", "error_finetuned", "error_retrained")
POSITION = 0  # the changed word, i = 1 in the paper
ROWS = 4096  # rows of the random features' matrix drawn at once
TRAINING = 0.4  # of a trial's time goes into its training set and model, roughly
CELL_BYTES = 1 << 28  # functionals of the trials searched together, roughly


def run_cell(
    cell: Mapping[str, Any], data: str | Path | None, device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """``trials`` independent trials of one (map, n, d, N).

    ``cell`` holds dataset, map, n, d, N, trials, seed and, optionally, losses × penalties (every
    pair is searched), tradeoff (limits on γ under which the errors are minimised), width,
    activation, heads, head_dim, precision and search.  ``data`` is the embeddings file, or None
    for synthetic Gaussian samples.

    Arrays by trial (T,): sample, f_x, f_x_retrained, norm, condition, rank, residual, digits,
    duplicates, contradictions, seconds.  By trial and search (T, J): loss, penalty, limit (inf
    where γ is free), value, start, gamma, feature_cosine, feature_alignment, f_delta,
    f_delta_finetuned, f_delta_retrained, err_finetuned, err_retrained, change, and
    below_finetuned, below_retrained (error < (2 − γ)² and γ < 2).  Raises ``UserError`` for
    samples that do not fit and unknown losses.
    """
    n, d, N, trials = cell["n"], cell["d"], cell["N"], cell["trials"]
    cls = map_class(cell["map"])
    if cls.name == "drf":
        raise UserError("map drf has no generalization experiment; choose rf, raf, relu_raf, qkv")
    dtype = getattr(torch, cell.get("precision") or "float32")
    pairs = [
        parse_goal(loss, penalty)
        for loss in cell.get("losses") or DEFAULT_LOSSES
        for penalty in cell.get("penalties") or (0.0,)
    ]
    goals = [*dict.fromkeys(pairs), *trade_off(cell.get("tradeoff") or ())]
    options = _options(cell)
    stream = Stream(cell["seed"], "glm", **{k: cell[k] for k in NAMES if cell.get(k) is not None})
    streams = [stream.child("trial", trial=t) for t in range(trials)]
    sets = position_sets([[POSITION]], n).to(device)
    random_features = issubclass(cls, RandomFeatures)
    together = 1 if random_features else max(1, CELL_BYTES // (3 * 8 * n * d))

    source = None if data is None else open_embeddings(data)
    records: list[dict[str, Any]] = []
    found: list[FoundLosses] = []
    measured: list[Evaluation] = []
    for first in range(0, trials, together):
        chosen = streams[first : first + together]
        arounds, samples = [], []
        view: OneTokenView | None = None
        for own in chosen:
            began = time.perf_counter()
            drawn = draw_training_set(
                source, n, d, N, own.child("samples"), dtype=dtype, key="generalization"
            )
            X = drawn.X.to(device)
            if random_features:
                phi = activation(options.activation)
                Phi, view = joint_random_features(X, own, options.width or n * d, phi)
            else:
                Phi = feature_rows(_one_map(cls, X, own, options), X)
            Y = drawn.labels.to(device=device, dtype=torch.float64)
            solution = LeastSquares(Phi[1:], Y[1:])
            arounds.append(solution.around(Phi[0], Y[0].item()))
            samples.append(X[0].clone())
            records.append(
                {
                    "sample": int(drawn.indices[0]),
                    "norm": Phi[0].double().norm().item(),
                    "condition": solution.condition,
                    "rank": solution.rank,
                    "residual": solution.residual,
                    "digits": solution.digits,
                    "duplicates": solution.duplicates,
                    "contradictions": len(solution.contradictions),
                    "seconds": time.perf_counter() - began,
                }
            )
            del X, Phi, solution, drawn
            reached(first + TRAINING * len(arounds), trials)
        began = time.perf_counter()
        if view is None:
            maps = [own.child("map") for own in chosen]
            view = cls.draw_view(torch.stack(samples), sets, maps, options)
        around = Neighbourhood.stack(arounds)
        with portion((1 - TRAINING) * len(chosen) / trials):
            found.append(
                search_losses(
                    view,
                    around,
                    goals,
                    [own.child("search") for own in chosen],
                    schedule=published_descent(cls.name, n),
                    effort=effort_for(cls.name, n, d),
                    method=cell.get("search") or "spectral",
                )
            )
        measured.append(_measured(view, around, found[-1].delta))
        shared = (time.perf_counter() - began) / len(chosen)
        for record in records[first:]:
            record["seconds"] += shared
    attributes = {
        key: value
        for key, value in cell.items()
        if value is not None and key not in ("losses", "penalties", "tradeoff")
    }
    return _arrays(records, goals, found, measured), attributes


def joint_random_features(
    X: torch.Tensor, stream: Stream, k: int, phi: Activation
) -> tuple[torch.Tensor, RandomFeaturesView]:
    """Random features (1) of all samples X (M, n, d), and the one-token view of the first one.

    V (k×D, entries N(0, 1/D)) meets the samples only through its products with them and through
    its columns V_i at the changed word.  With G the Gram matrix of the samples without that
    word, G = L Lᵀ, the rows of V 𝒳ᵀ are those of V_i 𝒳_iᵀ + E Lᵀ for a k×M matrix E of
    independent N(0, 1/D), independent of V_i: exactly the joint law, and nothing is conditioned.
    """
    M, n, d = X.shape
    scale = (n * d) ** -0.5
    words = X[:, POSITION]
    exact = words.to(torch.float64)
    L = _square_root(gram(X.flatten(1)) - exact @ exact.mT).to(X.dtype)
    block = stream.child("token").normal(k, d, dtype=X.dtype).mul_(scale).to(X.device)
    Phi, rest = X.new_empty(M, k), X.new_empty(k)
    drawing = stream.child("rest")
    for first in range(0, k, ROWS):
        rows = slice(first, min(first + ROWS, k))
        E = drawing.normal(rows.stop - first, M, dtype=X.dtype).mul_(scale).to(X.device)
        Z = L @ E.mT  # (M, rows)
        rest[rows] = Z[0]
        Phi[:, rows] = phi.value(Z.addmm_(words, block[rows].mT))
    view = RandomFeaturesView(
        words[None, :1, None], rest[None, None], DenseGaussian(block[None]), [], phi
    )
    return Phi, view


def _square_root(G: torch.Tensor) -> torch.Tensor:
    """Some L with L Lᵀ = G: Cholesky's factor, or that of eigenvectors where G is singular."""
    L, failed = torch.linalg.cholesky_ex(G)
    if not failed.item():
        return L
    values, vectors = torch.linalg.eigh(G)
    return vectors * values.clamp_min(0).sqrt()


def _options(cell: Mapping[str, Any]) -> MapOptions:
    width = cell.get("width")
    return MapOptions(
        width=width if isinstance(width, int) else None,
        activation=cell.get("activation") or "relu",
        heads=cell.get("heads") or 1,
        head_dim=cell.get("head_dim"),
    )


def _one_map(
    cls: type[FeatureMap], X: torch.Tensor, stream: Stream, options: MapOptions
) -> FeatureMap:
    """A trial's map, for any number of samples."""
    shape = (X.shape[-2], X.shape[-1])
    drawn = cls.draw(shape, [stream.child("map")], options, dtype=X.dtype, device=X.device)
    drawn.batch = None
    return drawn


def _measured(view: OneTokenView, around: Neighbourhood, delta: torch.Tensor) -> Evaluation:
    """All quantities (T, J) at the Δ found, from whole features and float64 products."""
    parts = []
    for some in delta.split(8, dim=1):
        changed = view.features(view.tokens[:, :, None] + some[:, None])[:, 0].flatten(2)
        parts.append(changed.to(torch.float64) @ around.u.mT)
    return evaluation(torch.cat(parts, 1), around)


def _arrays(
    records: Sequence[Mapping[str, Any]],
    goals: Sequence[Goal],
    found: Sequence[FoundLosses],
    measured: Sequence[Evaluation],
) -> dict[str, np.ndarray]:
    trials = len(records)
    arrays: dict[str, Any] = {
        name: np.array([record[name] for record in records]) for name in records[0]
    }
    for field in fields(Evaluation):
        parts = [getattr(part, field.name) for part in measured]
        arrays[field.name] = torch.cat(parts).cpu().numpy()
    for name in ("f_x", "f_x_retrained"):  # the same for all searches of a trial
        arrays[name] = arrays[name][:, 0]
    arrays["change"] = np.abs(arrays["f_delta_retrained"] - arrays["f_x_retrained"][:, None])
    line = np.maximum(2 - arrays["gamma"], 0) ** 2
    for mode in ("finetuned", "retrained"):
        arrays[f"below_{mode}"] = arrays[f"err_{mode}"] < line

    def every(values: list[Any], dtype: Any = np.float64) -> np.ndarray:
        return np.tile(np.array(values, dtype=dtype), (trials, 1))

    arrays["loss"] = every([goal.loss for goal in goals], object)
    arrays["penalty"] = every([goal.penalty for goal in goals])
    arrays["limit"] = every([goal.limit for goal in goals])
    arrays["value"] = torch.cat([part.value for part in found]).cpu().numpy()
    arrays["start"] = np.array([row for part in found for row in part.start], dtype=object)
    return arrays
