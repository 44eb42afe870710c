"""The best three-way decisions: two knapsacks, coupled only by nesting within each level.

With the bounds fixed, what is blocked and what is blocked or reviewed are one prefix of the rows
each in every level, and the objective looks at each of them alone: most rows blocked within the
bound on precision, fewest rows down to the wanted recall (or most recall within what block and
capacity leave, or the most precise block that leaves no more than the capacity).  Each is solved
exactly.  If the one prefix lies within the other in every level, which it nearly always does, the
two are the optimum together, and else a bound on it.  Then pairs of nested prefixes are searched:
what a choice of pairs loses against both relaxations is the sum over its prefixes, so those of the
optimum are among the few that lose no more than the best choice known.

Precision is that of the rows that are blocked; recall counts positives that are blocked or reviewed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s
from calibkit.methods.boundary.problem import bounded
from calibkit.methods.boundary.problem.found import Found, found_at, lowest_scores
from calibkit.methods.boundary.problem.goals import CountGoal, Goal, Totals
from calibkit.methods.boundary.solvers import prefixes
from calibkit.numerics import knapsack
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.objective import Review
from calibkit.summaries.tally import Points, Tally

#: How often a capacity is made smaller to find a first pair within it.
_TRIES = 8
#: Beyond this many pairs of prefixes at one step the search for nested ones gives up.
PAIR_CAP = 2_000_000


class ThreeWay(Goal):
    """Review the least share of rows within bounds on precision and recall, or spend a capacity.

    Of precision, recall and reviewed rows two are bounded, and the third is as good as it can be;
    with costs, their sum over the rows is least.  A capacity in rows is one of the fitting rows: for
    other rows it counts as the share it was there.
    """

    #: The share of the rows that can be reviewed; None: all.
    share: Fraction | None = None

    def __init__(self, asked: Review, totals: Totals) -> None:
        self.asked, self.totals, self.maximised = asked, totals, asked.objective
        self.prepare()

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        bounds, totals = self.asked.bounds, self.totals
        if "review_capacity" in bounds and self.share is None:
            self.share = totals.share_of(bounds["review_capacity"])
        #: Units of rows that can be reviewed.
        self.limit = totals.rows if self.share is None else math.floor(self.share * totals.rows)
        #: True positives that are wanted.
        self.least = 0
        if "recall" in bounds and bounds["recall"].numerator:
            self.least = bounded.PrecisionAtRecall(bounds["recall"], totals).least

    @property
    def block(self) -> bounded.RecallAtPrecision:
        """The bound on what is blocked; at least 0 where there is none."""
        least = self.asked.bounds.get("precision") or decimal_bound("0")
        return bounded.RecallAtPrecision(least, self.totals)

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the share that is reviewed, recall, precision or the cost a row."""
        rows, found = more or (0, 0)
        if self.maximised == "recall":
            return self.recall(hits + found)
        if self.maximised == "precision":
            return hits / selected if selected else None
        if not self.totals.rows:
            return None
        if not self.asked.costs:
            return rows / self.totals.rows
        alarm, miss, review = map(float, self.asked.costs)
        missed = self.totals.positives - hits - found
        cost = alarm * (selected - hits) + miss * missed + review * rows
        return cost / self.totals.rows

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether all bounds are met."""
        rows, hits = reviewed or (0, 0)
        enough = true_positives + hits >= self.least and rows <= self.limit
        return enough and self.block.met(selected, true_positives)

    def priced(self, prices: tuple[float, ...], counts: tuple[float, ...]) -> float:
        """Return what counts are worth where bounds that are missed are paid for, per row.

        With r the precision of the block, and the rates at the margins of block and review as
        prices: true positives of the block less r times its rows, and what is caught at the price
        of review less what is reviewed, in the same unit.
        """
        rate, block, review = prices
        selected, hits, _, reviewed, more = counts
        if self.asked.costs:
            return -(self.value(*counts) or 0.0)
        caught = (hits + more) / review if review else 0.0
        found = hits - rate * selected + max(rate - block, 0.0) * (caught - reviewed)
        return found / (self.totals.rows or 1)


# ---------------------------------------------------------------- goals of the two parts


class MostRowsAtPrecision(bounded.RecallAtPrecision):
    """Select most rows subject to ``precision >= bound``: what is blocked needs no review."""

    maximised, aim = "rows", (1.0, 0.0)

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the feasible totals with most rows, then most positives."""
        met = self.feasible(selected, true_positives)
        order = np.lexsort((true_positives, np.where(met, selected, -1)))
        return int(order[-1]) if met.any() else -1

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: nothing is better than all rows."""
        if selected == self.totals.rows:
            return 0.0
        return super().budget(best, slope, selected, true_positives)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the rows of the linear relaxation."""
        return min(bounded.BoundedGoal.ceiling(self, best, slope), float(self.totals.rows))

    def compared(self, totals: Int64s) -> Int64s:
        """Return what is to be small, slack that is used up, and what is to be large, rows."""
        rows, hits = totals[:, 0], totals[:, 1]
        most_rows, most_hits = totals.max(axis=0, initial=0).tolist()
        used = rows - hits
        if max(self.numerator * most_rows, self.denominator * most_hits) < 2**62:
            used = self.numerator * rows - self.denominator * hits
        return np.column_stack((used, rows))


