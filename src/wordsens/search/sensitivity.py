"""Word sensitivity (4): the largest relative change of a map's features when few words change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from wordsens.errors import UserError, whole_number
from wordsens.maps import FeatureMap, position_sets
from wordsens.maps.declaration import Effort
from wordsens.perturbation import OneTokenView
from wordsens.progress import portion
from wordsens.randomness import Stream
from wordsens.search.ascent import Found, climb
from wordsens.search.published import published_ascent

Positions = str | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class Searched:
    """What a search of all sets of a view found: bounds and norms (T, P), the starts' names."""

    found: Found
    bounds: torch.Tensor
    norms: torch.Tensor
    names: list[str]


@dataclass(frozen=True)
class Sensitivity:
    """What a search found: for one sample plain numbers, for T samples tensors with a first axis T.

    sup       the largest ‖φ(X^I(Δ)) − φ(X)‖ / ‖φ(X)‖ found, a lower bound on (4); NaN for φ(X) = 0
    bound     an upper bound on it where one is known, else NaN
    delta     the Δ that attains sup, (d,), or (m, d) for m changed words
    position  the (first) changed position
    start     the name of the winning start, ``steps`` the steps it took
    spread    (max − min)/max over the starts that climbed to the end there; NaN where one did
    norm      ‖φ(X)‖
    by_position, bound_by_position, positions   sup, bound and the sets tried, (P,) and (P, m)
    """

    sup: Any
    bound: Any
    delta: torch.Tensor
    position: Any
    start: Any
    steps: Any
    spread: Any
    norm: Any
    by_position: torch.Tensor
    bound_by_position: torch.Tensor
    positions: torch.Tensor


def word_sensitivity(
    map: FeatureMap,
    X: Any,
    positions: Positions = "first",
    *,
    words: int = 1,
    seed: int = 0,
    starts: int | None = None,
    steps: int | None = None,
    method: str = "power",
    reach: float = 1.0,
) -> Sensitivity:
    """The supremum (4) over ``positions`` and ‖Δ‖ ≤ √d, searched from several starts.

    X (n, d), or (T, n, d) with a map per sample or, for attention, one for all.  ``positions`` is
    "first", "all", "random:r", a list of positions, or a list of sets of positions; with ``words``
    = m every set holds m words.  ``method`` is "power" or "published" (the authors' projected
    gradient).  ``reach`` scales the balls' radius.  Raises ``UserError`` for bad arguments.
    """
    if not 0 < reach < math.inf:
        raise UserError(f"reach = {reach} must be a positive number")
    if method == "published" and steps is not None:
        raise UserError("steps are fixed by method published; leave them out, or method")
    X = map.cast(X)
    if X.ndim > 3:
        raise UserError(f"X has shape {tuple(X.shape)}; allowed are (n, d) and (T, n, d)")
    single = X.ndim == 2
    samples = X[None] if single else X
    streams = [Stream(seed, "search", trial=t) for t in range(len(samples))]
    sets = chosen_sets(positions, words, X.shape[-2], Stream(seed, "positions")).to(X.device)
    n, d = X.shape[-2:]
    effort = chosen_effort(map.effort_for(n, d, map.chosen), starts, steps)
    # a map that answers so many sets at a time is asked for so many
    groups = [sets] if map.sets_per_view is None else list(sets.split(map.sets_per_view))
    parts = []
    for group in groups:
        view = map.view(samples, group)
        view.reach = reach
        parts.append(search(map, view, group, streams, effort, n, method))
    return summarise(parts, sets, single)


def search(
    map: FeatureMap | type[FeatureMap],
    view: OneTokenView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    effort: Effort,
    n: int,
    method: str = "power",
) -> Searched:
    """Search all position sets of a view, as many at once as memory allows."""
    if method not in ("power", "published"):
        raise UserError(f"search method {method!r} is not known; choose power or published")
    count, m = sets.shape
    at_once = view.sets_at_once(effort.starts) or count
    founds, bounds, norms, names = [], [], [], []
    for first in range(0, count, at_once):
        part = view if at_once >= count else view.select(slice(first, first + at_once))
        chosen = sets[first : first + at_once]
        d = part.tokens.shape[-1]
        noise = torch.stack(
            [
                torch.stack(
                    [
                        stream.child("starts", words=words).normal(
                            effort.starts, m, d, dtype=part.tokens.dtype
                        )
                        for words in chosen.tolist()
                    ]
                )
                for stream in streams
            ]
        ).to(part.tokens.device)
        with portion(len(chosen) / count):
            if method == "published":
                rate, steps = map.published_schedule(n)
                size = part.features(part.tokens[:, :, None]).flatten(3).shape[-1]
                found = published_ascent(part, noise, rate=rate, steps=steps, features=size)
                names = ["random"] * effort.starts
            else:
                starting, names = starting_points(part, noise)
                found = climb(
                    part, starting, anneal=effort.anneal, steps=effort.steps, halve=effort.halve
                )
            founds.append(found)
            bounds.append(part.bound())
        norms.append(part.norm)
    joined = Found(
        *(torch.cat(x, 1) for x in zip(*(vars(f).values() for f in founds), strict=True))
    )
    return Searched(joined, torch.cat(bounds, 1), torch.cat(norms, 1), names)


