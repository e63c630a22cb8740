"""Word sensitivity (4): the largest relative change of a map's features when few words change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from wordsens.arguments import positive_number
from wordsens.errors import UserError, whole_number
from wordsens.maps import FeatureMap, position_sets
from wordsens.maps.declaration import Effort
from wordsens.randomness import Stream
from wordsens.search.maximum import Maximum
from wordsens.search.supremum import Suprema
from wordsens.search.supremum import search as search_sets
from wordsens.tidy import Tidy, several

if TYPE_CHECKING:
    import pandas as pd

Positions = str | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True, repr=False)
class Sensitivity(Tidy):
    """What a search found: for one sample plain numbers, for T samples tensors with a first axis T.

    sup       the largest ‖φ(X^I(Δ)) − φ(X)‖ / ‖φ(X)‖ found, a lower bound on (4); NaN for φ(X) = 0
    bound     an upper bound on it where one is known, else NaN
    delta     the Δ that attains sup, (d,), or (m, d) for m changed words
    position  the (first) changed position
    start     the name of the winning start, ``steps`` the steps it took
    spread    (max − min)/max over the starts that climbed to the end there; NaN where one did
    norm      ‖φ(X)‖
    by_position, bound_by_position, positions   sup, bound and the sets tried, (P,) and (P, m)
    about     map, d, n, depth and the number of changed words, as in a workflow's tables
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
    about: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        trials, sets = self.by_position.reshape(-1, len(self.positions)).shape
        where = f"best of {sets} positions" if sets > 1 else f"position {several(self.position)}"
        many = f"{trials} samples, " if trials > 1 else ""
        bound = several(self.bound)
        return (
            f"{many}sup {several(self.sup)}, {'no bound' if bound == 'nan' else f'bound {bound}'}, "
            f"{where}"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row per sample, or per sample and position where several were searched."""
        import pandas as pd

        every = self.by_position.reshape(-1, len(self.positions)).cpu().numpy()
        trials, sets = every.shape
        one = [self.start] if isinstance(self.start, str) else list(self.start)
        values: dict[str, Any] = {"trial": range(trials), "start": one}
        for name in ("sup", "bound", "norm", "spread", "steps", "position"):
            values[name] = torch.as_tensor(getattr(self, name)).reshape(-1).cpu().numpy()
        table = pd.DataFrame({**self.about, **values})
        if sets == 1:
            return table
        table = table.rename(columns={"position": "best_position"})
        table = table.loc[table.index.repeat(sets)].reset_index(drop=True)
        first = self.positions[:, 0].cpu().tolist()
        return table.assign(position=first * trials, sup_at_position=every.reshape(-1))


def word_sensitivity(
    map: FeatureMap,
    X: Any,
    positions: Positions = "first",
    *,
    words: int = 1,
    seed: int = 0,
    starts: int | None = None,
    steps: int | None = None,
    search: str = "power",
    reach: float = 1.0,
) -> Sensitivity:
    """The supremum (4) over ``positions`` and ‖Δ‖ ≤ √d, searched from several starts.

    X (n, d), or (T, n, d) with a map per sample or, for attention, one for all.  ``positions`` is
    "first", "all", "random:r", a list of positions, or a list of sets of positions; with ``words``
    = m every set holds m words.  ``search`` is "power" or "published" (the authors' projected
    gradient).  ``reach`` scales the balls' radius.  Raises ``UserError`` for bad arguments.

    >>> import torch, wordsens
    >>> X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> X *= 16**0.5 / X.norm(dim=1, keepdim=True)
    >>> found = wordsens.word_sensitivity(wordsens.build_map("raf", d=16, seed=0), X)
    >>> 0 < found.sup < found.bound
    True
    """
    reach = positive_number("reach", reach)
    if not isinstance(map, FeatureMap):
        raise UserError(f"map = {map!r} is no feature map; make one with build_map")
    if search == "published" and steps is not None:
        raise UserError("steps are fixed by search published; leave them out, or search")
    X = map.cast(X, graph=False)
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
        parts.append(search_sets(map, view, group, streams, effort, n, search))
    about = {"map": map.name, "d": d, "n": n, "depth": map.chosen.depth, "words": sets.shape[1]}
    return replace(summarise(parts, sets, single), about=about)


def summarise(parts: Sequence[Suprema], sets: torch.Tensor, single: bool) -> Sensitivity:
    """The best position of every trial, from the parts of a search."""
    names = parts[0].names
    found = Maximum.joined([part.maximum for part in parts])
    bound = torch.cat([part.bounds for part in parts], 1)
    norm = torch.cat([part.norms for part in parts], 1).double()
    some = norm > 0  # where φ(X) = 0 nothing is a share of it
    by_position = torch.where(some, found.value.sqrt() / norm, torch.nan)
    bounds = torch.where(some, bound.double() / norm, torch.nan)
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
        start=[names[i] for i in found.start[trial, best].tolist()],
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
    groups, words = n // words, int(words)
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
    """An effort with what the caller asked for put in; fresh starts in proportion."""
    for name, value in {"starts": starts, "steps": steps}.items():
        if value is not None:
            whole_number(name, value)
    if steps is not None:
        effort = replace(effort, steps=steps)
    if starts is not None:
        afresh = round(effort.afresh * starts / effort.starts)
        effort = replace(effort, starts=starts, afresh=afresh)
    return effort