class FewestRowsAtRecall(bounded.PrecisionAtRecall):
    """Select fewest rows subject to so many true positives."""

    maximised, aim = "rows", (-1.0, 0.0)

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals with fewest rows, then most positives."""
        enough = np.where(true_positives >= self.least, selected, np.iinfo(np.int64).max)
        return int(np.lexsort((-true_positives, enough))[0])

    def ceiling(self, best: float, slope: float) -> float:
        """Return the rows of the linear relaxation, a lower bound."""
        return max(0.0, -bounded.BoundedGoal.ceiling(self, best, slope)) if slope else 0.0


class PrecisionAtRows(bounded.PrecisionAtRecall):
    """Maximise precision with at least so many units of rows."""

    bounded, constraint = "rows", (1.0, 0.0)

    def __init__(self, least: int, totals: Totals) -> None:
        self.totals, self.least = totals, max(1, least)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the precision of the linear relaxation."""
        return min(1.0, best / self.least + slope)

    def compared(self, totals: Int64s) -> Int64s:
        """Return what is to be small, false positives, and what is to be large, rows."""
        return np.column_stack((totals[:, 0] - totals[:, 1], totals[:, 0]))


# ---------------------------------------------------------------- pairs


class Pair(Struct, frozen=True):
    """A point for block and one for review in each level, -1 for none, and what is known of them."""

    block: Int64s
    review: Int64s  # the end of what is reviewed, never before that of block
    proven: bool = False  # whether no pair is better
    ceiling: float = 0.0  # what the objective of none can exceed, or undercut


def find(tally: Tally, goal: ThreeWay, *, excluded: int = -1, together: bool = False) -> Found:
    """Return the best three-way decisions on a tally, and what is known of them."""
    points = tally.points(excluded=excluded, together=together, every=True)
    pair = solve(points, goal)
    reach, caught = points.totals(pair.review)
    found = found_at(tally, points, pair.block, pair.ceiling, pair.proven)
    return replace(
        found,
        review=lowest_scores(tally, points, pair.review),
        reviewed=reach - int(found.selected),
        reviewed_positives=caught - int(found.true_positives),
    )


def solve(points: Points, goal: ThreeWay, cap: int = PAIR_CAP) -> Pair:
    """Return the best pair of prefixes in each level; `points` has all of them.

    `cap`: how many pairs of prefixes one step of the search may hold; beyond, the best pair known is
    returned with a bound.
    """
    parts = _Parts(points, goal)
    if goal.asked.costs:
        return parts.cheapest()
    if parts.bound is not None:  # the boundary that needs no review to be best, if there is one
        single = prefixes.solve(points, goal.block)
        wanted = goal.totals.positives if parts.wanted is None else goal.least
        if single.true_positives >= wanted:
            return parts.optimum(single.choice, single.choice)
    block, review = parts.relaxed()
    proven = block.proven and review.proven
    ceiling = parts.ceiling(block, review)
    if (block.choice <= review.choice).all():
        if proven:
            return parts.optimum(block.choice, review.choice)
        return Pair(block.choice, review.choice, ceiling=ceiling)
    known = replace(parts.known(block.choice, review.choice), ceiling=ceiling)
    if proven and parts.value(known) == ceiling:
        return replace(known, proven=True)
    return _nested(parts, known, cap)


def prices(points: Points, goal: ThreeWay) -> tuple[float, ...]:
    """Return the precision of what is blocked, and the rates at the margins of block and review."""
    if goal.asked.costs:
        return 0.0, 0.0, 0.0
    parts = _Parts(points, goal)
    block, review = parts.relaxed()
    if parts.bound is not None:
        rate, of_block = float(parts.bound), parts.most
    else:
        rate = block.true_positives / (block.selected or 1)
        of_block = parts.to_leave(review.selected)
    of_review = parts.to_reach(block.selected)
    return rate, prefixes.margin(points, of_block), prefixes.margin(points, of_review)


