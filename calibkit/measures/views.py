"""What a metric of one score is, and what it is computed from.

A metric is a function of a `View`, the sorted tally of one score in one slice of the rows.  `metric`
registers it under its name, with how its interval is found and the options that its signature shows.
To add one: the kernel, the function in the file of its family, and its line in
`calibkit.options.metrics` and on the page docs/evaluate.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from itertools import accumulate
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from calibkit.arrays import Floats, Int64s, Numbers, UInt8s
from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit
from calibkit.measures.result import Number
from calibkit.numerics.bounds import Bound
from calibkit.numerics.sums import cut, each_block, exact_group_sums, exact_sum
from calibkit.options.metrics import Settings
from calibkit.summaries.tally import count_rows
from calibkit.version import __version__
from calibkit_kernels import metrics as kernels

P = ParamSpec("P")
T = TypeVar("T")


class FixedClasses(Struct, frozen=True):
    """What the negative and the positive rows weigh among *all* rows, where that is fixed."""

    weight: Floats  # of each class
    square: Floats  # the sum of the squared weights of each class
    group: Floats | None  # of each class in each group (``--groups``): shape (groups, 2)
    #: How often what is counted of each class counts, and what a unit of that is worth.
    factors: ClassWeights
    size: float

    @classmethod
    def of(cls, sample: Sample, factors: ClassWeights = AS_THEY_ARE, size: float = 1.0) -> Self:
        """Return those of all rows, whose weights are rescaled already."""
        label, weight, groups = sample.label.astype(np.int64), sample.weights, None
        own, again = sample.squared(weight)
        total, square = (exact_group_sums(own, label, 2, times=one) for one in (None, again))
        if sample.group is not None:
            cells = 2 * (int(sample.group.max()) + 1)
            groups = exact_group_sums(weight, 2 * sample.group + label, cells).reshape(-1, 2)
        return cls(total, square, groups, factors, size)


class Rows(Struct, frozen=True):
    """Rows whose columns are arrays."""

    def rows_of(self, kept: Numbers) -> Self:
        """Return some of the rows, by a mask or by their numbers."""
        columns = {name: own for name, own in asdict(self).items() if isinstance(own, np.ndarray)}
        return replace(self, **{name: own[kept] for name, own in columns.items()})


class Sample(Rows, frozen=True):
    """The rows behind a view, in row order."""

    score: (
        Numbers  # float32 or float64 as read (logits and raw scores as they are); no NaN, no -0.0
    )
    label: UInt8s  # 0 and 1
    weight: Floats | None = None  # float64; None counts rows
    #: Which group (``--groups``) each row belongs to, from 0, those that weigh nothing last; None:
    #: every row is its own.
    group: Int64s | None = None
    #: How many rows each of these stands for, where equal ones were counted (their weight is in
    #: `weight`); None: one.
    times: Int64s | None = None
    #: What classes weigh among all rows, where ``--prevalence`` fixes that; and what is counted.
    classes: FixedClasses | None = None
    given: Floats | None = None
    #: How many rows each of these is, where weights that say so were rescaled; None: one.
    number: Floats | None = None

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.label.size if self.times is None else self.times.sum())

    @property
    def held(self) -> Sample:
        """The rows that weigh something."""
        weight = self.weight
        return self if weight is None or weight.all() else self.rows_of(weight > 0.0)

    @property
    def units(self) -> int:
        """How many rows there are that weigh something, or groups of them."""
        held = self.held
        if held.group is not None:
            return int(np.count_nonzero(np.bincount(held.group)))
        return held.rows if held.number is None else round(exact_sum(held.number))

    @property
    def weights(self) -> Floats:
        """What each row weighs."""
        return np.ones(self.label.size) if self.weight is None else self.weight

    def squared(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return two factors of the squares of what rows weigh, each the sum over those that it is."""
        if self.number is None:
            return weight, weight
        held = self.number > 0.0
        return weight, np.divide(weight, self.number, out=np.zeros(weight.size), where=held)


