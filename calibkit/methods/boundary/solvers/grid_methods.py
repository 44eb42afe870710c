"""Boundaries on a grid by dynamic programming, as published, for comparison and reruns.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance:
EW-DPMT is Algorithm 1, VW-DPMT Algorithm 4, the variants with nested levels stand in appendix C.7.
Their errata: the indices stay within the table, and the empty selection is always feasible.)

A grid is two int64 arrays of shape (levels, score bins): positive rows and all rows of each bin, in
units of weight; level 0 is the least uncertain, bin 0 holds the lowest scores.  A boundary is its
*take*: how many of the highest score bins are selected in each level.  All functions return the
canonical optimum of their class (most true positives, then fewest rows; or largest precision, then
most true positives) with the fewest bins that select its rows.  A boundary of zeros means that no
selection of at least one row meets the bound.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from calibkit.arrays import Int64s
from calibkit.errors import UsageError
from calibkit.methods.boundary.problem.bounded import PrecisionAtRecall, RecallAtPrecision
from calibkit.methods.boundary.problem.goals import Goal
from calibkit_kernels import knapsack
from calibkit_kernels.rates import largest_ratio

#: A table that takes more additions than this, or holds more values, is not begun.
MOST_STEPS, MOST_VALUES = 10**9, 10**8
#: Staircases weighed at a time.
_AT_ONCE = 2**19


# ---------------------------------------------------------------- tables


def prefix_sums(counts: Int64s) -> Int64s:
    """Return the sums of the t highest bins of each level, t = 0 … bins: shape (K, L + 1)."""
    sums = np.zeros((counts.shape[0], counts.shape[1] + 1), np.int64)
    np.cumsum(counts[:, ::-1], axis=1, out=sums[:, 1:])
    return sums


class LevelTables(Struct, frozen=True, dict=True):
    """The largest sum of gains for every sum of costs, level by level.

    `gains`, `costs`: one array a level: its choices, costs non-decreasing from 0.
    """

    gains: list[Int64s]
    costs: list[Int64s]

    @cached_property
    def values(self) -> list[Int64s]:
        """The largest gain of no level, and of the levels up to each, for every cost."""
        values = [np.zeros(1, np.int64)]
        for gain, cost in zip(self.gains, self.costs, strict=True):
            values.append(knapsack.add_level(values[-1], gain, cost))
        return values

    def trace(self, targets: Int64s) -> Int64s:
        """Return the choices, shape (targets, levels), that attain the values at some costs."""
        choices = np.empty((targets.size, len(self.gains)), np.int64)
        values = self.values[-1][targets]
        for level in range(len(self.gains) - 1, -1, -1):
            gain, cost = self.gains[level], self.costs[level]
            chosen = knapsack.trace_level(self.values[level], gain, cost, targets, values)
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


def check_size(method: str, steps: int, held: int) -> None:
    """Raise `UsageError` where a method's table is too large to begin."""
    for wants, size, most in (
        (f"need {steps:,} steps", steps, MOST_STEPS),
        (f"hold {held:,} values", held, MOST_VALUES),
    ):
        if size > most:
            raise UsageError(
                f"--method {method} cannot run on this grid: its table would {wants}, more than "
                f"{most:,}. Take fewer --score-bins, whole weights, or --method exact."
            )


