"""The best boundary whose segments' recalls, or false positive rates, lie within a gap of each other.

Where the lowest rate of a segment is r, all lie between r and r + gap.  With one level a segment these
are windows on the prefixes of each, and what is left is the knapsack of `exact` with fewer prefixes.
Which r is best is found by branching: for a range of r the windows are joined, and the knapsack's
linear relaxation over them bounds what any r of the range can reach.  Ranges are halved, the most
promising first, until none left can be better than the best boundary known.

With several levels a segment is reduced to a chain of nested choices over its levels, by falling rate
of positives, so that what is found need not be the optimum.  Bounds then come from the concave hull of
all choices, which the chain's ends of blocks span, and hold nevertheless.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s
from calibkit.methods.boundary.problem.found import Found, found_at
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.solvers import prefixes
from calibkit.numerics import knapsack
from calibkit.summaries.tally import Points, Tally

#: More rates than these are thinned out; what is found is then proven by its bound alone.
MOST_RATES = 200_000
#: So many ranges of rates are looked at before the search ends with a bound.
MOST_RANGES = 5_000
#: Steps of the search for the multiplier of a relaxation: each leaves .62 of the interval.
_STEPS = 30
#: Ranges of rates in doubles are wider by this than exact ones.
_ROUNDING = 1e-12
_GOLDEN = (5**0.5 - 1) / 2
#: Lowest rates from one of the candidates to another: less what none of them can exceed, the numbers
#: of the first and the last, and the multiplier that says so.
Range = tuple[float, int, int, float]


class WithinGap(Goal):
    """A goal whose boundary must also treat segments alike.

    The largest difference between segments of a measure, their ``recall`` or their false positive rate
    (``fpr``), is at most `most`.  A segment without rows of the class in question has no such rate and
    is free.  There are so many `segments`; levels are those of the first one, then as many of the next.

    Totals say nothing of single segments: `met` and `value` are those of `goal`, the same without the
    gap.
    """

    def __init__(self, goal: CountGoal, measure: str, most: Fraction, segments: int) -> None:
        self.goal, self.measure, self.most, self.segments = goal, measure, most, segments
        self.maximised, self.bounded, self.totals = goal.maximised, goal.bounded, goal.totals

    @property
    def alone(self) -> CountGoal:
        """The same without the gap."""
        return self.goal

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        self.goal = self.goal.of(self.totals)

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the objective."""
        return self.goal.value(selected, hits)

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether the bound on all rows together is met."""
        return self.goal.met(selected, true_positives)

    def counted(self, selected: Int64s, true_positives: Int64s) -> Int64s:
        """Return the rows of which the measure counts a share: true or false positives."""
        return true_positives if self.measure == "recall" else selected - true_positives

    def kept_by(self, points: Points, choice: Int64s, totals: Int64s) -> bool:
        """Return whether a choice of one point a level keeps the gap; `totals` are those of levels."""
        taken = np.array([points.totals(own) for own in choice.reshape(self.segments, -1)])
        held = totals.reshape(self.segments, -1, 2).sum(axis=1)
        counts = zip(self.counted(*taken.T), self.counted(*held.T), strict=True)
        rates = [Fraction(int(part), int(whole)) for part, whole in counts if whole]
        return not rates or max(rates) - min(rates) <= self.most

    def gap(self, rows: Int64s, positives: Int64s, selected: Int64s, hits: Int64s) -> float | None:
        """Return the gap between segments from their counts; None where none has the measure."""
        whole, taken = self.counted(rows, positives), self.counted(selected, hits)
        held = whole > 0
        return float(np.ptp(taken[held] / whole[held])) if held.any() else None


class Segment(Struct, frozen=True):
    """What can be selected of a segment, from nothing to all of it."""

    selected: Int64s  # rows and positive rows of each choice, both not falling
    true_positives: Int64s
    #: The rows of which the measure counts a share, of each choice and of all; 0: it has none.
    counted: Int64s
    whole: int
    steps: prefixes.Blocks  # what each choice but the first adds, at its level within the segment
    corners: Int64s | None  # choices that span the hull of all; None: choices are all there are

    def between(self, low: Fraction, high: Fraction) -> slice:
        """Return the choices whose rate lies in a closed range."""
        if not self.whole:
            return slice(0, self.counted.size)
        ends = math.ceil(low * self.whole), math.floor(min(high, Fraction(1)) * self.whole)
        first = np.searchsorted(self.counted, ends[0])
        return slice(int(first), int(np.searchsorted(self.counted, ends[1], side="right")))

    def reach(self, low: Fraction, high: Fraction) -> tuple[Floats, Floats]:
        """Return rows and positives of choices that span all whose rate lies in a range."""
        if self.corners is None or not self.whole:
            own = self.between(low, high) if self.corners is None else self.corners
            return self.selected[own].astype(float), self.true_positives[own].astype(float)
        ends = [float(end) * self.whole for end in (low, high)]
        ends = [ends[0] * (1 - _ROUNDING), ends[1] * (1 + _ROUNDING)]
        counted, *totals = (
            one[self.corners].astype(float)
            for one in (self.counted, self.selected, self.true_positives)
        )
        if ends[0] > counted[-1]:
            return np.empty(0), np.empty(0)
        inside = (counted >= ends[0]) & (counted <= ends[1])
        # Where a count stays the same over corners, the last of them is the one with most rows.
        rows, hits = (np.append(one[inside], np.interp(ends, counted, one)) for one in totals)
        return rows, hits


def find(tally: Tally, goal: WithinGap, *, excluded: int = -1) -> Found:
    """Return the best boundary on a tally whose segments are alike, and what is known of it."""
    # Negative rows at the end of a prefix raise the false positive rate.
    points = tally.points(excluded=excluded, every=goal.measure != "recall")
    kept = tally if excluded < 0 else tally.where(tally.part != excluded)
    totals = kept.level_totals[:, 1:]
    found = free = prefixes.solve(points, goal.goal)
    if not goal.kept_by(points, free.choice, totals):
        found = _Search(points, goal, totals).run()
    ceiling = found.ceiling if found.proven else min(found.ceiling, free.ceiling)
    return found_at(tally, points, found.choice, ceiling, found.proven)


class _Search:
    """The search over the lowest rate of a segment."""

    def __init__(self, points: Points, goal: WithinGap, totals: Int64s) -> None:
        self.goal, self.inner = goal, goal.goal
        self.within = points.levels // goal.segments
        self.segments = []
        for first in range(0, points.levels, self.within):
            own = slice(first, first + self.within)
            of_segment = replace(points, offsets=points.offsets[own], ends=points.ends[own])
            self.segments.append(segment_of(of_segment, goal, totals[own]))
        #: The choices of all segments, one after the other, and where those of each begin.
        self.selected = np.concatenate([segment.selected for segment in self.segments])
        self.hits = np.concatenate([segment.true_positives for segment in self.segments])
        ends = np.cumsum([segment.selected.size for segment in self.segments])
        self.starts = np.append(0, ends[:-1])
        held = [segment for segment in self.segments if segment.whole]
        counted = np.concatenate([np.zeros(1, np.int64), *(one.counted for one in held)])
        whole = np.concatenate([[1], *(np.full(one.counted.size, one.whole) for one in held)])
        _, places = np.unique(counted / whole, return_index=True)
        self.every = self.within == 1 and places.size <= MOST_RATES
        if places.size > MOST_RATES:
            some = places[np.linspace(0, places.size - 1, MOST_RATES).astype(int)]
            counted, whole = counted[some], whole[some]
        pairs = zip(counted.tolist(), whole.tolist(), strict=True)
        self.rates = sorted({Fraction(*pair) for pair in pairs})
        # Nothing, or everything, keeps any gap; which of them it is that meets the bound is the goal's.
        self.known, self.value = (np.empty(0, np.int64), 0, 0), -np.inf
        for chosen in (self.starts, ends - 1):
            self.take(chosen)
        #: What the ranges can reach that were looked at as closely as it gets.
        self.open = -np.inf

    def run(self) -> prefixes.Solution:
        """Return the best choice, with a bound."""
        ranges = [self.bounded(0, len(self.rates) - 1, 0.5)]
        for _ in range(MOST_RANGES):
            reached = -ranges[0][0] if ranges else -np.inf
            if reached < self.value or reached == -np.inf or self.final(reached):
                break
            least, first, last, slope = heapq.heappop(ranges)
            if first == last:
                if not self.look(first, slope) and -least > self.value:
                    self.open = max(self.open, -least)
                continue
            middle = (first + last) // 2
            for ends in ((first, middle), (middle + 1, last)):
                heapq.heappush(ranges, self.bounded(*ends, slope))
        ceiling = max(self.value, self.open, -ranges[0][0] if ranges else -np.inf)
        choice, selected, hits = self.known
        return prefixes.Solution(choice, selected, hits, ceiling == self.value, ceiling)

    def final(self, reached: float) -> bool:
        """Tell whether no choice as good as the known one, of positives alone, has fewer rows."""
        _, selected, hits = self.known
        return reached == self.value and self.inner.bounded != "recall" and selected == hits

    def bounded(self, first: int, last: int, slope: float) -> Range:
        """Return a range of rates with its bound: the least of the relaxations over all multipliers."""
        low, high = self.rates[first], self.rates[last] + self.goal.most
        if not self.every and last + 1 < len(self.rates):
            high = self.rates[last + 1] + self.goal.most
        reach = [segment.reach(low, high) for segment in self.segments]
        if not all(rows.size for rows, _ in reach):
            return np.inf, first, last, slope
        starts = np.cumsum([0, *(rows.size for rows, _ in reach[:-1])])
        rows, hits = map(np.concatenate, zip(*reach, strict=True))

        def ceiling(slope: float) -> float:
            best = math.fsum(np.maximum.reduceat(hits - slope * rows, starts))
            return self.inner.ceiling(best, slope)

        at, least = least_of(ceiling, 0.0, 1.0)
        return -least, first, last, at

    def look(self, place: int, slope: float) -> bool:
        """Look for the best choice with a lowest rate; return whether all were looked at."""
        low = self.rates[place]
        own = [segment.between(low, low + self.goal.most) for segment in self.segments]
        starts, ends = self.starts + np.array([(one.start, one.stop) for one in own]).T
        if (starts >= ends).any():
            return self.every
        relaxed = knapsack.Relaxation((self.selected, self.hits, starts, ends), slope, empty=False)
        most = relaxed.most
        budget = min(1.0, self.budget(most, slope))
        while True:
            window = self.inner.window(most, slope, budget)
            band = knapsack.pareto_band(relaxed, budget, window, compared=self.inner.compared)
            if band is None:
                return False
            pick = self.inner.pick(band.selected, band.true_positives) if len(band.choices) else -1
            if pick >= 0:
                self.take(band.choices[pick])
            if self.budget(most, slope) <= budget:
                return self.every
            budget = min(4.0 * budget, self.budget(most, slope))

    def budget(self, most: float, slope: float) -> float:
        """Return the loss that a choice at least as good as the known one can have."""
        _, selected, hits = self.known
        return self.inner.budget(most, slope, selected, hits)

    def take(self, chosen: Int64s) -> None:
        """Remember a choice of each segment, by its place among all, if it is the best so far."""
        selected, hits = int(self.selected[chosen].sum()), int(self.hits[chosen].sum())
        value = self.inner.value(selected, hits)
        more = 1 if self.inner.bounded == "recall" else -1  # of equal precision, the most positives
        better = value is not None and (value, more * selected) > (self.value, more * self.known[1])
        if value is not None and better and self.inner.met(selected, hits):
            taken = zip(self.segments, chosen - self.starts, strict=True)
            choice = np.concatenate([one.steps.choice(k, self.within) for one, k in taken])
            self.known, self.value = (choice, selected, hits), value


def segment_of(points: Points, goal: WithinGap, totals: Int64s) -> Segment:
    """Return what can be selected of a segment: its points, and the totals of its levels.

    Over several levels these are nested choices: the points of their isotonic blocks, the blocks by
    falling rate.
    """
    whole, corners = int(goal.counted(*totals.sum(axis=0))), None
    steps = prefixes.steps_of(points)
    if points.levels > 1:
        blocks = prefixes.isotonic_blocks(points)
        by_point = np.argsort(blocks.point)  # the blocks as their points follow
        block = by_point[np.searchsorted(blocks.point[by_point], steps.point)]
        order = np.argsort(block, kind="stable")
        steps = steps.ordered(order)
        corners = np.append(0, np.cumsum(np.bincount(block)))
    selected, hits = (np.append(0, total) for total in steps.totals)
    counted = goal.counted(selected, hits)
    return Segment(selected, hits, counted, whole, steps, corners)


def least_of(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where a function of one minimum is about least, and its value there (golden section).

    The lower end is tried too: where a bound does not bind, that is the multiplier.
    """
    end = low, function(low)
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [function(at) for at in inner]
    for _ in range(_STEPS):
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - _GOLDEN * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + _GOLDEN * (high - low)
            values[1] = function(inner[1])
    return min(end, *zip(inner, values, strict=True), key=lambda pair: pair[1])