class Slice(Struct, frozen=True, kw_only=True):
    """A score, or decisions, in one slice of the rows."""

    #: The score and the slice, such as ``all`` or ``top:0.1``.
    name: str
    part: str
    #: The rows.  Two scores of one slice have the same rows in the same order.
    sample: Sample
    unit: Unit = ROW  # what one unit of weight is worth
    settings: Settings = Settings()  # the options that shape metrics

    @property
    def sampled(self) -> bool:
        """Whether a row stands for others, so that its weight is no number of rows."""
        rescaled = self.settings.weight_kind == "sampling" or self.settings.prevalence is not None
        return rescaled and self.sample.weight is not None

    @property
    def numbers(self) -> Floats | None:
        """How many rows each of the sample's is, 0 where it weighs nothing; None: one."""
        sample = self.sample
        counted = sample.number if self.sampled else sample.weight
        if counted is not None or (sample.times is None and sample.weight is None):
            return counted
        return np.where(sample.weights > 0.0, 1 if sample.times is None else sample.times, 0.0)

    @property
    def by_rows(self) -> bool:
        """Whether rows are no units of their own that a tally could count."""
        return self.sample.group is not None or self.sampled

    def row_size(self, total: int) -> float:
        """Return how many rows a unit is to whatever tells noise by their number.

        Sampling weights may have any scale: their `total` units are as many as the rows there are.
        """
        if self.settings.weight_kind == "sampling" and self.sample.weight is not None and total:
            return self.sample.held.rows / total
        return self.unit.size


class View(Slice, frozen=True, kw_only=True, dict=True):
    """One score in one slice."""

    score: Numbers  # the distinct scores, falling, as read (float32 or float64)
    #: Rows and positive rows (in units of weight) of each distinct score: uint8, int32 or int64.
    count: Numbers
    positive: Numbers
    #: The share of positives among *all* rows, what `lift` compares with; None if there are none.
    base_rate: float | None = None
    #: The same slice under the baseline score, what `log_loss_reduction` compares with.
    baseline: View | None = None

    @property
    def total(self) -> int:
        """All rows, in units."""
        return self.starts[-1][0]

    @property
    def positives(self) -> int:
        """All positive rows, in units."""
        return self.starts[-1][1]

    @property
    def negatives(self) -> int:
        """All negative rows, in units."""
        return self.total - self.positives

    @cached_property
    def rows_each(self) -> float:
        """How many rows a unit is; see `row_size`."""
        return self.row_size(self.total)

    @cached_property
    def memory(self) -> dict[tuple[Any, ...], Any]:
        """What `once` has computed."""
        return {}

    @cached_property
    def blocks(self) -> list[slice]:
        """The stretches that kernels work on beside each other."""
        return cut(0, self.score.size)

    @cached_property
    def starts(self) -> list[tuple[int, int]]:
        """Rows and positive rows (in units) above each block, and of all at the end."""
        steps = (
            (int(self.count[own].sum(dtype=np.int64)), int(self.positive[own].sum(dtype=np.int64)))
            for own in self.blocks
        )
        return list(accumulate(steps, lambda a, b: (a[0] + b[0], a[1] + b[1]), initial=(0, 0)))

    @cached_property
    def probability(self) -> Numbers | None:
        """The scores as probabilities, None where they are raw or infinite."""
        return as_probabilities(self.score, self.settings.scale)

    def each(self, kernel: Callable[..., Any], *arrays: Numbers, **more: Any) -> list[Any]:
        """Return what a kernel gives for each block of some arrays of the tally."""
        return each_block(kernel, arrays, self.blocks, self.settings.threads, **more)


def as_probabilities(score: Numbers, scale: str) -> Numbers | None:
    """Return scores as probabilities, None where they are raw or one is infinite."""
    if scale == "probability":
        return score
    if scale == "raw" or not np.isfinite(score).all():
        return None
    found = np.empty(score.size)
    kernels.expit(score, found)
    return found


def once(work: Callable[Concatenate[View, P], T]) -> Callable[Concatenate[View, P], T]:
    """Make a function of a view compute its result the first time it is asked for."""

    @wraps(work)
    def kept(view: View, /, *args: P.args, **more: P.kwargs) -> T:
        if (work, *args) not in view.memory:
            view.memory[work, *args] = work(view, *args, **more)
        return cast(T, view.memory[work, *args])

    return kept


