"""What is drawn together in a resample, and how many independent rows rows are worth.

Rows of a group are drawn with it; rows that stand in the same cells with one label are drawn at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.influence import entries, group_sums, sampled
from calibkit.measures.views import Sample, View
from calibkit.numerics.sums import exact_group_sums
from calibkit.options.metrics import Settings
from calibkit_kernels import bootstrap as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Units:
    """What is drawn together: records of rows, each in the unit it belongs to.

    Attributes
    ----------
    mean
        How often each unit is drawn in the mean.
    unit, label, weight
        The unit of each record, the label of its rows, and their weight.
    cell
        The cell of each record, for each score.
    """

    mean: Floats
    unit: Int64s
    label: Int64s
    weight: Floats
    cell: tuple[Int64s, ...]

    def tables(self, sizes: Sequence[int], key: np.uint64) -> list[Floats]:
        """Return what one replicate draws, as a table for each score."""
        drawn = np.empty(self.mean.size)
        kernels.draw_numbers(self.mean, key, drawn)
        plus, minus = self.weight * self.label, self.weight * (1 - self.label)
        tables = [np.zeros((size, 2)) for size in sizes]
        for cell, table in zip(self.cell, tables, strict=True):
            kernels.add_records(cell, self.unit, plus, minus, drawn, table)
        return tables


def units_of(sample: Sample, settings: Settings, cell: tuple[Int64s, ...]) -> Units:
    """Return the units of some rows; each has its number by what it is, not by where it stands."""
    label = sample.label.astype(np.int64)
    weight = np.ones(label.size) if sample.weight is None else sample.weight
    if sample.group is None:
        return _gathered(label, weight, cell, sampled(sample, settings))
    return Units(np.ones(int(sample.group.max()) + 1), sample.group, label, weight, cell)


def units_of_cells(table: Floats) -> Units:
    """Return as units the positive and the negative rows of each cell of a table."""
    every = np.arange(table.size)
    label = 1 - every % 2
    return Units(table.ravel(), every, label, np.ones(table.size), (every // 2,))


def _gathered(label: Int64s, weight: Floats, cell: tuple[Int64s, ...], by_square: bool) -> Units:
    """Return the rows that stand in the same cells with one label as one unit.

    Its number has the mean and variance of the sum of its rows' own: of weights that count rows
    their sum, of sampling weights the square of their sum over the sum of their squares.
    """
    key = label.copy()
    for own in cell:
        key = key * (1 + int(own.max())) + own
    order = np.lexsort((weight, key))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    first, sorted_weight = order[starts], weight[order]
    total = np.add.reduceat(sorted_weight, starts)
    each = np.ones(starts.size)
    if by_square:
        square = np.add.reduceat(sorted_weight * sorted_weight, starts)
        each = np.divide(square, total, out=np.zeros(starts.size), where=total > 0)
    mean = np.divide(total, each, out=np.zeros(starts.size), where=each > 0)
    every = np.arange(starts.size)
    return Units(mean, every, label[first], each, tuple(c[first] for c in cell))


def independent_shares(view: View, part: Int64s, parts: int) -> Floats:
    """Return how many independent rows a row of each part is worth: at most 1.

    It is the variance that the sum of a part's residuals would have, were its rows independent,
    over the one it has.  Of rows that belong together it counts only how they vary together within
    the part: those that lie in different bins do not make the gap of one of them noisier.
    """
    sample, probability = view.sample, view.probability
    if probability is None:
        return np.ones(parts)
    weight = np.ones(sample.label.size) if sample.weight is None else sample.weight
    residual = sample.label.astype(np.float64) - probability[entries(view)]
    mass = exact_group_sums(weight, part, parts)
    total = exact_group_sums(weight, part, parts, times=residual)
    residual -= np.divide(total, mass, out=np.zeros(parts), where=mass > 0)[part]
    own = residual * weight
    alone = exact_group_sums(own, part, parts, times=residual)
    sums, part_of = own, part
    if sample.group is not None:
        pairs, place = np.unique(sample.group * parts + part, return_inverse=True)
        sums, part_of = group_sums(own, place), pairs % parts
    together = exact_group_sums(sums, part_of, parts, times=sums)
    share = np.divide(alone, together, out=np.ones(parts), where=(alone > 0) & (together > 0))
    return np.minimum(share, 1.0)
