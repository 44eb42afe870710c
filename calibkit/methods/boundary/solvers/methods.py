"""The methods of finding a boundary, by name: what each can optimise and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError, nearest
from calibkit.methods.boundary.problem.found import Found, lowest_scores
from calibkit.methods.boundary.problem.gap import WithinGap
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.methods.boundary.solvers import classic, exact, gap, grid_methods, three_way, value
from calibkit.methods.boundary.solvers.classic import random_block
from calibkit.methods.boundary.solvers.logistic import LEVELS, best_cut
from calibkit.methods.boundary.solvers.partition import cross_fitted
from calibkit.numerics.knapsack import STATE_CAP
from calibkit.options.objective import OPTIONS, REVIEW
from calibkit.summaries.tally import Points, Tally

Int64s = NDArray[np.int64]

#: The paper's default number of score bins.
PAPER_SCORE_BINS = 500


@dataclass(frozen=True)
class Method:
    """A way to choose one threshold in each level; one of `choose` to `surface` is how."""

    name: str  # `calibkit.options.boundary.METHODS` says what it does
    objectives: tuple[str, ...]  # some of `calibkit.options.objective.OPTIONS`
    #: Returns the point of each level, -1 for none.
    choose: Callable[[Points, Goal], Int64s] | None = None
    #: Returns how many of the highest score bins each level takes, on a grid.
    take: Callable[[Int64s, Int64s, Goal], Int64s] | None = None
    #: Returns a randomised boundary.
    mix: Callable[[Tally, Goal, int], Found] | None = None
    #: Fits a surface to a tally and returns its best cut.
    surface: Callable[..., Found] | None = None
    score_bins: int = 0  # the default; 0: every distinct score
    levels: int = 3  # the default
    together: bool = False  # whether it takes all levels as one
    values: bool = False  # whether it can look at what rows are worth
    isotonic: bool = False  # whether it fits the share of positive rows in each level
    leaves: int = 0  # that the levels, cells of several uncertainties, are gathered in; 0: none

    @property
    def needs_grid(self) -> bool:
        """Whether the method works on score bins only."""
        return self.take is not None

    def find(self, tally: Tally, goal: Goal, *, excluded: int = -1) -> Found:
        """Find a boundary on a tally of distinct scores, or of the columns of a grid.

        `goal`: what to reach, with the totals of the rows that take part; `excluded`: a part of a dealt
        tally that takes none.
        """
        if self.leaves:
            places, other = cross_fitted(tally, goal, self.leaves, excluded)
            return replace(self, leaves=0).find(other, goal, excluded=excluded).spread(places)
        if isinstance(goal, ThreeWay):
            return three_way.find(tally, goal, excluded=excluded, together=self.together)[0]
        if isinstance(goal, WithinGap):
            return gap.find(tally, goal, excluded=excluded)[0]
        if self.mix is not None:
            return self.mix(tally, goal, excluded)
        if self.surface is not None:
            return self.surface(tally, goal, excluded)
        if self.take is not None:
            positives, totals = grid_counts(tally, excluded)
            take = self.take(positives, totals, goal)
            lowest = np.where(take > 0, positives.shape[1] - take, np.nan)
            hits, rows = grid_methods.evaluate(positives, totals, take)
            return Found(lowest, rows, hits)
        assert self.choose is not None
        points = tally.points(excluded=excluded, together=self.together)
        return _found(tally, points, self.choose(points, goal))

    def find_with_optimum(self, tally: Tally, goal: Goal) -> tuple[Found, exact.Solution]:
        """Find a boundary on a tally, and the best one over the same prefixes."""
        if self.leaves:
            # Over leaves as `find` does, and the best one over the same leaves.
            places, other = cross_fitted(tally, goal, self.leaves)
            within, own = replace(self, leaves=0), tally.coarser(places, self.leaves)
            best, optimum = within.find_with_optimum(own, goal)
            found = within.find(other, goal).counted(own)
            if not found.selected or not goal.met(*map(int, found.counts)):
                found = best
            return found.spread(places), optimum
        if isinstance(goal, ThreeWay):
            found, pair = three_way.find(tally, goal, together=self.together)
            totals = int(found.selected), int(found.true_positives)
            return found, exact.Solution(pair.block, *totals, pair.proven, pair.ceiling)
        if isinstance(goal, WithinGap):
            return gap.find(tally, goal)
        if self.mix is not None or self.surface is not None:  # it is the optimum of its class
            found = self.find(tally, goal)
            rows, hits = found.selected, found.true_positives
            value = goal.value(rows, hits, found.gain) or 0.0
            nothing = np.full(tally.levels, -1, np.int64)
            return found, exact.Solution(nothing, int(rows), int(hits), True, value)
        points = tally.points(together=self.together)
        optimum = best_choice(points, goal)
        if self.choose is exact_choice:
            return _found(tally, points, optimum.choice), optimum
        if self.choose is not None:
            return _found(tally, points, self.choose(points, goal)), optimum
        return self.find(tally, goal), optimum


def exact_choice(points: Points, goal: Goal) -> Int64s:
    """Return the optimum over all prefixes."""
    return best_choice(points, goal).choice


def best_choice(points: Points, goal: Goal, cap: int = STATE_CAP) -> exact.Solution:
    """Return the optimum over all prefixes, with what is known of it; for `cap` see `exact.solve`."""
    if goal.uses_gain:
        return value.solve(points, goal, cap)
    assert isinstance(goal, CountGoal)
    return exact.solve(points, goal, cap)


def _found(tally: Tally, points: Points, choice: Int64s) -> Found:
    """Return a choice of points with its thresholds; one choice for all levels is spread."""
    lowest = lowest_scores(tally, points, choice)
    if choice.size == 1:
        lowest = np.broadcast_to(lowest, tally.levels).copy()
    return Found(lowest, *points.totals(choice), gain=points.total_gain(choice))


def grid_counts(tally: Tally, excluded: int = -1) -> tuple[Int64s, Int64s]:
    """Return positive rows and rows, shape (levels, columns), of a tally of grid columns."""
    kept = slice(None) if excluded < 0 else tally.part != excluded
    shape = (tally.levels, int(tally.score.max()) + 1)
    place = (tally.level[kept], tally.score[kept].astype(np.int64))
    positives, totals = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.add.at(positives, place, tally.positive[kept])
    np.add.at(totals, place, tally.count[kept])
    return positives, totals


#: The paper's greedy methods, and tables over bins of average size, know these two alone.
_BOTH = ("precision", "recall")

METHODS: dict[str, Method] = {
    found.name: found
    for found in (
        Method("exact", (*OPTIONS, REVIEW), exact_choice, values=True),
        Method("st", (*OPTIONS, REVIEW), classic.single_threshold, together=True, values=True),
        Method("logistic", OPTIONS, surface=best_cut, levels=LEVELS, values=True),
        Method("stochastic", OPTIONS, mix=random_block),
        Method("mist", _BOTH, classic.isotonic, isotonic=True),
        Method("gmt", _BOTH, classic.greedy),
        *(
            Method(name, objectives, take=take, score_bins=PAPER_SCORE_BINS)
            for name, objectives, take in (
                ("ew-dpmt", _BOTH, grid_methods.ew_dpmt),
                ("ew-dpmt-mono", _BOTH, grid_methods.ew_dpmt_mono),
                ("vw-dpmt", OPTIONS, grid_methods.vw_dpmt),
                ("vw-dpmt-mono", OPTIONS, grid_methods.vw_dpmt_mono),
                ("staircase", OPTIONS, grid_methods.staircase),
            )
        ),
    )
}


def method(name: str, objective: str, worths: str = "") -> Method:
    """Return a method that can take an objective, one of `calibkit.options.objective.OPTIONS`.

    `worths` says what makes rows differ in worth (such as ``--value``), if something does.
    """
    if name not in METHODS:
        raise UsageError(
            f"there is no method {name!r}{nearest(name, METHODS)}; methods: auto, "
            f"{', '.join(METHODS)}."
        )
    found = METHODS[name]
    if objective not in found.objectives:
        able = ", ".join(other.name for other in METHODS.values() if objective in other.objectives)
        if objective == REVIEW:
            raise UsageError(f"three-way decisions go with --method auto, {able}, not {name}.")
        raise UsageError(
            f"--method {name} does not take --{objective}, only "
            f"{', '.join('--' + option for option in found.objectives)}; methods for "
            f"--{objective}: {able}."
        )
    if worths and not found.values:
        able = ", ".join(other.name for other in METHODS.values() if other.values)
        raise UsageError(f"--method {name} does not take {worths}; methods that do: {able}.")
    return found
