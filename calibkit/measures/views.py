"""What a metric is computed from: one score in one slice of the rows, as its sorted tally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import ROW, Unit
from calibkit.numerics.sums import cut, each_block
from calibkit.options.metrics import Settings
from calibkit.summaries.tally import count_rows
from calibkit_kernels import metrics as kernels

Floats = NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """The rows behind a view, in row order."""

    score: Floats  # float32 or float64 as read (logits and raw scores as they are); no NaN, no -0.0
    label: NDArray[np.uint8]  # 0 and 1
    weight: NDArray[np.float64] | None = None  # float64; None counts rows
    #: Which group (``--groups``) each row belongs to, from 0; None: every row is its own.
    group: NDArray[np.int64] | None = None
    #: How many rows each of these stands for, where equal ones were counted (their weight is in
    #: `weight`); None: one.
    times: NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.label.size if self.times is None else self.times.sum())

    def rows_of(self, kept: NDArray[Any]) -> Sample:
        """Return some of the rows, by a mask or by their numbers."""
        columns = {name: own for name, own in vars(self).items() if own is not None}
        return Sample(**{name: own[kept] for name, own in columns.items()})

    @property
    def positive_rows(self) -> int:
        """How many of them are positive."""
        return int(self.label.sum() if self.times is None else self.times[self.label == 1].sum())


@dataclass(frozen=True, kw_only=True)
class View:
    """One score in one slice."""

    #: The score and the slice, such as ``all`` or ``top:0.1``.
    name: str
    part: str
    score: Floats  # the distinct scores, falling, as read (float32 or float64)
    #: Rows and positive rows (in units of weight) of each distinct score: uint8, int32 or int64.
    count: NDArray[Any]
    positive: NDArray[Any]
    #: The rows.  Two scores of one slice have the same rows in the same order.
    sample: Sample
    unit: Unit = ROW  # what one unit of `count` is worth
    settings: Settings = field(default_factory=Settings)  # the options that shape metrics
    #: The share of positives among *all* rows, what `lift` compares with; None if there are none.
    base_rate: float | None = None
    #: The same slice under the baseline score, what `log_loss_reduction` compares with.
    baseline: View | None = None
    memory: dict[Callable[[Any], Any], Any] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """How many rows there are, whatever their weight."""
        return self.sample.rows

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
    def probability(self) -> Floats | None:
        """The scores as probabilities, None where they are raw or infinite."""
        scale = self.settings.scale
        if scale == "raw" or (scale == "logit" and not self.finite):
            return None
        if scale == "probability":
            return self.score
        found = np.empty(self.score.size)
        kernels.expit(self.score, found)
        return found

    @property
    def finite(self) -> bool:
        """Whether no score is infinite, so that scores can be summed."""
        ends = self.score[[0, -1]] if self.score.size else self.score
        return bool(np.isfinite(ends).all())

    def each(self, kernel: Callable[..., Any], *arrays: Floats, **more: Any) -> list[Any]:
        """Return what a kernel gives for each block of some arrays of the tally."""
        return each_block(kernel, arrays, self.blocks, self.settings.threads, **more)


def once(work: Callable[[View], T]) -> Callable[[View], T]:
    """Make a function of a view compute its result the first time it is asked for."""

    @wraps(work)
    def kept(view: View) -> T:
        if work not in view.memory:
            view.memory[work] = work(view)
        return cast(T, view.memory[work])

    return kept


def view_of(sample: Sample, name: str, part: str, settings: Settings, **more: Any) -> View:
    """Return the view of some rows: sorted and counted."""
    weight = sample.weight
    score, unit = sample.score[:0], ROW
    count = positive = np.empty(0, np.int64)
    if sample.label.size and (weight is None or weight.any()):
        level = np.zeros(sample.label.size, np.uint16)
        found = count_rows(
            sample.score, level, sample.label, 1, weight=weight, threads=settings.threads
        )
        score, count, positive, unit = found.score, found.count, found.positive, found.unit
    tally: dict[str, Any] = {"score": score, "count": count, "positive": positive, "unit": unit}
    return View(name=name, part=part, sample=sample, settings=settings, **tally, **more)
