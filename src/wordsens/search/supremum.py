"""The supremum (4) at every position set of a view: start, climb, look inside, compute again.

The best point that a search visits is found by F's short formula, in the map's precision.  What is
reported is computed again there, by direct difference in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from wordsens.errors import UserError
from wordsens.maps import FeatureMap
from wordsens.maps.declaration import Effort
from wordsens.perturbation import OneTokenView
from wordsens.progress import stage
from wordsens.randomness import Stream
from wordsens.search.afresh import ROUNDS, around, met_once, with_best
from wordsens.search.hills import cross_hills
from wordsens.search.inside import RANDOM, SMALL, look_inside
from wordsens.search.maximum import Maximum
from wordsens.search.momentum import follow_kinks
from wordsens.search.power import FINE, candidates, climb
from wordsens.search.published import published_ascent
from wordsens.search.ridges import follow_ridges

METHODS = ("power", "published")
NARROW = 0.1  # reach below which F's short formula loses digits in float32
LINEAR = 1e-3  # reach below which a map is searched here, as it is linear, and Δ made shorter
ROUNDING = 1e-5  # share by which a value exceeds its bound through rounding at most
ROUGH = 1e-4  # share of F that ten steps of exploring in float32 must bring for a start to go on
POLISH = 12  # guarded steps after it
DOUBTFUL = 1e-3  # share by which F may deviate from the direct difference


@dataclass(frozen=True)
class Suprema:
    """Maxima of all position sets of a view, their bounds and norms (T, P), the starts' names."""

    maximum: Maximum
    bounds: torch.Tensor
    norms: torch.Tensor
    names: list[str]


def search(
    map: FeatureMap | type[FeatureMap],
    view: OneTokenView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    effort: Effort,
    n: int,
    method: str = "power",
) -> Suprema:
    """Search all position sets of a view, as many at once as memory allows."""
    if method not in METHODS:
        raise UserError(f"search method {method!r} is not known; choose power or published")
    count = len(sets)
    under_way = 3 * effort.starts if view.kinked else candidates(effort)
    at_once = view.sets_at_once(under_way if method == "power" else effort.starts) or count
    maxima, bounds, norms, names = [], [], [], ["random"] * effort.starts
    for first in range(0, count, at_once):
        part = view if at_once >= count else view.select(slice(first, first + at_once))
        chosen = sets[first : first + at_once]
        noise = _noise(part, chosen, streams, "starts", effort.starts)
        with stage(len(chosen) / count):
            if method == "published":
                maximum = _published(map, part, noise, n)
            else:
                inner = _noise(part, chosen, streams, "inside", RANDOM) if _small(part) else noise
                starts, names = starting_points(part, noise)
                maximum = _power(part, starts, inner, effort)
                if effort.afresh:
                    maximum = _gone_on(part, chosen, streams, maximum, effort)
        bound = part.bound()
        maxima.append(_rounded(maximum, bound))
        bounds.append(bound)
        norms.append(part.norm)
    return Suprema(Maximum.joined(maxima), torch.cat(bounds, 1), torch.cat(norms, 1), names)


