"""Boundaries that choose a prefix of the rows in each level: the optimum, classic ones, random ones.

*The optimum, with proof.*  With the bound fixed, choosing one prefix of the rows in each level is a
multiple-choice knapsack (see `calibkit.numerics.knapsack`).  Its linear relaxation takes the blocks of
the levels' isotonic regressions by falling rate until the bound is exhausted; the rate at that margin
is the multiplier.  Every choice as good as one already known loses at most a *budget* against the
relaxation, so the search widens the band of small losses until the budget of the best choice found
lies inside: then that choice is optimal.  Where the optimum is a vertex of the hull, choices of equal
value lie on the edge that leads to it, where nothing is lost.

Values and costs of rows are integers in units of their own: a second column of counts, the gain.  With
costs of single rows the gain is the cost saved: that of a missed positive for each true positive,
less that of a false alarm for each false positive.  To maximise a gain under one linear bound on
numbers of rows, only two sums of each prefix count: its gain, and how much of the bound it uses.  In
each level the prefixes that another one beats in both are left out; what remains rises in both.
Measured from the one that uses least, each level is then like any other level of positives (the gain)
and rows (the use), and the search for most positives among so many rows at most finds the optimum.

*Single threshold, greedy and isotonic* boundaries: Arora, Merugu, Saladi, Rastogi, Leveraging
uncertainty estimates to improve classifier performance, section 5 (ST; Algorithm 2, GMT; Algorithm 3,
MIST, with the errata of its indices corrected).

*At random*: two boundaries mixed, so that a bound is met with equality.  ``block``: the optimum over
all randomised boundaries.  The linear relaxation takes whole blocks and a share of the one at the
margin; taking each row of that block with this probability is a randomised boundary with exactly
those expected counts.  ``tie``: random at one score only (Singh, Khim, Optimal binary classification
beyond accuracy, section 3): positive above the threshold, with a probability on it.  "Optimal" refers
to the measure of the expected counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Int64s, distinct_values
from calibkit.methods.boundary.problem import bounded
from calibkit.methods.boundary.problem.found import Found, lowest_scores
from calibkit.methods.boundary.problem.goals import CountGoal, Goal, LeastCost, Totals
from calibkit.numerics import knapsack
from calibkit.numerics.isotonic import pool_prefixes
from calibkit.summaries.tally import Points, Tally

#: The first band is this share of the known budget, each next one so many times wider.
_FIRST_SHARE, _WIDEN = 1 / 256, 2.0
#: Sums of integers stay below this.
_MOST = 2**61
#: Entries of a stretch, in which the best single threshold is looked for or not.
_STRETCH = 4096


class Blocks(NamedTuple):
    """The blocks of the isotonic regressions of all levels, by falling rate of positives."""

    selected: Int64s  # rows of each block
    true_positives: Int64s
    level: Int64s
    point: Int64s  # the prefix at which the block ends

    def choice(self, taken: int, levels: int) -> Int64s:
        """Return the choice that takes the first blocks whole."""
        choice = np.full(levels, -1, np.int64)
        choice[self.level[:taken]] = self.point[:taken]  # within a level the last block stays
        return choice

    @property
    def totals(self) -> tuple[Int64s, Int64s]:
        """Rows and positives of the first blocks together, of one up to all."""
        return np.cumsum(self.selected), np.cumsum(self.true_positives)

    def ordered(self, order: Int64s) -> Blocks:
        """Return the blocks in another order."""
        return Blocks(*(array[order] for array in self))


class Solution(Struct, frozen=True):
    """A choice of one point per level, and what is known of it."""

    choice: Int64s  # -1 for none
    selected: int
    true_positives: int
    proven: bool  # whether no choice is better
    ceiling: float  # what no choice can exceed; the objective itself where proven


def isotonic_blocks(points: Points) -> Blocks:
    """Return the blocks of all levels by falling rate; within a level in the order of scores."""
    found = []
    for level in range(points.levels):
        own = points.of_level(level)
        rows, hits, entries = pool_prefixes(points.selected[own], points.true_positives[own]).T
        last = np.cumsum(entries) - 1 + own.start
        found.append((rows, hits, np.full(rows.size, level), last))
    blocks = Blocks(*map(np.concatenate, zip(*found, strict=True)))
    return blocks.ordered(np.argsort(-(blocks.true_positives / blocks.selected), kind="stable"))


def steps_of(points: Points) -> Blocks:
    """Return what each prefix adds to the one before in its level, level after level."""
    own = [points.of_level(level) for level in range(points.levels)]
    rows, hits = (
        np.concatenate([np.diff(counts[one], prepend=0) for one in own])
        for counts in (points.selected, points.true_positives)
    )
    level = np.repeat(np.arange(len(own)), [one.stop - one.start for one in own])
    point = np.concatenate([np.arange(one.start, one.stop) for one in own])
    return Blocks(rows, hits, level, point)


def margin(points: Points, goal: CountGoal) -> float:
    """Return the rate of positives at the margin of a goal's relaxation, 0 where no block is left."""
    blocks = isotonic_blocks(points)
    _, found = goal.whole_blocks(*blocks.totals)
    return 0.0 if found is None else float(blocks.true_positives[found] / blocks.selected[found])