def summarise(parts: Sequence[Searched], sets: torch.Tensor, single: bool) -> Sensitivity:
    """The best position of every trial, from the parts of a search."""
    names = parts[0].names
    found = Found(
        *(torch.cat(x, 1) for x in zip(*(vars(p.found).values() for p in parts), strict=True))
    )
    bound = torch.cat([part.bounds for part in parts], 1)
    norm = torch.cat([part.norms for part in parts], 1)
    some = norm > 0  # where φ(X) = 0 nothing is a share of it
    by_position = torch.where(some, found.value.sqrt() / norm, torch.nan)
    bounds = torch.where(some, bound / norm, torch.nan)
    best = by_position.nan_to_num(nan=-1.0).argmax(1)
    trial = torch.arange(len(best), device=best.device)
    finals = found.finals[trial, best].sqrt()
    top = finals.amax(-1)
    spread = torch.where(top > 0, (top - finals.amin(-1)) / top, 0)
    if finals.shape[-1] == 1:
        spread = torch.full_like(spread, torch.nan)
    whole = bounds.isnan().any(1)
    delta = found.delta[trial, best]
    result = Sensitivity(
        sup=by_position[trial, best],
        bound=torch.where(whole, torch.nan, bounds.amax(1)),
        delta=delta[:, 0] if sets.shape[1] == 1 else delta,
        position=sets[best, 0],
        start=[names[i] for i in found.winner[trial, best].tolist()],
        steps=found.steps[trial, best],
        spread=spread,
        norm=norm[trial, best],
        by_position=by_position,
        bound_by_position=bounds,
        positions=sets,
    )
    if not single:
        return result
    plain = {
        name: getattr(result, name)[0]
        for name in ("sup", "bound", "position", "steps", "spread", "norm")
    }
    return replace(
        result,
        **{name: value.item() for name, value in plain.items()},
        delta=result.delta[0],
        start=result.start[0],
        by_position=by_position[0],
        bound_by_position=bounds[0],
    )


def chosen_sets(positions: Positions, words: int, n: int, stream: Stream) -> torch.Tensor:
    """The position sets (P, m) that ``positions`` and ``words`` ask for, in n tokens.

    "first" is {0, …, m−1}; "all" cuts the sample into ⌊n/m⌋ sets of neighbours; "random:r" is r
    disjoint sets drawn from the stream; a list names single positions, or whole sets.
    """
    if not 1 <= whole_number("words", words) <= n:
        raise UserError(f"words = {words} must lie between 1 and n = {n}")
    groups = n // words
    if isinstance(positions, str):
        kind, _, amount = positions.partition(":")
        if kind == "first" and not amount:
            sets = [range(words)]
        elif kind == "all" and not amount:
            sets = [range(g * words, (g + 1) * words) for g in range(groups)]
        elif kind == "random" and amount.isdecimal() and 1 <= int(amount) <= groups:
            order = stream.generator().permutation(n)[: int(amount) * words].tolist()
            sets = [order[g : g + words] for g in range(0, len(order), words)]
        else:
            raise UserError(
                f"positions {positions!r} is not understood; choose first, all, random:r with "
                f"1 ≤ r ≤ {groups}, or a list of positions"
            )
        return position_sets([list(s) for s in sets], n)
    if hasattr(positions, "tolist"):  # an array or a tensor
        positions = positions.tolist()
    if not isinstance(positions, Sequence):
        raise UserError(f"positions {positions!r} is neither a word nor a list")
    listed = [
        [whole_number("position", q, None) for q in (p if isinstance(p, Sequence) else [p])]
        for p in positions
    ]
    if not listed or any(len(s) != words for s in listed):
        raise UserError(f"positions {list(positions)} must name sets of {words} word(s) each")
    return position_sets(listed, n)


def chosen_effort(effort: Effort, starts: int | None = None, steps: int | None = None) -> Effort:
    """An effort with what the caller asked for put in."""
    for name, value in {"starts": starts, "steps": steps}.items():
        if value is not None:
            whole_number(name, value)
    if steps is not None:
        effort = replace(effort, steps=steps)
    return effort if starts is None else replace(effort, starts=starts)


def starting_points(view: OneTokenView, noise: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """The view's own directions and random ones, half of each at most, S in all."""
    total = noise.shape[2]
    known = list(view.directions().items())[: total // 2]
    random = noise[:, :, : total - len(known)]
    names = [name for name, _ in known] + ["random"] * random.shape[2]
    return torch.cat([*(direction for _, direction in known), random], 2), names