def starting_points(
    view: OneTokenView, noise: torch.Tensor, least: int = 0
) -> tuple[torch.Tensor, list[str]]:
    """The view's own directions and random ones, S in all.

    Half are the view's own, or ``least`` where that is more, as far as it has so many.
    """
    total = noise.shape[2]
    known = list(view.directions().items())[: max(least, total // 2)]
    random = noise[:, :, : total - len(known)]
    names = [name for name, _ in known] + ["random"] * random.shape[2]
    if not known:
        return random, names
    named = torch.cat([direction for _, direction in known], 2)
    # Where no score moves, as in uniform attention, no direction is better than a random one.
    flat = (named == 0).all(-1, keepdim=True)
    named = torch.where(flat, noise[:, :, total - len(known) :], named)
    return torch.cat([named, random], 2), names


def _power(
    view: OneTokenView, starts: torch.Tensor, inner: torch.Tensor, effort: Effort
) -> Maximum:
    if view.reach >= NARROW:
        maximum = _searched(view, starts, inner, effort, view.coarse())
        doubtful = (maximum.value[1] - maximum.value[0]).abs() > DOUBTFUL * maximum.value[1]
        maximum = replace(maximum, value=maximum.value[1])
        if not doubtful.any() or view.precise() is view:
            return maximum
        trials = doubtful.any(1).nonzero()[:, 0].tolist()
        part = view if len(trials) == len(doubtful) else view.trials(trials)
        again = _exactly(part, starts[trials], inner[trials], effort)
        return maximum.improved(trials, slice(None), again)
    return _exactly(view, starts, inner, effort)


def _exactly(
    view: OneTokenView, starts: torch.Tensor, inner: torch.Tensor, effort: Effort
) -> Maximum:
    """All in float64, of small balls on larger ones."""
    exact = copy.copy(view.precise())
    exact.reach = max(view.reach, LINEAR)
    like = exact.tokens
    again = _searched(exact, starts.to(like), inner.to(like), effort, exact)
    shorter = view.reach / exact.reach
    delta = (shorter * again.delta).to(view.tokens)
    return replace(again, delta=delta, value=view.squared_change(delta))


def _gone_on(
    view: OneTokenView,
    sets: torch.Tensor,
    streams: Sequence[Stream],
    maximum: Maximum,
    effort: Effort,
) -> Maximum:
    """The maximum after more starts (``afresh``).

    On maps with kinks they come in rounds, each around the best point so far; elsewhere they are
    random ones, where one start alone came to the maximum.
    """
    if view.kinked:
        for part in _noise(view, sets, streams, "afresh", effort.afresh).chunk(ROUNDS, 2):
            again = _power(view, around(maximum.delta / view.radius, part), part, effort)
            maximum = maximum.or_better(replace(again, start=maximum.start))
        return replace(maximum, finals=with_best(maximum))
    once = met_once(maximum)
    for p in once.any(0).nonzero()[:, 0].tolist():
        trials = once[:, p].nonzero()[:, 0].tolist()
        few = (view if len(sets) == 1 else view.select(slice(p, p + 1))).trials(trials)
        own = [streams[t] for t in trials]
        starts = _noise(few, sets[p : p + 1], own, "afresh", effort.afresh)
        again = _power(few, starts, starts, effort)
        # random starts are the last ones of a search
        again = replace(again, start=torch.full_like(again.start, effort.starts - 1))
        maximum = maximum.improved(trials, slice(p, p + 1), again)
    return replace(maximum, finals=with_best(maximum))


def _searched(
    view: OneTokenView,
    starts: torch.Tensor,
    inner: torch.Tensor,
    effort: Effort,
    coarse: OneTokenView,
) -> Maximum:
    """The maximum, its value (2, T, P) as the search saw it and by direct difference.

    Exploring is left to the ``coarse`` view; where it sees another F than ``view``, all is done
    again without it.
    """
    tolerance = FINE if coarse is view else ROUGH
    maximum = _explored(coarse, starts.to(coarse.tokens), effort, tolerance)
    if coarse is not view:
        polished = _polished(view, maximum)
        maximum = _explored(view, starts, effort) if polished is None else polished
    maximum = look_inside(view, maximum, inner)
    seen = maximum.value.double()
    return replace(maximum, value=torch.stack([seen, view.squared_change(maximum.delta)]))


def _explored(
    view: OneTokenView, starts: torch.Tensor, effort: Effort, tolerance: float = FINE
) -> Maximum:
    if view.hilly:
        return cross_hills(view, starts, steps=effort.steps)
    if view.kinked:
        beside = view.neighbours(starts[:, :, : (starts.shape[2] + 1) // 2])
        if beside:
            return follow_ridges(view, starts, beside, steps=effort.steps)
        return follow_kinks(view, starts, steps=effort.steps)
    chosen = {name: getattr(effort, name) for name in ("anneal", "steps", "halve", "plain")}
    return climb(view, starts, **chosen, tolerance=tolerance)


def _polished(view: OneTokenView, found: Maximum) -> Maximum | None:
    """What a coarse view found as ``view`` sees it, and a few steps on; None where they differ."""
    delta = found.delta.to(view.tokens)[:, :, None]
    value, _ = view.value_and_grad(view.tokens[:, :, None] + delta)
    near = (value[..., 0] - found.value).abs() <= DOUBTFUL * value[..., 0]
    if not near.all():
        return None
    kept = Maximum(value[..., 0], delta[:, :, 0], found.start, found.steps, found.finals.double())
    if view.kinked:
        return kept
    more = climb(view, delta, anneal=0, steps=POLISH)
    more = replace(more, start=found.start, steps=found.steps + more.steps)
    best = kept.or_better(more)
    finals = best.finals.clone()
    finals[..., 0] = best.value
    return replace(best, finals=finals)


def _rounded(maximum: Maximum, bound: torch.Tensor) -> Maximum:
    """The maximum, its value put on the bound where rounding alone took it above."""
    most = bound.double() ** 2
    over = (maximum.value > most) & (maximum.value < most * (1 + ROUNDING))
    return replace(maximum, value=torch.where(over, most, maximum.value))


def _published(
    map: FeatureMap | type[FeatureMap], view: OneTokenView, noise: torch.Tensor, n: int
) -> Maximum:
    rate, steps = map.published_schedule(n)
    size = view.features(view.tokens[:, :, None]).flatten(3).shape[-1]
    maximum = published_ascent(view, noise, rate=rate, steps=steps, features=size)
    return replace(maximum, value=view.squared_change(maximum.delta))


def _small(view: OneTokenView) -> bool:
    return view.tokens.shape[2] * view.tokens.shape[3] <= SMALL


def _noise(
    view: OneTokenView, sets: torch.Tensor, streams: Sequence[Stream], purpose: str, count: int
) -> torch.Tensor:
    """Standard normal (T, P, count, m, d), of its own stream for every trial and set."""
    shape = (count, *view.tokens.shape[2:])
    drawn = [
        stream.child(purpose, words=words).normal(*shape, dtype=view.tokens.dtype)
        for stream in streams
        for words in sets.tolist()
    ]
    return torch.stack(drawn).unflatten(0, (len(streams), len(sets))).to(view.tokens.device)