def solve(points: Points, goal: Goal, cap: int = knapsack.STATE_CAP) -> Solution:
    """Return the best choice of one prefix per level; some choice must meet the bound of the goal.

    `cap`: how many combinations of prefixes one step of the search may hold.  Beyond it the best
    choice found so far is returned with an upper bound and ``proven=False``.
    """
    if isinstance(goal, LeastCost):
        return _cheapest(points, goal)
    if isinstance(goal, bounded.PrecisionAtRecall) and goal.uses_gain:
        return _most_precise(points, goal, cap)
    if goal.uses_gain:
        return _most_value(points, goal, cap)
    assert isinstance(goal, CountGoal)
    blocks = isotonic_blocks(points)
    taken, margin = goal.whole_blocks(*blocks.totals)
    choice = blocks.choice(taken, points.levels)
    selected, true_positives = points.totals(choice)
    slope = goal.slope(selected, true_positives)
    if margin is not None:
        slope = float(blocks.true_positives[margin] / blocks.selected[margin])
    prefixes = (points.selected, points.true_positives, points.offsets, points.ends)
    relaxed = knapsack.Relaxation(prefixes, slope)
    most = relaxed.most
    known = goal.budget(most, slope, selected, true_positives)
    budget = min(known, max(known * _FIRST_SHARE, 1.0 - slope))
    while True:
        window = goal.window(most, slope, budget)
        band = knapsack.pareto_band(relaxed, budget, window, cap, goal.compared)
        if band is not None:
            # The choice at hand comes last: of equals one from the band is taken.
            rows = np.append(band.selected, selected)
            hits = np.append(band.true_positives, true_positives)
            pick = goal.pick(rows, hits)
            if 0 <= pick < band.selected.size:  # -1: rounded, no choice of the band meets the bound
                choice = band.choices[pick]
                selected, true_positives = int(rows[pick]), int(hits[pick])
                known = goal.budget(most, slope, selected, true_positives)
        elif not goal.at_vertex:
            return Solution(choice, selected, true_positives, False, goal.ceiling(most, slope))
        if known <= budget:
            value = goal.value(selected, true_positives) or 0.0
            return Solution(choice, selected, true_positives, True, value)
        budget = min(known, _WIDEN * budget)


# ---------------------------------------------------------------- what rows are worth


def pick_in_level(points: Points, goal: Goal, level: int) -> int:
    """Return the prefix of a level that is best by itself, -1 for none."""
    own = points.of_level(level)
    # To select nothing is a choice as well, and the best one for some measures.
    gain = np.append(0, points.gain[own]) if goal.uses_gain else None
    pick = goal.pick(
        np.append(0, points.selected[own]), np.append(0, points.true_positives[own]), gain
    )
    return own.start + pick - 1 if pick > 0 else -1