def view_of(sample: Sample, name: str, part: str, settings: Settings, **more: Any) -> View:
    """Return the view of some rows: sorted and counted."""
    classes, weight = sample.classes, sample.weight if sample.classes is None else sample.given
    score, unit = sample.score[:0], ROW
    count = positive = np.empty(0, np.int64)
    if sample.label.size and (weight is None or weight.any()):
        level = np.zeros(sample.label.size, np.uint16)
        found = count_rows(
            sample.score, level, sample.label, 1, weight=weight, threads=settings.threads
        )
        unit = found.unit
        if classes is not None:  # in integers, so that bounds are compared exactly
            found = found.reweighted(classes.factors)
            unit = Unit(unit.size * classes.size, unit.exact)
        score, count, positive = found.score, found.count, found.positive
    tally: dict[str, Any] = {"score": score, "count": count, "positive": positive, "unit": unit}
    return View(name=name, part=part, sample=sample, settings=settings, **tally, **more)


Function = Callable[..., Number]
Options = Callable[[Settings], dict[str, object]]

#: What a positive and a negative row of each entry of a block of a view contribute to a metric.
Shares = tuple[Floats, Floats]
Contributions = Callable[[View, int], Shares]

#: How an interval is found: see `calibkit.measures.metrics`.
How = Literal["delong", "influence", "wilson", "bootstrap"]

#: On what scale an interval is symmetric; ``log1p`` is the logarithm of the value and 1.
Scale = Literal["identity", "log", "log1p", "logit"]


class Metric(Struct, frozen=True, kw_only=True):
    """A metric of one score."""

    #: What computes it from a view; from a view and a bound where there are `bounds`.
    function: Function
    options: Options  # what its signature says besides, given the settings
    compared: bool = True  # whether it may differ between two scores of the same rows
    #: How its interval is found, None where it has none, and on what scale it is symmetric.
    interval: How | None = None
    scale: Scale = "identity"
    #: The bounds it is computed at, given the settings: one number each, as ``name:0.9``.
    bounds: Callable[[Settings], tuple[Bound, ...]] | None = None
    #: Its influence function, given a view and the number of a block; see
    #: `calibkit.measures.influence`.
    contributions: Contributions | None = None


#: All metrics whose family is loaded; `calibkit.measures.metrics` loads all of them.
DEFINED: dict[str, Metric] = {}


def metric(
    name: str, options: Options | None = None, **fields: Any
) -> Callable[[Function], Function]:
    """Register a function of a view as a metric, with these attributes of `Metric`."""

    def register(function: Function) -> Function:
        DEFINED[name] = Metric(function=function, options=options or (lambda _: {}), **fields)
        return function

    return register


def signed(
    name: str, options: dict[str, object], settings: Settings, interval: str | None = None
) -> str:
    """Return the signature of a metric with these options."""
    parts = dict(options)
    if settings.scale != "probability":
        parts["scale"] = settings.scale
    if settings.weighted:
        parts["weights"] = settings.weight_kind
    if settings.prevalence is not None:
        parts["prevalence"] = settings.prevalence
    shaped = [name, *(f"{key}:{parts[key]}" for key in sorted(parts)), f"v:{__version__}"]
    return "|".join(shaped if interval is None else [*shaped, f"interval:{interval}"])


def filled(view: View, block: int, kernel: Callable[..., None], *given: Any) -> Shares:
    """Return what a kernel writes for a block, from its counts."""
    part = view.blocks[block]
    plus, minus = np.empty(part.stop - part.start), np.empty(part.stop - part.start)
    kernel(view.count[part], view.positive[part], *given, plus, minus)
    return plus, minus


def probability_of(view: View, block: int) -> Numbers:
    """Return the probabilities of a block."""
    assert view.probability is not None
    return view.probability[view.blocks[block]]


def to_mean(view: View, mean: float | None, shares: Shares) -> Shares:
    """Return the contributions to a mean over rows from the values of rows."""
    plus, minus = ((values - (mean or 0.0)) / view.total for values in shares)
    return plus, minus
