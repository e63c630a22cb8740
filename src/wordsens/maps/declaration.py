"""What a map says about itself: read by the configuration, searches, figures, docs and tests.

Nothing here computes, and nothing imports Torch: a workflow reads it whenever it is parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(frozen=True)
class Effort:
    """How hard a search for the supremum tries: starts, annealing steps, guarded steps.

    After ``halve`` guarded steps, twice and four times as many, half of the starts goes on; with 0
    all do.  Of the starts that are annealed the first ``plain`` also climb without it, None for
    all.  On maps with kinks ``steps`` are those of momentum, and the others are not used.
    Where one start alone came to the best maximum, ``afresh`` others follow; on maps with kinks
    as many around the best point, in rounds.
    """

    starts: int
    anneal: int
    steps: int
    halve: int = 0
    plain: int | None = None
    afresh: int = 0


@dataclass(frozen=True)
class LossEffort:
    """How hard a search of losses tries: starts per loss, evaluations for exploring and polishing.

    Every one of ``rounds`` polishes the best point of each goal and ``beside`` points near it.
    ``settle`` rounds of subgradient steps follow, for maps with kinks.  At the evaluations
    ``halve`` of exploring the better half of each loss's starts goes on.  ``slide`` steps explore
    along walls, where a view has any.  With ``apart`` losses with a penalty explore from starts of
    their own, however many others there are.
    """

    starts: int
    explore: int
    polish: int
    rounds: int
    beside: int
    settle: int = 0
    halve: tuple[int, ...] = ()
    slide: int = 0
    apart: bool = False


WORDS = ("D", "d")  # what a configuration calls a width n·d and a head_dim d


@dataclass(frozen=True)
class MapOptions:
    """What distinguishes maps of one name; each map reads the fields that it has.

    width       k, the neurons of a layer; None for n·d
    depth       L, the number of layers
    activation  ϕ by name
    heads       attention heads
    head_dim    d', the dimension of queries and keys; None for d
    more        options that only one map has, by name
    """

    width: int | None = None
    depth: int = 1
    activation: str = "relu"
    heads: int = 1
    head_dim: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, cell: Mapping[str, Any], names: Iterable[str]) -> MapOptions:
        """The options of these names in the parameters of a cell.

        Those that are absent or None, a width "D" and a head_dim "d" have their defaults.
        """
        own = {field.name for field in fields(cls)} - {"more"}
        given = {name: cell[name] for name in names if cell.get(name) not in (None, *WORDS)}
        more = {name: value for name, value in given.items() if name not in own}
        return cls(**{name: x for name, x in given.items() if name in own}, more=more)


DEFAULTS = MapOptions()


class _Every(Container[str]):
    """Holds every name, also of kinds of study that do not exist yet."""

    def __contains__(self, name: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "every kind of study"


EVERY = _Every()


class Declaration:
    """The part of a map's class that can be read without computing anything.

    name           by which configurations and ``build_map`` call it
    title, short   in titles of figures and as an index of symbols; both ``name`` by default
    options        names of the options that it takes: fields of ``MapOptions``, or its own
    needs          those of them without which a sweep of it says nothing
    sizes          of "n", "d": what ``build_map`` must know to draw its weights
    weight_names   what ``build_map(weights=…)`` takes, in the order of the constructor
    studies        kinds of study it can be in
    falls          its word sensitivity falls as a power of n, a straight line on log–log axes
    coincide       it hardly depends on d, so that curves of several d lie on each other
    kernel_form    its interpolator has one in ``wordsens.robustness``, by the map's own name
    sets_per_view  position sets that ``view`` takes at once; None for any number
    joint_training the features of a training set come with the view, from one joint draw
    effort         of a search for the supremum, where ``effort_for`` is not overridden
    """

    name: ClassVar[str]
    title: ClassVar[str]
    short: ClassVar[str]
    options: ClassVar[Collection[str]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    sizes: ClassVar[tuple[str, ...]] = ("d",)
    weight_names: ClassVar[tuple[str, ...]] = ("W",)
    studies: ClassVar[Container[str]] = EVERY
    falls: ClassVar[bool] = False
    coincide: ClassVar[bool] = False
    kernel_form: ClassVar[bool] = False
    sets_per_view: ClassVar[int | None] = None
    joint_training: ClassVar[bool] = False
    effort: ClassVar[Effort] = Effort(starts=24, anneal=0, steps=50, halve=8)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in vars(cls):
            for attribute in ("title", "short"):
                if attribute not in vars(cls):
                    setattr(cls, attribute, cls.name)

    @classmethod
    def series(cls) -> str:
        """The axis whose values are the curves of its figures."""
        return "depth" if "depth" in cls.options else "d"

    # Searches

    @classmethod
    def effort_for(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> Effort:
        """A search's default effort on samples of shape (n, d)."""
        return cls.effort

    @classmethod
    def loss_effort_for(cls, n: int, d: int) -> LossEffort:
        """A loss search's default effort on samples of shape (n, d)."""
        small = 5_000 // (n * d)  # small problems are the rugged ones, and cheap
        beside = max(1, min(6, small))
        return LossEffort(16, explore=40, polish=100 if small else 60, rounds=2, beside=beside)

    @classmethod
    def published_schedule(cls, n: int) -> tuple[float, int]:
        """Step length and step count of projected gradient ascent at n tokens.

        The authors' for their maps; by default those of their attention maps.
        """
        return 10.0, 50 * n

    @classmethod
    def published_descent(cls, n: int) -> tuple[float, int]:
        """The same for the losses of the generalization experiments."""
        return 1.0, 50 * n

    @classmethod
    def limit(cls, n: int, *, words: int = 1, options: MapOptions = DEFAULTS) -> float | None:
        """The limit of its word sensitivity (4) as the width grows; None where none is known."""
        return None

    # Sizes, as numbers (of the working precision) and as bytes

    @classmethod
    def feature_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        """p, the number of features of a sample."""
        return n * d

    @classmethod
    def score_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        """Numbers that a sample's features are computed from and that must be held, besides X."""
        return 0

    @classmethod
    def word_count(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        """Numbers that a study of losses holds for the changed word alone."""
        return 0

    @classmethod
    def trial_bytes(
        cls, n: int, d: int, options: MapOptions, *, effort: Effort, sets: int, size: int
    ) -> int:
        """What a search holds for one trial beyond its view, so that trials are split; or 0.

        ``sets`` position sets are searched together, ``size`` is the bytes of a number.
        """
        return 0

    @classmethod
    def sensitivity_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        """Memory to ask for, for a cell of a sweep, beyond samples and n × n scores."""
        return 0

    @classmethod
    def generalization_bytes(
        cls, n: int, d: int, options: MapOptions = DEFAULTS, *, size: int = 4
    ) -> int:
        """Memory to ask for, for a cell of a generalization study, beyond its features."""
        return 0

    @classmethod
    def vocabulary_bytes(cls, n: int, d: int, options: MapOptions = DEFAULTS) -> int:
        """Memory to ask for, for a cell of a vocabulary study, beyond scores and word vectors."""
        return 0