def _cheapest(points: Points, goal: LeastCost) -> Solution:
    """Return the choice that saves most, each level by itself."""
    choice = np.array([pick_in_level(points, goal, level) for level in range(points.levels)])
    selected, true_positives = points.totals(choice)
    value = goal.value(selected, true_positives, points.total_gain(choice)) or 0.0
    return Solution(choice, selected, true_positives, True, value)


def _most_value(points: Points, goal: Goal, cap: int) -> Solution:
    """Return the choice that catches most value within a bound on numbers of rows."""
    limit = 0
    if isinstance(goal, bounded.RecallAtPrecision):  # a linear bound: `use` is at most `limit`
        use, whole = _combined(points, goal, goal.numerator, -goal.denominator, up=True)
    else:
        assert isinstance(goal, bounded.RecallWithin)
        use, whole = _combined(points, goal, 1, -goal.spared, up=True)
        limit = goal.limit
    # Gains of which no two are equal unless their rows are, unless such integers would be too large.
    every = _everything(points)
    (rows, _), most = points.totals(every), points.total_gain(every)
    if (most + 1) * (rows + 1) < _MOST:
        gains, unit = points.gain * (rows + 1) - points.selected, rows + 1
    else:  # of equal ones any is as good
        gains, unit, rows = points.gain, 1, 0
    found = _largest_gain(points, gains, use, limit, cap)
    gain = points.total_gain(found.choice)
    value = goal.value(found.selected, found.true_positives, gain) or 0.0
    proven = found.proven and whole
    if not proven and goal.totals.gain:
        value = max(value, min(1.0, (found.ceiling + rows) / unit / goal.totals.gain))
    return replace(found, proven=proven, ceiling=value)


def _most_precise(points: Points, goal: bounded.PrecisionAtRecall, cap: int) -> Solution:
    """Return the choice of largest precision that catches enough value.

    The search for most gain is repeated for ``true positives - c * selected``, c being the precision
    reached so far, until nothing is better (Dinkelbach, On nonlinear fractional programming, 1967).
    """
    choice = _everything(points)  # it catches enough
    selected, hits = points.totals(choice)
    while True:
        # Rows and positives of a candidate over those at hand: positive iff it is more precise.
        gain, whole = _combined(points, goal, -hits, selected, up=False)
        found = _largest_gain(points, gain, -points.gain, -goal.least, cap)
        # Of equal precision more true positives are preferred.
        better = found.true_positives * selected - hits * found.selected
        if better < 0 or (better == 0 and found.true_positives <= hits):
            break
        choice, selected, hits = found.choice, found.selected, found.true_positives
        if better == 0:
            break
    proven = found.proven and whole
    return Solution(choice, selected, hits, proven, hits / selected if proven else 1.0)


def _largest_gain(points: Points, gain: Int64s, use: Int64s, limit: int, cap: int) -> Solution:
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
        return Solution(start, *points.totals(start), True, float(least_gain))
    uses, gains, places = (np.concatenate([level[k] for level in kept]) for k in range(3))
    most = int(sum(level[1][-1] for level in kept if level[1].size))
    goal = bounded.RecallWithinUnits(limit - least_use, Totals(int(uses.sum()), most))
    found = solve(Points(uses, gains, places, sizes, sizes[1:]), goal, cap)
    taken = found.choice >= 0
    choice = start.copy()
    choice[taken] = places[found.choice[taken]]
    ceiling = least_gain + found.ceiling * most
    return Solution(choice, *points.totals(choice), found.proven, ceiling)


def _everything(points: Points) -> Int64s:
    """Return the last point of each level, -1 where it has none."""
    return np.where(points.ends > points.offsets[: points.levels], points.ends - 1, -1)


