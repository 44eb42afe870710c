"""What a fit in rounds knows so far: the `ask` of its plans."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from calibkit.errors import ModelError
from calibkit.hetcal.choose import Grid
from calibkit.hetcal.forest import forest_grid
from calibkit.hetcal.rounds.boosted import known as boosted_known
from calibkit.hetcal.rounds.forest.known import Forest, Grove
from calibkit.hetcal.rounds.sought import Stretches, Times
from calibkit.hetcal.spec import DEPTHS, LEAF_SIZES, SHRINKAGES, HetcalSpec
from calibkit.models import Column
from calibkit.rows.weights import Unit
from calibkit.summaries.plain import as_plain

#: All rows take part.
EVERYONE = -1

#: The rounds, by what they ask for.
LOOK, REFINE, GROW, GROWN, COUNT, JUDGE, CORRECT, BEND, SEEK, RATE, POOL, FINISH = _OF_TREES = (
    "look", "refine", "grow", "grown", "count", "judge", "correct", "bend", "seek", "rate", "pool",
    "finish",
)  # fmt: skip

#: Those of forests alone.
BRANCH, TALLY, SETTLE, WEIGH = _OF_FORESTS = "branch", "tally", "settle", "weigh"
STEPS = *_OF_TREES, *_OF_FORESTS, *boosted_known.STEPS


@dataclass
class Bucket:
    """A stretch of keys of numbers, ``first`` up to ``first + 2^bits``, that holds a quantile.

    `below` are the rows (units of weight) under it, `rows` those in it.
    """

    first: int
    bits: int
    below: int
    rows: int


@dataclass
class Edges:
    """The bins of a feature, or of the scores of a leaf, or how far they are known.

    Attributes
    ----------
    present
        Rows with a value; of a leaf their weight in units.
    lows, highs
        The least and greatest value in each bin; None as long as they are sought.
    buckets
        Where quantiles are sought, from the lowest.
    """

    present: int = 0
    lows: list[float] | None = None
    highs: list[float] | None = None
    buckets: list[Bucket] = field(default_factory=list)


@dataclass
class Line:
    """Platt's map of some rows on its way to the minimum of the loss.

    Attributes
    ----------
    slope, intercept
        Where the loss was last seen to fall (at first: where the search begins).
    step, length
        Where to look next, and the part of it that is tried; `length` 0: the place itself.
    loss
        There; None before the first round.
    shift, scale
        What scores are standardised by, so that sums keep their digits.
    low, high
        Scores lie in between.
    done
        Whether it is found.
    """

    slope: float
    intercept: float
    low: float
    high: float
    shift: float
    scale: float
    step: tuple[float, float] = (0.0, 0.0)
    length: float = 0.0
    loss: float | None = None
    done: bool = False


@dataclass
class Curve:
    """The beta map of some rows on its way to the minimum of the loss.

    Attributes
    ----------
    point
        Where the loss was last seen to fall: both slopes and the level, over standardised features.
    shifts, scales
        What the features are standardised by; a scale of 0: there is one score.
    step, length, loss, done
        As those of a `Line`.
    """

    point: list[float]
    shifts: list[float]
    scales: list[float]
    step: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    length: float = 0.0
    loss: float | None = None
    done: bool = False


@dataclass
class Fork:
    """A split of a node, of the trees with some leaf sizes; see `calibkit.hetcal.trees.Node`."""

    sizes: list[int]
    feature: int
    gain: float
    missing_left: bool
    left: int
    right: int
    cut: float | None = None
    categories: tuple[list[int], list[int]] | None = None


@dataclass
class Spot:
    """A node of some trees of the same rows.

    Attributes
    ----------
    part
        The part of the rows that is left out, or `EVERYONE`.
    depth, rows, hits
        Its depth, its rows and positives (units of weight).
    sizes
        Places among the leaf sizes: the trees that have this node.
    open
        Whether its histogram has not been seen yet.
    grown
        Its rows and positives where the trees were grown, if on other rows.
    line
        Its map; None before its rows are known.
    forks
        How trees go on from here.
    """

    part: int
    depth: int
    sizes: list[int]
    rows: int = 0
    hits: int = 0
    open: bool = True
    grown: tuple[int, int] | None = None
    line: Line | None = None
    forks: list[Fork] = field(default_factory=list)


@dataclass
class Seen:
    """What the first look at all rows found.

    Attributes
    ----------
    rows, positives
        How many rows are used, and positive.
    weight, hits
        Of all rows and of the positive ones, in units; rounded weights are not added up before the
        trees begin.
    unit, sampled
        What a unit of weight is worth; whether a weight says how many rows one stands for.
    top
        All weights are below 2^top.
    clipped, low, high
        How many probabilities were moved away from 0 or 1; linear scores lie in between.
    warnings
        What the user should be told.
    """

    rows: int
    positives: int
    weight: int
    hits: int
    unit: Unit
    sampled: bool
    top: int
    clipped: int
    low: float
    high: float
    warnings: list[str]

    @property
    def size(self) -> float:
        """How many rows a unit of weight stands for; see `calibkit.hetcal.rows.HetcalRows`."""
        return self.rows / float(self.weight) if self.sampled else self.unit.size

    @property
    def counts(self) -> tuple[float, float]:
        """How many rows there are, and how many positive ones; a weighted row counts as many."""
        return self.weight * self.size, self.hits * self.size

    @property
    def heaviest(self) -> float:
        """No row counts as more rows."""
        return math.ldexp(self.size / self.unit.size, self.top)


@dataclass
class Grown:
    """Trees that were grown on other rows than those that are calibrated.

    Attributes
    ----------
    nodes
        The trees; none once they are those of the calibration rows.
    weight, unit, size
        Of all rows in units, what a unit is worth, and how many rows it stands for.
    fingerprint, files
        The hash of the data, and where it came from if that is to be named.
    warnings
        What the user should be told.
    groves
        The trees of forests, of each leaf size; then there are no nodes.
    """

    nodes: list[Spot]
    weight: int
    unit: Unit
    size: float
    fingerprint: str
    files: list[str]
    warnings: list[str]
    groves: list[Grove] = field(default_factory=list)


@dataclass
class Chosen:
    """What cross-validation chose (places in the grid), and the losses it saw."""

    size: int
    depth: int
    shrinkage: int
    loss: float
    pooled: float
    by_depth: dict[str, float]


@dataclass
class Known:
    """Everything that the rounds so far have found.

    Attributes
    ----------
    step
        What the next round is about, one of `STEPS`.
    columns, dtype
        The feature columns, and the type of the score.
    seen, edges, categories
        Of all rows; of each feature.
    folds
        Parts of the rows that are judged; 0: nothing is cross-validated.
    times
        How rows are dealt where parts follow each other in time: there is one more then, the first
        is judged by nothing, and each other one by what came before it; None: otherwise.
    fingerprint
        The hash of the data.
    nodes
        The trees; the roots first.
    chosen, slope, intercept
        What cross-validation says.
    correction
        The map of held-out scores.
    curves
        Beta maps, of the leaves and of all rows; none before they are looked for.
    cuts, rates
        The bins of the histogram maps of the leaves, or how far they are known, and their positive
        rates; the blocks of isotonic maps.
    stretches
        How far the blocks of isotonic maps are known; none once they are.
    apart
        Whether trees are all that these rows are for.
    grown
        Trees of other rows; None: of these.
    forest, scores, runs
        What a forest has besides; the bins of the scores and the runs of a boosted model.  None, or
        none, before these begin.
    """

    step: str
    columns: list[Column]
    dtype: str
    seen: Seen | None = None
    edges: list[Edges] = field(default_factory=list)
    categories: list[list[str] | None] = field(default_factory=list)
    folds: int = 0
    times: Times | None = None
    fingerprint: str = ""
    nodes: list[Spot] = field(default_factory=list)
    chosen: Chosen | None = None
    correction: Line | None = None
    curves: list[Curve] = field(default_factory=list)
    cuts: list[Edges] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)
    stretches: list[Stretches] = field(default_factory=list)
    apart: bool = False
    grown: Grown | None = None
    forest: Forest | None = None
    scores: Edges | None = None
    runs: list[boosted_known.Run] = field(default_factory=list)

    def ask(self) -> dict[str, Any]:
        """Return it as a plan holds it."""
        found: dict[str, Any] = as_plain(self)
        return found

    @property
    def parts(self) -> int:
        """How many parts the rows are dealt to."""
        return self.folds + 1 if self.times is not None else max(self.folds, 1)

    @property
    def judged(self) -> range:
        """The parts that are judged."""
        return range(self.parts - self.folds, self.parts)

    def judge_nothing(self) -> None:
        """Do without cross-validation."""
        self.folds, self.times = 0, None

    def counts(self, node: Spot) -> tuple[float, float]:
        """Return how many rows a node has, and how many positive ones; see `Seen.counts`."""
        return node.rows * self.rows.size, node.hits * self.rows.size

    @property
    def rows(self) -> Seen:
        """What the first look found; only after it."""
        if self.seen is None:
            raise ModelError("a damaged plan: it does not say what rows there are")
        return self.seen

    @property
    def wood(self) -> Forest:
        """The forest; only of one, and after the bins are known."""
        if self.forest is None:
            raise ModelError("a damaged plan: it has no forest")
        return self.forest


@dataclass(frozen=True)
class Trees:
    """Trees of all leaf sizes, and the features and categories that their splits are of."""

    columns: list[Column]
    categories: list[list[str] | None]
    grown: Grown

    def begin(self, dtype: str) -> Known:
        """Return what is known before the first look at the rows to calibrate."""
        bins = [Edges(0, [], []) for _ in self.columns]
        return Known(LOOK, self.columns, dtype, None, bins, self.categories, grown=self.grown)


def grid_of(spec: HetcalSpec) -> Grid:
    """Return what depth, leaf size and shrinkage are chosen from."""
    if spec.partition == "forest":
        return forest_grid(spec)
    return Grid(
        DEPTHS if spec.max_depth is None else (spec.max_depth,),
        LEAF_SIZES if spec.min_leaf is None else (spec.min_leaf,),
        SHRINKAGES if spec.shrinkage is None else (spec.shrinkage,),
    )
