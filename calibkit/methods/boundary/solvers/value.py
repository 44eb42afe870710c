"""The boundary that is best for a goal that looks at what rows are worth, with proof.

Values and costs are integers in units of their own: a second column of counts, the gain.  With
costs of single rows the gain is the cost saved: that of a missed positive for each true positive,
less that of a false alarm for each false positive.

To maximise a gain under one linear bound on numbers of rows, only two sums of each prefix count:
its gain, and how much of the bound it uses.  In each level the prefixes that another one beats in
both are left out; what remains rises in both.  Measured from the one that uses least, each level is
then like any other level of positives (the gain) and rows (the use), and the search of
`calibkit.methods.boundary.solvers.exact` for most positives among so many rows at most finds the
optimum.

To maximise precision among boundaries that catch enough value, the same search is repeated for
``true positives - c * selected``, c being the precision reached so far, until nothing is better
(Dinkelbach, On nonlinear fractional programming, 1967).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem import bounded
from calibkit.methods.boundary.problem.goals import Goal, LeastCost, Totals
from calibkit.methods.boundary.solvers import exact
from calibkit.summaries.tally import Points

Int64s = NDArray[np.int64]

#: Sums of integers stay below this.
_MOST = 2**61


def solve(points: Points, goal: Goal, cap: int) -> exact.Solution:
    """Return the best choice of one prefix per level, for a goal that looks at gains.

    `cap`: see `calibkit.methods.boundary.solvers.exact.solve`.
    """
    if isinstance(goal, LeastCost):
        return _cheapest(points, goal)
    if isinstance(goal, bounded.PrecisionAtRecall):
        return _most_precise(points, goal, cap)
    if isinstance(goal, bounded.RecallAtPrecision):  # a linear bound: `use` is at most `limit`
        use, whole = _combined(points, goal.numerator, -goal.denominator, up=True)
        limit = 0
    else:
        assert isinstance(goal, bounded.RecallWithin)
        use, whole = _combined(points, 1, -goal.spared, up=True)
        limit = goal.limit
    # Gains of which no two are equal unless their rows are, unless such integers would be too large.
    last = points.ends[points.ends > points.offsets[: points.levels]] - 1
    rows, most = int(points.selected[last].sum()), int(points.gain[last].sum())
    if (most + 1) * (rows + 1) < _MOST:
        gains, unit = points.gain * (rows + 1) - points.selected, rows + 1
    else:  # of equal ones any is as good
        gains, unit, rows = points.gain, 1, 0
    found = _largest_gain(points, gains, use, limit, cap)
    share = (found.ceiling + rows) / unit / goal.totals.gain if goal.totals.gain else 0.0
    proven = found.proven and whole
    if proven:
        gain = points.total_gain(found.choice)
        share = goal.value(found.selected, found.true_positives, gain) or 0.0
    return replace(found, proven=proven, ceiling=min(1.0, share))


def _cheapest(points: Points, goal: LeastCost) -> exact.Solution:
    """Return the choice that saves most, each level by itself; of equal ones fewest rows."""
    choice = np.full(points.levels, -1, np.int64)
    for level in range(points.levels):
        own = points.of_level(level)
        gain = np.append(0, points.gain[own])
        best = int(np.argmax(gain))  # the first of equal ones
        choice[level] = own.start + best - 1 if best else -1
    selected, true_positives = points.totals(choice)
    value = goal.value(selected, true_positives, points.total_gain(choice))
    assert value is not None  # there are rows
    return exact.Solution(choice, selected, true_positives, True, value)


def _most_precise(points: Points, goal: bounded.PrecisionAtRecall, cap: int) -> exact.Solution:
    """Return the choice of largest precision that catches enough value."""
    last = np.where(points.ends > points.offsets[: points.levels], points.ends - 1, -1)
    choice = np.asarray(last, np.int64)  # everything catches enough
    selected, hits = points.totals(choice)
    while True:
        # Rows and positives of a candidate over those at hand: positive iff it is more precise.
        gain, whole = _combined(points, -hits, selected, up=False)
        found = _largest_gain(points, gain, -points.gain, -goal.least, cap)
        # Of equal precision more true positives are preferred.
        better = found.true_positives * selected - hits * found.selected
        if better < 0 or (better == 0 and found.true_positives <= hits):
            break
        choice, selected, hits = found.choice, found.selected, found.true_positives
        if better == 0:
            break
    proven = found.proven and whole
    value = hits / selected
    return exact.Solution(choice, selected, hits, proven, value if proven else 1.0)


def _largest_gain(
    points: Points, gain: Int64s, use: Int64s, limit: int, cap: int
) -> exact.Solution:
    """Return the choice of largest gain whose use is at most a limit; one is within it.

    The ceiling is that of the gain.
    """
    start = np.full(points.levels, -1, np.int64)
    kept: list[tuple[Int64s, Int64s, Int64s]] = []
    least_gain = least_use = 0
    for level in range(points.levels):
        own = points.of_level(level)
        place = np.append(-1, np.arange(own.start, own.stop))
        gains, uses = np.append(0, gain[own]), np.append(0, use[own])
        order = np.lexsort((place, -gains, uses))
        rising = np.maximum.accumulate(gains[order])
        order = order[np.append(True, rising[1:] > rising[:-1])]
        first, rest = order[0], order[1:]
        start[level] = place[first]
        least_gain += int(gains[first])
        least_use += int(uses[first])
        kept.append((uses[rest] - uses[first], gains[rest] - gains[first], place[rest]))
    sizes = np.cumsum([0, *(len(level[0]) for level in kept)])
    if not sizes[-1]:
        return exact.Solution(start, *points.totals(start), True, float(least_gain))
    uses, gains, places = (np.concatenate([level[k] for level in kept]) for k in range(3))
    shifted = Points(uses, gains, places, sizes, sizes[1:])
    most = int(sum(level[1][-1] for level in kept if level[1].size))
    goal = bounded.RecallWithinUnits(limit - least_use, Totals(int(uses.sum()), most))
    found = exact.solve(shifted, goal, cap)
    taken = found.choice >= 0
    choice = start.copy()
    choice[taken] = places[found.choice[taken]]
    ceiling = least_gain + found.ceiling * most
    return exact.Solution(choice, *points.totals(choice), found.proven, ceiling)


def _combined(points: Points, rows: int, hits: int, *, up: bool) -> tuple[Int64s, bool]:
    """Return ``rows * selected + hits * true_positives`` of each point, and whether it is exact.

    Where the sums would not stay integers of 63 bits they are in coarser units, rounded up or down
    by more than the error of the floats.
    """
    last = points.ends[points.ends > points.offsets[: points.levels]] - 1
    most = sum(
        abs(factor) * int(total[last].sum())
        for factor, total in ((rows, points.selected), (hits, points.true_positives))
    )
    if most < _MOST or (abs(rows) <= 1 and abs(hits) <= 1):
        return rows * points.selected + hits * points.true_positives, True
    scale = 2.0 ** (58 - most.bit_length())
    found = rows * scale * points.selected.astype(
        np.float64
    ) + hits * scale * points.true_positives.astype(np.float64)
    margin = 2.0**-50 * most * scale
    if up:
        return np.ceil(found + margin).astype(np.int64), False
    return np.floor(found - margin).astype(np.int64), False
