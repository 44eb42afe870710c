"""Tables over the levels of a grid: what each number of bins or rows can gain at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import grid_dp

Int64s = NDArray[np.int64]

#: A table that takes more additions than this, or holds more values, is not begun.
MOST_STEPS, MOST_VALUES = 10**9, 10**8


def prefix_sums(counts: Int64s) -> Int64s:
    """Return the sums of the t highest bins of each level, t = 0 … bins: shape (K, L + 1)."""
    sums = np.zeros((counts.shape[0], counts.shape[1] + 1), np.int64)
    np.cumsum(counts[:, ::-1], axis=1, out=sums[:, 1:])
    return sums


def common_unit(counts: Int64s) -> int:
    """Return the greatest common divisor of some counts, 1 where all are 0."""
    return int(np.gcd.reduce(counts.ravel())) or 1


@dataclass(frozen=True)
class LevelTables:
    """The largest sum of gains for every sum of costs, level by level.

    Attributes
    ----------
    gains, costs
        One array a level: its choices, costs non-decreasing from 0.
    values
        One array a level: the largest gain of the levels up to it, for every cost.
    """

    gains: list[Int64s]
    costs: list[Int64s]
    values: list[Int64s]

    @classmethod
    def fill(cls, gains: list[Int64s], costs: list[Int64s]) -> LevelTables:
        """Compute the tables of all levels."""
        values = [np.zeros(1, np.int64)]
        for gain, cost in zip(gains, costs, strict=True):
            values.append(grid_dp.add_level(values[-1], gain, cost))
        return cls(gains, costs, values)

    def trace(self, targets: Int64s) -> Int64s:
        """Return the choices, shape (targets, levels), that attain the values at some costs."""
        choices = np.empty((targets.size, len(self.gains)), np.int64)
        values = self.values[-1][targets]
        for level in range(len(self.gains) - 1, -1, -1):
            gain, cost = self.gains[level], self.costs[level]
            chosen = grid_dp.trace_level(self.values[level], gain, cost, targets, values)
            choices[:, level] = chosen
            targets, values = targets - cost[chosen], values - gain[chosen]
        return choices


def table_size(costs: list[Int64s]) -> tuple[int, int]:
    """Return how many additions the tables of some levels take, and how many values they hold."""
    steps, held, reach = 0, 1, 1
    for cost in costs:
        steps += reach * cost.size
        reach += int(cost[-1])
        held += reach
    return steps, held


@dataclass(frozen=True)
class LevelPrefixes:
    """The prefixes of each level worth choosing: no other has as many positives in fewer rows.

    Attributes
    ----------
    take
        Number of bins of each prefix, from 0.
    hits, rows
        Positive rows and all rows of each prefix, in multiples of `hits_unit` and `rows_unit`.
    hits_unit, rows_unit
        The greatest common divisors of the bins' counts.
    """

    take: list[Int64s]
    hits: list[Int64s]
    rows: list[Int64s]
    hits_unit: int
    rows_unit: int

    @classmethod
    def of(cls, positives: Int64s, totals: Int64s) -> LevelPrefixes:
        """Collect the undominated prefixes of a grid."""
        hits, rows = prefix_sums(positives), prefix_sums(totals)
        hits_unit, rows_unit = common_unit(hits), common_unit(rows)
        take = [np.append(0, 1 + np.flatnonzero(np.diff(level))) for level in hits]
        return cls(
            take,
            [level[kept] // hits_unit for level, kept in zip(hits, take, strict=True)],
            [level[kept] // rows_unit for level, kept in zip(rows, take, strict=True)],
            hits_unit,
            rows_unit,
        )

    def takes(self, choices: Int64s) -> Int64s:
        """Return the numbers of bins of chosen prefixes, shape (choices, levels)."""
        return np.stack([self.take[i][choices[:, i]] for i in range(len(self.take))], axis=1)