class _Parts:
    """The two knapsacks of a goal, and what their relaxations say."""

    def __init__(self, points: Points, goal: ThreeWay) -> None:
        self.points, self.goal, self.totals = points, goal, goal.totals
        self.wanted, self.bound = map(goal.asked.bounds.get, ("recall", "precision"))
        self.most: CountGoal = MostRowsAtPrecision(self.bound or decimal_bound("0"), self.totals)

    def counts(self, pair: Pair) -> tuple[float, ...]:
        """Return the totals of a pair, see `Found.counts`."""
        (rows, hits), (reach, caught) = map(self.points.totals, (pair.block, pair.review))
        return rows, hits, 0, reach - rows, caught - hits

    def value(self, pair: Pair) -> float:
        """Return the objective of a pair."""
        return self.goal.value(*self.counts(pair)) or 0.0

    def optimum(self, block: Int64s, review: Int64s) -> Pair:
        """Return the pair that no other one is better than."""
        return Pair(block, review, True, self.value(Pair(block, review)))

    def relaxed(self) -> tuple[prefixes.Solution, prefixes.Solution]:
        """Return what is best to block and to review if the one need not lie within the other."""
        if self.bound is not None:
            block = self.best(self.most)
            return block, self.best(self.to_reach(block.selected))
        review = self.best(self.to_reach(0))
        return self.best(self.to_leave(review.selected)), review

    def best(self, goal: CountGoal) -> prefixes.Solution:
        """Return the best choice for one of the two parts."""
        return prefixes.solve(self.points, goal)

    def to_reach(self, blocked: int) -> CountGoal:
        """Return the goal of what is blocked or reviewed, if so many rows are blocked."""
        if self.wanted is not None:
            return FewestRowsAtRecall(self.wanted, self.totals)
        return bounded.RecallWithinUnits(self.goal.limit + blocked, self.totals)

    def to_leave(self, reach: int) -> CountGoal:
        """Return the goal of what is blocked, if so many rows are blocked or reviewed."""
        return PrecisionAtRows(reach - self.goal.limit, self.totals)

    def ceiling(self, block: prefixes.Solution, review: prefixes.Solution) -> float:
        """Return what no objective can exceed, or undercut."""
        if self.wanted is None:
            if block.proven:
                return review.ceiling
            return self.best(self.to_reach(math.floor(block.ceiling))).ceiling
        if self.bound is None:
            if review.proven:
                return block.ceiling
            return self.best(self.to_leave(math.ceil(review.ceiling - 1e-6))).ceiling
        return max(0.0, review.ceiling - block.ceiling) / self.totals.rows

    def known(self, block: Int64s, review: Int64s) -> Pair:
        """Return a pair that meets all bounds, from prefixes that do so without nesting."""
        wide = Pair(block, np.maximum(block, review))
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
            if self.wanted is None:
                review = self.best(self.to_reach(max(blocked - spare, -self.goal.limit))).choice
            elif reach + spare - self.goal.limit > self.totals.rows:
                break
            else:
                block = self.best(self.to_leave(reach + spare)).choice
            wide = Pair(block, np.maximum(block, review))
        if self.wanted is None:
            return Pair(np.full(block.size, -1, np.int64), self.best(self.to_reach(0)).choice)
        single = self.best(bounded.PrecisionAtRecall(self.wanted, self.totals)).choice
        return Pair(single, single)

    def cheapest(self) -> Pair:
        """Return the pair of least cost in each level: costs add up, and nothing else binds."""
        points = self.points
        alarm, miss, review = map(float, self.goal.asked.costs)
        found = np.full((2, points.levels), -1, np.int64)
        for level in range(points.levels):
            own = points.of_level(level)
            rows, hits = (np.append(0.0, c[own]) for c in (points.selected, points.true_positives))
            blocked = review * rows - alarm * (rows - hits)
            best = np.maximum.accumulate(blocked)
            end = int(np.argmax(best + miss * hits - review * rows))
            start = int(np.argmax(blocked[: end + 1]))
            found[:, level] = [own.start + place - 1 if place else -1 for place in (start, end)]
        return self.optimum(*found)


# ---------------------------------------------------------------- pairs of nested prefixes


#: Of the prefixes of a level that may be taken: their points, and what each loses.
_Losses = list[tuple[Int64s, Floats]]


def _nested(parts: _Parts, known: Pair, cap: int) -> Pair:
    """Return the best choice of nested prefixes, or the one known where they are too many."""
    while True:
        if parts.bound is not None:
            ratio = parts.bound.fraction
        else:
            selected, hits = parts.points.totals(known.block)
            ratio = Fraction(hits, selected)
        found = _search(parts, *_losses(parts, known, float(ratio)), ratio, cap)
        if found is None:
            return known
        better = _best(parts, found, known)
        if better is None or parts.bound is not None:
            best = better or known
            return parts.optimum(best.block, best.review)
        known = replace(better, ceiling=known.ceiling)


def _losses(parts: _Parts, known: Pair, rate: float) -> tuple[_Losses, _Losses, float]:
    """Return what prefixes lose, in rows, as block and as review, and what any choice may lose.

    It is the loss against the relaxations, at any prices: the best ones say most.
    """
    points, goal = parts.points, parts.goal
    _, block_rate, review_rate = prices(points, goal)
    review_rate = max(review_rate, 0.5 / goal.totals.rows)
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


class _States(Struct, frozen=True):
    """Choices of pairs so far, one row each: reviewed rows, slack, positives caught, and losses."""

    totals: Int64s
    losses: Floats
    block: Int64s
    review: Int64s


def _search(
    parts: _Parts, blocks: _Losses, reviews: _Losses, room: float, ratio: Fraction, cap: int
) -> _States | None:
    """Return the undominated choices of nested pairs that lose no more than there is room for."""
    points = parts.points
    if max(ratio.numerator, ratio.denominator) * parts.totals.rows >= 2**62:
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
        slack = ratio.denominator * hits - ratio.numerator * rows
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
    pair = Pair(states.block[place], states.review[place])
    sign = 1.0 if goal.maximised == "review" else -1.0
    return pair if sign * parts.value(pair) < sign * parts.value(known) else None
