"""The rows of a fit in an order of their own, so that no result depends on that of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.rows import Remark
from calibkit.columns.weights import ROW, Unit, bit_range, common_unit
from calibkit.errors import DataError
from calibkit.methods.hetcal.features import Features
from calibkit.methods.hetcal.trees import Tree, ends_of
from calibkit.models.scales import ScoreColumns
from calibkit.numerics.sums import ExactSum
from calibkit.summaries.arrays import Arrays
from calibkit_kernels.maps import LEAST, log_odds

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]
Used = NDArray[np.bool_]

#: Rows that are worked on at a time where something is made of each; sums run over such blocks.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Folds:
    """The part of each row, from 0, and how many parts are judged.

    `forward`: parts follow each other in time.  There is one more, the first is judged by nothing, and
    each other one by what came before it.
    """

    part: NDArray[np.uint8]
    count: int
    forward: bool = False

    @cached_property
    def present(self) -> list[int]:
        """The parts that hold rows."""
        return np.flatnonzero(np.bincount(self.part)).tolist()

    def judged(self) -> list[int]:
        """Return the parts that are judged: those that hold rows."""
        return [part for part in self.present if part > 0 or not self.forward]

    def held(self, part: int) -> Used:
        """Return which rows are in a part."""
        return np.equal(self.part, part)

    def used(self, part: int) -> Used:
        """Return which rows may be learnt from where a part is judged."""
        return np.less(self.part, part) if self.forward else np.not_equal(self.part, part)

    def before(self, part: int) -> Folds:
        """Return the folds of the rows that may be learnt from where a part is judged.

        The other rows, which are to weigh nothing, count to one of these.
        """
        others = [own for own in self.present if own < part or (own > part and not self.forward)]
        dealt = np.where(self.used(part), self.part, np.uint8(others[-1]))
        return Folds(dealt, len(others) - self.forward, self.forward)

    def among(self, parts: Sequence[int]) -> Used:
        """Return which rows are in some of the parts."""
        return np.isin(np.arange(256), parts)[self.part]


@dataclass
class Totals:
    """What is known of all rows together, added up while they are read.

    `total` and `hits` are the weight of all rows and of the positive ones, in units; `clipped` is how
    many probabilities were moved away from 0 or 1, `hash` the sum of the hashes of the rows; `weight`,
    `top` and `last` are the weight as it was read, and the bits that it takes.
    """

    options: ScoreColumns
    dtype: str = "float64"
    rows: int = 0
    positives: int = 0
    total: int = 0
    hits: int = 0
    clipped: int = 0
    hash: int = 0
    remarks: list[Remark] = field(default_factory=list)
    weight: ExactSum = field(default_factory=ExactSum)
    top: int = -1075
    last: int = 1075

    def add(self, data: ScoreRows, clipped: int, hashes: NDArray[np.uint64]) -> None:
        """Note rows as they were read; their weight in units is added when the unit is known."""
        self.rows += hashes.size
        self.positives += data.positive_rows
        self.clipped += clipped
        self.hash += int(hashes.sum())
        self.dtype, self.options = str(data.score.dtype), data.options
        self.remarks += data.remarks
        if data.weight is not None:
            self.weight.add(data.weight)
            if data.weight.any():
                top, last = bit_range(data.weight)
                self.top, self.last = max(self.top, top), min(self.last, last)

    @property
    def unit(self) -> Unit:
        """What a unit of weight is worth."""
        if self.options.weight is None:
            return ROW
        return common_unit(self.rows, self.weight.fraction, self.top, self.last)


@dataclass(frozen=True, kw_only=True)
class HetcalRows:
    """Labelled rows with features, sorted by score and then by a hash of all that is used."""

    #: `score, mass`: the linear score (the logit of a probability, or the score as it is), and how
    #: many rows each row counts as.
    score: Floats
    label: NDArray[np.uint8]
    #: `weight, unit`: the weight in whole units, and what one of them is worth.
    weight: NDArray[Any]
    #: A word for each row, from which chance decides; see `calibkit.numerics.streams`.
    key: NDArray[np.uint64]
    mass: Floats
    features: Features
    unit: Unit
    #: How many rows a unit of weight stands for where rows are counted, as in the least leaf,
    #: shrinkage and Platt's targets: its worth, or as much as makes the mean weight one row where a
    #: weight says how many rows one stands for.
    size: float
    folds: Folds | None  # as a column of groups or of times deals the rows; None without
    arrays: Arrays  # makes arrays that are as long as the rows
    totals: Totals
    files: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def options(self) -> ScoreColumns:
        """What the columns are."""
        return self.totals.options

    @property
    def count(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows, some at a time."""
        for first in range(0, self.count, _BLOCK):
            yield slice(first, min(first + _BLOCK, self.count))

    def learning(self, used: Used) -> HetcalRows:
        """Return the rows with nothing for the weight of those that are not used."""
        weight = self.arrays.empty(self.count, self.weight.dtype)
        mass = self.arrays.empty(self.count, self.mass.dtype)
        np.multiply(self.weight, used, out=weight)
        np.multiply(self.mass, used, out=mass)
        return replace(self, weight=weight, mass=mass)

    def only(self, kept: Used) -> HetcalRows:
        """Return some of the rows, in memory; what is known of all together stays that of all."""
        here, known = np.flatnonzero(kept), self.features
        codes = tuple(own[here] for own in known.codes)
        values = None if known.values is None else known.values[here]
        taken = {
            name: getattr(self, name)[here] for name in ("score", "label", "weight", "key", "mass")
        }
        folds = None if self.folds is None else replace(self.folds, part=self.folds.part[here])
        features = replace(known, codes=codes, values=values)
        return replace(self, **taken, features=features, folds=folds, arrays=Arrays())

    def ends(self, tree: Tree) -> Ends:
        """Return the node without children that each row ends in."""
        return ends_of(tree, self.features, self.arrays.empty(self.count, np.int32))

    def leaves(self, tree: Tree) -> tuple[Ends, int]:
        """Return the leaf of each row, numbered from left to right, and how many there are."""
        numbers, leaf = tree.leaves(), self.ends(tree)
        for own in self.blocks():
            leaf[own] = numbers[leaf[own]]
        return leaf, int(numbers.max()) + 1

    def moved(self, slope: float, intercept: float, score: Floats | None = None) -> HetcalRows:
        """Return the rows with ``slope score + intercept`` for a score: their own, or another."""
        rows = self if score is None else replace(self, score=score)
        return rows.with_scores(lambda before: slope * before + intercept)

    def with_scores(self, of: Callable[[Floats], Floats]) -> HetcalRows:
        """Return the rows with what a function makes of their scores."""
        after = self.arrays.empty(self.count, float)
        for own in self.blocks():
            after[own] = of(self.score[own])
        return replace(self, score=after)


def linear_scores(score: NDArray[Any], scale: str) -> tuple[Floats, int]:
    """Return scores on a linear scale, and how many were moved away from 0 or 1.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken; logits and raw scores
    stay as they are.
    """
    if scale != "probability":
        return score.astype(np.float64), 0
    exact, logits = score.astype(np.float64), np.empty(score.size)
    log_odds(exact, LEAST, logits)
    return logits, int(np.count_nonzero((exact < LEAST) | (exact > 1.0 - LEAST)))


def need_both_classes(rows: HetcalRows) -> None:
    """Raise `DataError` where no row, or every row, is positive."""
    if 0 < rows.totals.positives < rows.count:
        return
    file, column = next(iter(rows.files), None), rows.options.label
    which = "no" if rows.totals.positives == 0 else "every"
    raise DataError.of(
        file,
        f"column {column!r}: {which} row is positive; a calibration "
        "map needs rows of both classes; name the positive class by --positive if labels are not 0/1",
        column=column,
        rows=rows.count,
    )
