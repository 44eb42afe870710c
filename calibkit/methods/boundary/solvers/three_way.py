"""The best three-way decisions: two knapsacks, coupled only by nesting within each level.

With the bounds fixed, what is blocked and what is blocked or reviewed are one prefix of the rows
each in every level, and the objective looks at each of them alone: most rows blocked within the
bound on precision, fewest rows down to the wanted recall (or most recall within what block and
capacity leave, or the most precise block that leaves no more than the capacity).  Each is solved
exactly.  If the one prefix lies within the other in every level, which it nearly always does, the
two are the optimum together, and else a bound on it.  Then pairs of nested prefixes are searched:
what a choice of pairs loses against both relaxations is the sum over its prefixes, so those of the
optimum are among the few that lose no more than the best choice known.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem import bounded
from calibkit.methods.boundary.problem.found import Found, lowest_scores
from calibkit.methods.boundary.problem.goals import CountGoal
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.methods.boundary.solvers import exact
from calibkit.numerics import knapsack
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Points, Tally

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

#: How often a capacity is made smaller to find a first pair within it.
_TRIES = 8

#: Beyond this many pairs of prefixes at one step the search for nested ones gives up.
PAIR_CAP = 2_000_000


@dataclass(frozen=True)
class Pair:
    """A point for block and one for review in each level, -1 for none, and what is known of them."""

    block: Int64s
    review: Int64s  # the end of what is reviewed, never before that of block
    proven: bool  # whether no pair is better
    ceiling: float  # what the objective of none can exceed, or undercut


def find(
    tally: Tally, goal: ThreeWay, *, excluded: int = -1, together: bool = False
) -> tuple[Found, Pair]:
    """Return the best three-way decisions on a tally, and what is known of them."""
    points = tally.points(excluded=excluded, together=together, every=True)
    pair = solve(points, goal)
    (selected, hits), (reach, caught) = points.totals(pair.block), points.totals(pair.review)
    lowest, review = (lowest_scores(tally, points, choice) for choice in (pair.block, pair.review))
    if together:
        lowest, review = (np.broadcast_to(one, tally.levels).copy() for one in (lowest, review))
    found = Found(lowest, selected, hits, review=review)
    return replace(found, reviewed=reach - selected, reviewed_positives=caught - hits), pair


def solve(points: Points, goal: ThreeWay, cap: int = PAIR_CAP) -> Pair:
    """Return the best pair of prefixes in each level; `points` has all of them.

    `cap`: how many pairs of prefixes one step of the search may hold; beyond, the best pair known is
    returned with a bound.
    """
    if goal.asked.costs:
        return _cheapest(points, goal)
    parts = _Parts(points, goal)
    if (
        parts.bound is not None
    ):  # the boundary that needs no review at all to be best, if there is one
        single = exact.solve(points, bounded.RecallAtPrecision(parts.bound, goal.totals))
        wanted = goal.totals.positives if parts.wanted is None else goal.least
        if single.true_positives >= wanted:
            alone = Pair(single.choice, single.choice, True, 0.0)
            return replace(alone, ceiling=parts.value(alone))
    block, review = parts.relaxed()
    proven = block.proven and review.proven
    ceiling = parts.ceiling(block, review)
    if (block.choice <= review.choice).all():
        pair = Pair(block.choice, review.choice, proven, ceiling)
        return replace(pair, ceiling=parts.value(pair)) if proven else pair
    known = replace(parts.known(block.choice, review.choice), ceiling=ceiling)
    if proven and parts.value(known) == ceiling:
        return replace(known, proven=True)
    return _nested(parts, known, cap)


class _Parts:
    """The two knapsacks of a goal, and what their relaxations say."""

    def __init__(self, points: Points, goal: ThreeWay) -> None:
        self.points, self.goal, self.totals = points, goal, goal.totals
        self.wanted = goal.asked.recall
        self.bound = goal.asked.precision
        self.most = bounded.MostRowsAtPrecision(self.bound or decimal_bound("0"), self.totals)

    def counts(self, pair: Pair) -> tuple[float, ...]:
        """Return the totals of a pair, see `Found.counts`."""
        (rows, hits), (reach, caught) = map(self.points.totals, (pair.block, pair.review))
        return rows, hits, 0, reach - rows, caught - hits

    def value(self, pair: Pair) -> float:
        """Return the objective of a pair."""
        return self.goal.value(*self.counts(pair)) or 0.0

    def relaxed(self) -> tuple[exact.Solution, exact.Solution]:
        """Return what is best to block and to review if the one need not lie within the other."""
        if self.bound is not None:
            block = exact.solve(self.points, self.most)
            review = exact.solve(self.points, self.to_reach(block.selected))
            return block, review
        assert self.wanted is not None
        review = exact.solve(self.points, bounded.FewestRowsAtRecall(self.wanted, self.totals))
        block = exact.solve(self.points, self.to_leave(review.selected))
        return block, review

    def to_reach(self, blocked: int) -> CountGoal:
        """Return the goal of what is blocked or reviewed, if so many rows are blocked."""
        if self.wanted is not None:
            return bounded.FewestRowsAtRecall(self.wanted, self.totals)
        return bounded.RecallWithinUnits(self.goal.limit + blocked, self.totals)

    def to_leave(self, reach: int) -> CountGoal:
        """Return the goal of what is blocked, if so many rows are blocked or reviewed."""
        return bounded.PrecisionAtRows(reach - self.goal.limit, self.totals)

    def ceiling(self, block: exact.Solution, review: exact.Solution) -> float:
        """Return what no objective can exceed, or undercut."""
        if self.wanted is None:
            if block.proven:
                return review.ceiling
            room = bounded.RecallWithinUnits(
                self.goal.limit + math.floor(block.ceiling), self.totals
            )
            return exact.solve(self.points, room).ceiling
        if self.bound is None:
            if review.proven:
                return block.ceiling
            return exact.solve(self.points, self.to_leave(math.ceil(review.ceiling - 1e-6))).ceiling
        return max(0.0, review.ceiling - block.ceiling) / self.totals.rows

    def known(self, block: Int64s, review: Int64s) -> Pair:
        """Return a pair that meets all bounds, from prefixes that do so without nesting."""
        wide = Pair(block, np.maximum(block, review), False, 0.0)
        if self.wanted is not None and self.bound is not None:
            return wide
        # Nesting reviews more than the capacity: reach that much less, or block more.
        (blocked, _), (reach, _) = map(self.points.totals, (block, review))
        spare = 0
        for _ in range(_TRIES):
            excess = int(self.counts(wide)[3]) - self.goal.limit
            if excess <= 0:
                return wide
            spare += excess
            if self.wanted is not None:
                if reach + spare - self.goal.limit > self.totals.rows:
                    break
                block = exact.solve(self.points, self.to_leave(reach + spare)).choice
            else:
                review = exact.solve(
                    self.points, self.to_reach(max(blocked - spare, -self.goal.limit))
                ).choice
            wide = Pair(block, np.maximum(block, review), False, 0.0)
        nothing = np.full(block.size, -1, np.int64)
        if self.wanted is None:
            alone = bounded.RecallWithinUnits(self.goal.limit, self.totals)
            return Pair(nothing, exact.solve(self.points, alone).choice, False, 0.0)
        single = exact.solve(
            self.points, bounded.PrecisionAtRecall(self.wanted, self.totals)
        ).choice
        return Pair(single, single, False, 0.0)


def _cheapest(points: Points, goal: ThreeWay) -> Pair:
    """Return the pair of least cost in each level: costs add up, and nothing else binds."""
    alarm, miss, review = map(float, goal.asked.costs)
    found = np.full((2, points.levels), -1, np.int64)
    for level in range(points.levels):
        own = points.of_level(level)
        rows, hits = (np.append(0.0, c[own]) for c in (points.selected, points.true_positives))
        blocked = review * rows - alarm * (rows - hits)
        best = np.maximum.accumulate(blocked)
        end = int(np.argmax(best + miss * hits - review * rows))
        start = int(np.argmax(blocked[: end + 1]))
        found[:, level] = [own.start + place - 1 if place else -1 for place in (start, end)]
    pair = Pair(found[0], found[1], True, 0.0)
    return replace(pair, ceiling=_Parts(points, goal).value(pair))


# ---------------------------------------------------------------- pairs of nested prefixes


#: Of the prefixes of a level that may be taken: their points, and what each loses.
_Losses = list[tuple[Int64s, Floats]]


def _nested(parts: _Parts, known: Pair, cap: int) -> Pair:
    """Return the best choice of nested prefixes, or the one known where they are too many."""
    while True:
        rate = parts.bound
        if rate:
            ratio = rate.numerator, rate.denominator
        else:
            selected, hits = parts.points.totals(known.block)
            divisor = math.gcd(hits, selected)
            ratio = hits // divisor, selected // divisor
        block, review, room = _losses(parts, known, ratio)
        found = _search(parts, block, review, room, ratio, cap)
        if found is None:
            return known
        better = _best(parts, found, known)
        if better is None or rate is not None:
            best = better or known
            return replace(best, proven=True, ceiling=parts.value(best))
        known = replace(better, ceiling=known.ceiling)


def prices(points: Points, goal: ThreeWay) -> tuple[float, ...]:
    """Return the precision of what is blocked, and the rates at the margins of block and review."""
    if goal.asked.costs:
        return 0.0, 0.0, 0.0
    parts = _Parts(points, goal)
    block, review = parts.relaxed()
    rate = float(parts.bound) if parts.bound else block.true_positives / (block.selected or 1)
    of_block = parts.most if parts.bound is not None else parts.to_leave(review.selected)
    rates = exact.margin(points, of_block), exact.margin(points, parts.to_reach(block.selected))
    return rate, *rates


def _losses(parts: _Parts, known: Pair, ratio: tuple[int, int]) -> tuple[_Losses, _Losses, float]:
    """Return what prefixes lose, in rows, as block and as review, and what any choice may lose.

    It is the loss against the relaxations, at any prices: the best ones say most.
    """
    points, goal = parts.points, parts.goal
    _, block_rate, review_rate = prices(points, goal)
    rate, review_rate = ratio[0] / ratio[1], max(review_rate, 0.5 / goal.totals.rows)
    block_rate = block_rate if block_rate < rate else rate / 2
    prefixes = (points.selected, points.true_positives, points.offsets, points.ends)
    both = [knapsack.Relaxation(prefixes, slope) for slope in (block_rate, review_rate)]
    units = rate - block_rate, review_rate
    blocked, caught = (one.most for one in both)
    most = blocked / units[0]  # rows that are blocked, at most
    if parts.wanted is None:
        hits = points.totals(known.review)[1]
        room = (caught - hits) / review_rate + goal.limit + most
    else:
        reviewed = goal.limit if parts.bound is None else parts.counts(known)[3]
        room = most - (goal.least - caught) / review_rate + reviewed
    room += 1e-9 * (1.0 + most + goal.totals.rows)
    found: tuple[_Losses, _Losses] = [], []
    for losses, relaxed, unit in zip(found, both, units, strict=True):
        for level in range(points.levels):
            places, loss = relaxed.near(level, room * unit)
            losses.append((places, loss / unit))
    return *found, room


@dataclass(frozen=True)
class _States:
    """Choices of pairs so far, one row each: reviewed rows, slack, positives caught, and losses."""

    totals: Int64s
    losses: Floats
    block: Int64s
    review: Int64s


def _search(
    parts: _Parts,
    blocks: _Losses,
    reviews: _Losses,
    room: float,
    ratio: tuple[int, int],
    cap: int,
) -> _States | None:
    """Return the undominated choices of nested pairs that lose no more than there is room for."""
    points, (numerator, denominator) = parts.points, ratio
    if numerator * parts.totals.rows >= 2**62 or denominator * parts.totals.rows >= 2**62:
        return None
    nothing = np.empty((1, 0), np.int64)
    states = _States(np.zeros((1, 3), np.int64), np.zeros(1), nothing, nothing)
    for (block, cost), (review, price) in zip(blocks, reviews, strict=True):
        if block.size * review.size > cap:
            return None
        loss = cost[:, None] + price
        i, j = np.nonzero((block[:, None] <= review) & (loss <= room))
        rows, hits, reach, caught = (
            np.where(at >= 0, c[at], 0)
            for at in (block[i], review[j])
            for c in (points.selected, points.true_positives)
        )
        slack = denominator * hits - numerator * rows
        pairs = np.column_stack((reach - rows, slack, caught))
        if len(pairs) * len(states.totals) > cap:
            return None
        within = states.losses[:, None] + loss[i, j]
        a, b = np.nonzero(within <= room)
        totals = states.totals[a] + pairs[b]
        kept = _undominated(totals)
        a, b = a[kept], b[kept]
        states = _States(
            totals[kept],
            within[a, b],
            np.column_stack((states.block[a], block[i[b]])),
            np.column_stack((states.review[a], review[j[b]])),
        )
    return states


def _undominated(totals: Int64s) -> Int64s:
    """Return the choices that no other one equals or beats in all: few reviewed, slack, caught."""
    order = np.lexsort((-totals[:, 2], -totals[:, 1], totals[:, 0]))
    slacks: list[int] = []  # of the undominated so far, rising; what is caught falls along them
    caught: list[int] = []
    kept = []
    for place in order.tolist():
        slack, hits = int(totals[place, 1]), int(totals[place, 2])
        at = bisect_left(slacks, slack)
        if at < len(slacks) and caught[at] >= hits:
            continue
        kept.append(place)
        start = at
        while start and caught[start - 1] <= hits:
            start -= 1
        end = at + (at < len(slacks) and slacks[at] == slack)
        slacks[start:end], caught[start:end] = [slack], [hits]
    return np.array(sorted(kept), np.int64)


def _best(parts: _Parts, states: _States, known: Pair) -> Pair | None:
    """Return the best pair among some choices that meet the bounds, None if none beats the known."""
    goal = parts.goal
    reviewed, slack, caught = states.totals.T
    met = (caught >= goal.least) & (slack >= 0)
    if goal.share is not None and not (parts.wanted is not None and parts.bound is not None):
        met &= reviewed <= goal.limit
    if not met.any():
        return None
    keys = {"review": (-slack, -caught, reviewed), "recall": (-slack, reviewed, -caught)}
    order = np.lexsort(keys.get(goal.maximised, (reviewed, -caught, -slack)))
    place = int(next(one for one in order if met[one]))
    pair = Pair(states.block[place], states.review[place], False, 0.0)
    sign = 1.0 if goal.maximised == "review" else -1.0
    return pair if sign * parts.value(pair) < sign * parts.value(known) else None