class LevelPrefixes(Struct, frozen=True):
    """The prefixes of each level: those worth choosing, or all.

    `take`: number of bins of each prefix, from 0; `hits`, `rows`: positive rows and all rows of each
    prefix, in multiples of `hits_unit` and `rows_unit`; `hits_unit`, `rows_unit`: the greatest common
    divisors of the bins' counts.
    """

    take: list[Int64s]
    hits: list[Int64s]
    rows: list[Int64s]
    hits_unit: int
    rows_unit: int

    @classmethod
    def of(cls, positives: Int64s, totals: Int64s, *, every: bool = False) -> LevelPrefixes:
        """Collect the prefixes of a grid: undominated ones (no other has as many positives), or all."""
        sums = prefix_sums(positives), prefix_sums(totals)
        take = [np.append(0, 1 + np.flatnonzero((np.diff(level) > 0) | every)) for level in sums[0]]
        units = [int(np.gcd.reduce(counts.ravel())) or 1 for counts in sums]  # 1: all are 0
        hits, rows = (
            [level[kept] // unit for level, kept in zip(counts, take, strict=True)]
            for counts, unit in zip(sums, units, strict=True)
        )
        return cls(take, hits, rows, *units)

    def takes(self, choices: Int64s) -> Int64s:
        """Return the numbers of bins of chosen prefixes, shape (choices, levels)."""
        return np.stack([self.take[i][choices[:, i]] for i in range(len(self.take))], axis=1)


def evaluate(positives: Int64s, totals: Int64s, take: Int64s) -> tuple[int, int]:
    """Return the true positives and the selected rows of a boundary."""
    hits, rows = (prefix_sums(c)[np.arange(take.size), take] for c in (positives, totals))
    return int(hits.sum()), int(rows.sum())


# ---------------------------------------------------------------- canonical form


def _fewest_bins(take: Int64s, totals: Int64s) -> Int64s:
    """Return the fewest bins a level needs to select the rows that `take` selects."""
    rows = prefix_sums(totals)
    return np.array(
        [np.searchsorted(level, level[t]) for level, t in zip(rows, take, strict=True)], np.int64
    )


def _fewest_stairs(take: Int64s, totals: Int64s) -> Int64s:
    """Return the staircase of fewest bins that selects the same rows as a staircase."""
    least, rows = _fewest_bins(take, totals), prefix_sums(totals)
    most = np.array(
        [np.searchsorted(level, level[t], "right") - 1 for level, t in zip(rows, take, strict=True)]
    )
    found = []
    for cut in range(take.size):
        low = int(least[:cut].max(initial=0))
        high = max(low, int(least[cut:].max()))
        if low <= most[:cut].min(initial=low) and high <= most[cut:].min():
            found.append(np.repeat([low, high], [cut, take.size - cut]))
    return min(found, key=lambda stairs: int(stairs.sum()))


# ---------------------------------------------------------------- tables over bins or rows


def _pick_bins(best: Int64s, rows: int, goal: Goal) -> int:
    """Return the best number of bins of average size, 0 where no bin meets the bound.

    `best` is the largest number of true positives for every number of bins: it never falls.
    """
    if isinstance(goal, PrecisionAtRecall):
        bins = np.arange(best.size, dtype=np.int64)
        return max(0, int(largest_ratio(best, bins, goal.least)))
    assert isinstance(goal, RecallAtPrecision)  # no other one is offered these methods
    # R >= sigma m w with w = rows / bins; Python's integers have room for these products.
    per_hit, per_bin = goal.denominator * (best.size - 1), goal.numerator * rows
    for m in range(best.size - 1, 0, -1):
        if int(best[m]) * per_hit >= per_bin * m:
            return int(np.searchsorted(best, best[m]))
    return 0


def _trace_nested(gains: Int64s, costs: Int64s, target: int) -> Int64s:
    """Return the nested choices of largest gain at a cost.

    What the levels before a choice t can gain is known only while the choices down to t are being
    tried, so each level is found by another, shorter run; that needs no table of all choices.
    """
    take = np.zeros(gains.shape[0], np.int64)
    lowest = 0
    for level in range(gains.shape[0] - 1, -1, -1):
        _, lowest = knapsack.nested_levels(gains[: level + 1], costs[: level + 1], target, lowest)
        take[level] = lowest
        target -= int(costs[level, lowest])
    return take


def table(name: str, positives: Int64s, totals: Int64s, goal: Goal) -> Int64s:
    """Return the best boundary by a table over levels.

    EW-DPMT is best if all bins had the average number of rows: where they differ in size its true
    precision may miss the bound, so judge it on the true counts.  VW-DPMT is exact, by a table over
    selected rows; additions and memory grow with their number (see `table_size`).  Row counts are
    divided by their greatest common divisor first, and prefixes that another one beats are left out.
    The variants ``-mono`` never take more bins in a more uncertain level.
    """
    of_bins, nested = name.startswith("ew"), name.endswith("-mono")
    prefixes = LevelPrefixes.of(positives, totals, every=name != "vw-dpmt")
    costs = prefixes.take if of_bins else prefixes.rows
    reach = sum(int(cost[-1]) for cost in costs)
    steps, held = table_size(costs)
    # Of nested levels the table is as long in every one.
    check_size(name, steps, len(costs) * (1 + reach) if nested else held)
    gains = [hits * prefixes.hits_unit for hits in prefixes.hits]

    def pick(best: Int64s) -> int:
        if of_bins:
            return _pick_bins(best, int(totals.sum()), goal)
        reachable = np.flatnonzero(best >= 0)  # numbers of selected rows, in units
        picked = goal.pick(reachable * prefixes.rows_unit, best[reachable])
        return int(reachable[picked]) if picked >= 0 else 0

    if not nested:
        tables = LevelTables(gains, costs)
        choices = tables.trace(np.array([pick(tables.values[-1])]))
        return _fewest_bins(prefixes.takes(choices)[0], totals)
    by_level = np.array(gains), np.array(costs)
    best, _ = knapsack.nested_levels(*by_level, reach, 0)
    take = _trace_nested(*by_level, pick(best))
    # The fewest bins that select the same rows and never rise from level to level.
    return np.maximum.accumulate(_fewest_bins(take, totals)[::-1])[::-1].copy()


# ---------------------------------------------------------------- two steps


def staircase(positives: Int64s, totals: Int64s, goal: Goal) -> Int64s:
    """Return the best boundary with one number of bins up to some level and no fewer from there on.

    A stand-in for the published baseline HR, which is only described as heuristic and as assuming
    that the rate of positives rises with uncertainty.  Found by enumeration.
    """
    hits, rows = prefix_sums(positives), prefix_sums(totals)
    levels, choices = hits.shape
    check_size("staircase", levels * choices * (choices + 1) // 2, 0)
    chunk = max(1, _AT_ONCE // choices)
    found: list[list[int]] = []  # rows, hits, low, high, cut
    for cut in range(levels):
        lows = choices if cut else 1
        for first in range(0, lows, chunk):
            low = np.arange(first, min(first + chunk, lows))[:, None]
            low, high = np.nonzero(low <= np.arange(choices))
            low += first
            chosen = [c[:cut].sum(axis=0)[low] + c[cut:].sum(axis=0)[high] for c in (rows, hits)]
            i = goal.pick(*chosen)
            if i >= 0:
                found.append([int(own[i]) for own in (*chosen, low, high)] + [cut])
    best = goal.pick(*np.array(found, np.int64).reshape(-1, 5).T[:2].copy())
    if best < 0:
        return np.zeros(levels, np.int64)
    _, _, lower, higher, cut = found[best]
    return _fewest_stairs(np.repeat([lower, higher], [cut, levels - cut]), totals)
