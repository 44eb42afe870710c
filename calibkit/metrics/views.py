"""What a metric is computed from: one score in one slice of the rows, as its sorted tally."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.bounds import Bound
from calibkit.weights import ROW, Unit

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that shape metrics.

    Attributes
    ----------
    scale
        ``probability``, ``logit`` or ``raw``.
    bins, strategy
        Number and kind of the bins of `ece`, `mce` and `ece_debiased`: ``equal-width`` (over
        [0, 1]), ``equal-mass`` or ``range`` (equal width over the range of the scores).
    precisions, recalls
        The bounds of ``recall_at_precision:P`` and ``precision_at_recall:R``.
    weighted, weight_kind
        Whether rows have weights, and what a weight 2 is: ``frequency`` (two rows) or ``sampling``
        (one row that stands for two).
    threads
        How many threads may work; no result depends on it.
    """

    scale: str = "probability"
    bins: int = 15
    strategy: str = "equal-width"
    precisions: tuple[Bound, ...] = ()
    recalls: tuple[Bound, ...] = ()
    weighted: bool = False
    weight_kind: str = "frequency"
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The rows behind a view, in row order.

    Attributes
    ----------
    score
        float32 or float64 as read (logits and raw scores as they are); no NaN, no -0.0.
    label
        0 and 1.
    weight
        float64; None counts rows.
    group
        Which group (``--groups``) each row belongs to, from 0; None: every row is its own.
    """

    score: Floats
    label: NDArray[np.uint8]
    weight: NDArray[np.float64] | None = None
    group: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class View:
    """One score in one slice.

    Attributes
    ----------
    name, part
        The score and the slice, such as ``all`` or ``top:0.1``.
    score
        The distinct scores, falling, as read (float32 or float64).
    count, positive
        Rows and positive rows (in units of weight) of each distinct score: uint8, int32 or int64.
    unit
        What one unit of `count` is worth.
    sample
        The rows.  Two scores of one slice have the same rows in the same order.
    settings
        The options that shape metrics.
    base_rate
        The share of positives among *all* rows, what `lift` compares with; None if there are none.
    """

    name: str
    part: str
    score: Floats
    count: NDArray[Any]
    positive: NDArray[Any]
    sample: Sample
    unit: Unit = ROW
    settings: Settings = field(default_factory=Settings)
    base_rate: float | None = None

    @property
    def rows(self) -> int:
        """How many rows there are, whatever their weight."""
        return int(self.sample.label.size)

    @cached_property
    def total(self) -> int:
        """All rows, in units."""
        return int(self.count.sum(dtype=np.int64))

    @cached_property
    def positives(self) -> int:
        """All positive rows, in units."""
        return int(self.positive.sum(dtype=np.int64))

    @property
    def negatives(self) -> int:
        """All negative rows, in units."""
        return self.total - self.positives


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Decisions against labels in one slice, in units of weight.

    Attributes
    ----------
    tp, fp, fn, tn
        True and false positives, false and true negatives.
    unit
        What one unit is worth.
    sample
        The rows; `Sample.score` is the decision, 0 or 1.
    """

    name: str
    part: str
    tp: int
    fp: int
    fn: int
    tn: int
    sample: Sample
    unit: Unit = ROW
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two scores in one slice, row by row: `other` is compared with `baseline`."""

    baseline: View
    other: View