def _combined(points: Points, goal: Goal, rows: int, hits: int, *, up: bool) -> tuple[Int64s, bool]:
    """Return ``rows * selected + hits * true_positives`` of each point, and whether it proves a choice.

    Where the sums would not stay integers of 63 bits they are in coarser units, rounded up or down
    by more than the error of the floats.  Then they prove as much as weights do that are rounded
    themselves, and nothing of whole numbers.
    """
    selected, true_positives = points.totals(_everything(points))
    most = abs(rows) * selected + abs(hits) * true_positives
    if most < _MOST or (abs(rows) <= 1 and abs(hits) <= 1):
        return rows * points.selected + hits * points.true_positives, True
    scale = 2.0 ** (58 - most.bit_length())
    found = rows * scale * points.selected.astype(np.float64)
    found += hits * scale * points.true_positives.astype(np.float64)
    margin = 2.0**-50 * most * scale
    rounded = np.ceil(found + margin) if up else np.floor(found - margin)
    return rounded.astype(np.int64), not goal.totals.exact


# ---------------------------------------------------------------- single, greedy, isotonic


def single_threshold(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best threshold for all rows together; every distinct score may be it.

    `excluded` is a part of a dealt tally that takes no part.
    """
    score, size = tally.score, tally.score.size
    # Each cut lies after all entries of a score.
    last = score[np.arange(_STRETCH, size, _STRETCH) - 1]
    cuts = distinct_values([0, *(size - np.searchsorted(score[::-1], last)), size])
    starts, ends = cuts[:-1], cuts[1:]
    sums = np.zeros((starts.size, 4), np.int64)
    for place, units in enumerate((tally.count, tally.positive, tally.gain, tally.worth)):
        if units.size:
            kept = units if excluded < 0 else units * (tally.part != excluded)
            sums[:, place] = np.add.reduceat(kept, starts, dtype=np.int64)

    def points_of(first: int, last: int) -> Points:
        own = slice(int(starts[first]), int(ends[last]))
        points = tally.where(own).points(excluded=excluded, together=True)
        return replace(points, entry=points.entry + own.start)

    entry, selected, true_positives, gain = best_prefix(goal, sums, points_of)
    lowest = np.nan if entry < 0 else float(score[entry])
    return Found(np.full(tally.levels, lowest), selected, true_positives, gain=gain)


def best_prefix(
    goal: Goal, sums: Int64s, points_of: Callable[[int, int], Points]
) -> tuple[int, int, int, int]:
    """Return where the best prefix of an order ends, with its rows, positives and worth.

    `sums`, shape (stretches, 4): what each stretch of the order holds: rows, positive rows, what the
    rows are worth, and the same without those worth less than nothing.  `points_of` returns the
    prefixes from the first of some stretches on that end before the last one does.  Of no prefix the
    end is -1.

    No prefix that ends in a stretch is better than one that would take, of its rows, the positive ones
    alone, as many as may be, or those worth something.  So stretches are looked into, the most
    promising first, each time with more neighbours, until none promises more than what was found.
    """
    held = np.flatnonzero(sums[:, 0])
    above = np.cumsum(sums[held, :3], axis=0) - sums[held, :3]
    hits = goal.room(above[:, 0], sums[held, 1])
    promised = above + np.column_stack([hits, hits, sums[held, 3]])
    best, entry, wide = np.zeros((1, 3), np.int64), -1, 0
    # What was looked into promises nothing more; of a measure it may still be as good, by rounding.
    while (picked := _pick(goal, best, promised)) >= 0 and promised[picked].any():
        own = slice(max(picked - wide, 0), picked + wide + 1)
        points = points_of(*held[own][[0, -1]].tolist())
        gain = points.gain if points.gain.size else np.zeros_like(points.selected)
        found = np.column_stack([points.selected, points.true_positives, gain])
        found = above[own.start] + found[points.of_level(0)]
        place = _pick(goal, best, found)
        if place >= 0:
            best, entry = found[place : place + 1], int(points.entry[place])
        promised[own], wide = 0, 2 * wide + 1
    return entry, *best[0].tolist()


def _pick(goal: Goal, best: Int64s, others: Int64s) -> int:
    """Return which of other totals, rows of (selected, true positives, worth), beats the best."""
    return goal.pick(*np.ascontiguousarray(np.concatenate([best, others]).T)) - 1


def greedy(points: Points, goal: Goal) -> Int64s:
    """Return, in each level on its own, the best prefix that meets the bound (GMT).

    With a bound on precision that is the largest one; a level that cannot reach it alone gets nothing,
    even where others have room to spare.  With a bound on recall it is the one of largest precision
    that selects this share of the level's own positives, so that all levels together reach it too.
    """
    found = []
    for level in range(points.levels):
        hits = points.true_positives[points.of_level(level)]
        positives = int(hits.max(initial=0))
        own = goal.of(replace(goal.totals, positives=positives))
        found.append(pick_in_level(points, own, level))
    return np.array(found)


def isotonic(points: Points, goal: Goal) -> Int64s:
    """Return the blocks of the levels' isotonic regressions above one common rate (MIST).

    Blocks of equal rate, in whatever level, enter together.  A precision bound ends the selection
    before the first set of them that would break it, a recall bound after the first that reaches it:
    the precision falls from set to set.
    """
    blocks, ends = level_sets(isotonic_blocks(points))
    assert isinstance(goal, CountGoal)
    taken, _ = goal.whole_blocks(*(total[ends] for total in blocks.totals))
    if taken > ends.size:  # no positives, no recall
        taken = 0
    return blocks.choice(int(ends[taken - 1]) + 1 if taken else 0, points.levels)


def level_sets(blocks: Blocks) -> tuple[Blocks, Int64s]:
    """Return the blocks in exact order of their rates, and the last block of each distinct rate.

    Rates that differ by less than a float can tell are told apart in integers.
    """
    rate = blocks.true_positives / blocks.selected
    closes = np.append(rate[1:] != rate[:-1], True)[: rate.size]
    order, start = np.arange(rate.size), 0
    for end in np.flatnonzero(closes):
        run = np.arange(start, end + 1)
        start = int(end) + 1
        if run.size == 1:
            continue
        rates = [Fraction(int(blocks.true_positives[i]), int(blocks.selected[i])) for i in run]
        order[run] = run[sorted(range(run.size), key=lambda k: -rates[k])]
        rates.sort(reverse=True)
        closes[run[:-1]] = [a != b for a, b in itertools.pairwise(rates)]
    return blocks.ordered(order), np.flatnonzero(closes)


# ---------------------------------------------------------------- at random


def random_block(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best boundary that may be random over one block of scores."""
    points = tally.points(excluded=excluded)
    return _at_random(tally, goal, points, isotonic_blocks(points))


def random_tie(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best threshold that may be random at its own score, for a tally of one level."""
    points = tally.points(excluded=excluded, together=True, every=True)
    found = _at_random(tally, goal, points, steps_of(points))
    if found.wide is None or not found.probability:
        return found
    above = np.where(found.wide < np.inf, np.nextafter(found.wide, np.inf), np.nan)
    return replace(found, thresholds=above)


def _at_random(tally: Tally, goal: Goal, points: Points, groups: Blocks) -> Found:
    """Return the best boundary that takes groups of rows in their order, of the last one a share."""
    assert isinstance(goal, CountGoal)
    totals = [np.append(0, total) for total in groups.totals]
    taken, share = goal.mix(*totals)
    ends = taken, taken + bool(share)

    def expected(total: Int64s) -> float:
        before, after = (int(total[end]) for end in ends)
        return float(before + share * (after - before))

    selected, hits = map(expected, totals)
    narrow, wide = (lowest_scores(tally, points, groups.choice(end, points.levels)) for end in ends)
    if share == 1:  # no chance is left
        return Found(wide, selected, hits, wide)
    return Found(narrow, selected, hits, wide, float(share))
