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
from typing import Any

import numpy as np
import torch

from wordsens.data.embeddings import open_embeddings
from wordsens.data.samples import draw_training_set
from wordsens.errors import UserError
from wordsens.glm import LeastSquares
from wordsens.maps import MapOptions, declared, map_class, position_sets
from wordsens.perturbation import OneTokenView
from wordsens.progress import advance, stage
from wordsens.randomness import Stream
from wordsens.search.auditing import Audit, audited_trials
from wordsens.search.auditing_losses import audit_losses
from wordsens.search.goals import (
    Evaluation,
    Goal,
    Minima,
    Neighbourhood,
    evaluation,
    parse_goal,
    trade_off,
)
from wordsens.search.losses import Question, search_losses
from wordsens.search.sensitivity import summarise
from wordsens.search.supremum import search

# What names a cell's randomness: the draws are the same whatever losses are asked of them.
NAMES = ("dataset", "map", "d", "n", "N", "width", "activation", "heads", "head_dim")
POSITION = 0  # the changed word, i = 1 in the paper
TRAINING = 0.4  # of a trial's time goes into its training set and model, roughly
CELL_BYTES = 1 << 28  # functionals of the trials searched together, roughly


def run(
    cell: Mapping[str, Any], inputs: Mapping[str, str], device: str
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """``trials`` independent trials of one (map, n, d, N).

    ``cell`` holds the parameters that config.yaml gives a study and its point: losses × penalties
    (every pair is searched), tradeoff (limits on γ under which the errors are minimised), and the
    rest.  ``data`` among the inputs is the embeddings file, absent for synthetic Gaussian samples.

    Arrays by trial (T,): sample, f_x, f_x_retrained, norm, condition, rank, residual, digits,
    duplicates, contradictions, seconds; with ``sensitivity`` also sup, (4) at the word.
    By trial and search (T, J): loss, penalty, limit (inf where γ is free), value, start, gamma,
    feature_cosine, feature_alignment, f_delta, f_delta_finetuned, f_delta_retrained, err_finetuned,
    err_retrained, change, and below_finetuned, below_retrained (error < (2 − γ)² and γ < 2); with
    an audit, audited and excess.  Raises ``UserError`` for samples that do not fit and unknown
    losses.
    """
    n, d, N, trials = cell["n"], cell["d"], cell["N"], cell["trials"]
    cls = map_class(cell["map"])
    if "generalization" not in cls.studies:
        able = [name for name, each in declared().items() if "generalization" in each.studies]
        raise UserError(
            f"map {cls.name} has no generalization experiment; choose {', '.join(able)}"
        )
    dtype = getattr(torch, cell["precision"])
    pairs = [parse_goal(loss, penalty) for loss in cell["losses"] for penalty in cell["penalties"]]
    goals = [*dict.fromkeys(pairs), *trade_off(cell.get("tradeoff", ()))]
    options = MapOptions.of(cell, cls.options)
    stream = Stream(cell["seed"], "glm", **{k: cell[k] for k in NAMES if cell.get(k) is not None})
    streams = [stream.child("trial", trial=t) for t in range(trials)]
    sets = position_sets([[POSITION]], n).to(device)
    together = 1 if cls.joint_training else max(1, CELL_BYTES // (3 * 8 * n * d))

    source = open_embeddings(inputs["data"]) if "data" in inputs else None
    records: list[dict[str, Any]] = []
    found: list[Minima] = []
    measured: list[Evaluation] = []
    audits: list[Audit] = []
    judged = audited_trials(trials, cell["audit"], stream)
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
            Phi, view = cls.draw_training(X, own, options, POSITION)
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
            advance(first + TRAINING * len(arounds), trials)
        began = time.perf_counter()
        if view is None:
            maps = [own.child("map") for own in chosen]
            view = cls.draw_view(torch.stack(samples), sets, maps, options)
        around = Neighbourhood.stack(arounds)
        searching = [own.child("search") for own in chosen]
        how = (cls.published_descent(n), cls.loss_effort_for(n, d))
        asked = Question(view, around, goals, searching, *how)
        with stage((1 - TRAINING) * len(chosen) / trials):
            found.append(search_losses(asked))
        if judged:
            again = [t - first for t in judged if first <= t < first + len(chosen)]
            audits.append(audit_losses(asked, found[-1].value, again))
        measured.append(_measured(view, around, found[-1].delta))
        if cell.get("sensitivity"):
            searching = [own.child("sensitivity") for own in chosen]
            with stage(0):  # counted with the losses
                parts = [search(cls, view, sets, searching, cls.effort_for(n, d, options), n)]
            for record, sup in zip(records[first:], summarise(parts, sets, False).sup, strict=True):
                record["sup"] = sup.item()
        shared = (time.perf_counter() - began) / len(chosen)
        for record in records[first:]:
            record["seconds"] += shared
    attributes = {
        key: value
        for key, value in cell.items()
        if value is not None and key not in ("losses", "penalties", "tradeoff")
    }
    arrays = _arrays(records, goals, found, measured)
    for name in ("audited", "excess") if audits else ():
        arrays[name] = torch.cat([getattr(each, name) for each in audits]).cpu().numpy()
    return arrays, attributes


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
    found: Sequence[Minima],
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
