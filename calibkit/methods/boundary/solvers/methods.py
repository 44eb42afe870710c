"""What a fit does: the methods by name, the goal of a target, and what options ask of some rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Int64s
from calibkit.columns.weights import ClassWeights, at_prevalence
from calibkit.errors import UsageError, nearest
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.found import Found, found_at
from calibkit.methods.boundary.problem.goals import Goal, LeastCost, Measure, Totals
from calibkit.methods.boundary.solvers import gap, grid_methods, prefixes, three_way
from calibkit.methods.boundary.solvers.cells import best_cut, cross_fitted
from calibkit.methods.boundary.solvers.logistic import LEVELS
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import OPTIONS, REVIEW, Target
from calibkit.summaries.binning import Grid, GridTable, check_bins
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Points, Tally


def goal_of(target: Target, totals: Totals) -> Goal:
    """Return the goal for rows with some totals."""
    if target.review is not None:
        return three_way.ThreeWay(target.review, totals)
    if target.costs:
        return LeastCost(target.value, totals)
    if target.bound is None:
        return Measure(target.measure, target.parameters, totals)
    return GOALS[target.option](target.bound, totals, of_value=target.value_column is not None)


def classes_of(target: Target, totals: Totals) -> ClassWeights:
    """Return by how much the classes of rows with some totals are reweighted."""
    share = None if target.prevalence is None else target.prevalence.fraction
    return at_prevalence(totals.rows, totals.positives, share)


# ---------------------------------------------------------------- methods


class Method(Struct, frozen=True):
    """A way to choose one threshold in each level; one of `choose` to `surface` is how.

    A method that has none of them finds the optimum.
    """

    name: str  # `calibkit.options.boundary.METHODS` says what it does
    objectives: tuple[str, ...]  # some of `calibkit.options.objective.OPTIONS`
    #: Returns the point of each level, -1 for none.
    choose: Callable[[Points, Goal], Int64s] | None = None
    #: Returns how many of the highest score bins each level takes, on a grid.
    take: Callable[[Int64s, Int64s, Goal], Int64s] | None = None
    #: Returns a randomised boundary.
    mix: Callable[[Tally, Goal, int], Found] | None = None
    #: Returns the best single threshold.
    cut: Callable[[Tally, Goal, int], Found] | None = None
    #: Fits a surface to a tally and returns its best cut.
    surface: Callable[..., Found] | None = None
    score_bins: int = 0  # the default; 0: every distinct score
    levels: int = 3  # the default
    together: bool = False  # whether it takes all levels as one
    values: bool = False  # whether it can look at what rows are worth
    isotonic: bool = False  # whether it fits the share of positive rows in each level
    leaves: int = 0  # that the levels, cells of several uncertainties, are gathered in; 0: none

    def takes(self, objective: str, worths: str) -> bool:
        """Tell whether it can take an objective; see `method`."""
        return objective in self.objectives and (self.values or not worths)

    def find(self, tally: Tally, goal: Goal, *, excluded: int = -1, ceiling: bool = False) -> Found:
        """Find a boundary on a tally of distinct scores, or of the columns of a grid.

        `goal`: what to reach, with the totals of the rows that take part; `excluded`: a part of a dealt
        tally that takes none; `ceiling`: whether what no boundary can exceed is looked for as well.
        """
        if self.leaves:
            places, other = cross_fitted(tally, goal, self.leaves, excluded)
            within = replace(self, leaves=0)
            found = within.find(other, goal, excluded=excluded)
            if ceiling:  # over the same leaves
                own = tally.coarser(places, self.leaves)
                found, best = found.counted(own), within.find(own, goal, ceiling=True)
                if not found.selected or not goal.met(*map(int, found.counts)):
                    found = best
                found = replace(found, ceiling=best.ceiling, proven=best.proven)
            return found.spread(places)
        if isinstance(goal, three_way.ThreeWay):
            return three_way.find(tally, goal, excluded=excluded, together=self.together)
        if isinstance(goal, gap.WithinGap):
            return gap.find(tally, goal, excluded=excluded)
        own_way = self.mix or self.cut or self.surface
        if own_way is not None:  # what it finds is the optimum of its class
            found = own_way(tally, goal, excluded)
            value = goal.value(found.selected, found.true_positives, found.gain) or 0.0
            return replace(found, ceiling=value, proven=True)
        points = tally.points(excluded=excluded, together=self.together)
        if self.choose is not None:
            found = found_at(tally, points, self.choose(points, goal))
        elif self.take is not None:
            positives, totals = grid_counts(tally, excluded)
            take = self.take(positives, totals, goal)
            lowest = np.where(take > 0, positives.shape[1] - take, np.nan)
            hits, rows = grid_methods.evaluate(positives, totals, take)
            found = Found(lowest, rows, hits)
        else:
            best_of = prefixes.solve(points, goal)
            return found_at(tally, points, best_of.choice, best_of.ceiling, best_of.proven)
        if ceiling:
            best_of = prefixes.solve(points, goal)
            found = replace(found, ceiling=best_of.ceiling, proven=best_of.proven)
        return found


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
_TABLES = {"ew-dpmt": _BOTH, "ew-dpmt-mono": _BOTH, "vw-dpmt": OPTIONS, "vw-dpmt-mono": OPTIONS}
METHODS: dict[str, Method] = {
    found.name: found
    for found in (
        Method("exact", (*OPTIONS, REVIEW), values=True),
        Method("st", (*OPTIONS, REVIEW), cut=prefixes.single_threshold, together=True, values=True),
        Method("logistic", OPTIONS, surface=best_cut, levels=LEVELS, values=True),
        Method("stochastic", OPTIONS, mix=prefixes.random_block),
        Method("mist", _BOTH, prefixes.isotonic, isotonic=True),
        Method("gmt", _BOTH, prefixes.greedy),
        *(  # over the paper's default number of score bins
            Method(name, objectives, take=partial(grid_methods.table, name), score_bins=500)
            for name, objectives in _TABLES.items()
        ),
        Method("staircase", OPTIONS, take=grid_methods.staircase, score_bins=500),
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
    able = ", ".join(other for other, own in METHODS.items() if own.takes(objective, worths))
    if objective not in found.objectives:
        if objective == REVIEW:
            raise UsageError(f"three-way decisions go with --method auto, {able}, not {name}.")
        raise UsageError(
            f"--method {name} does not take --{objective}, only "
            f"{', '.join('--' + option for option in found.objectives)}; methods for "
            f"--{objective}: {able}."
        )
    if worths and not found.values:
        raise UsageError(f"--method {name} does not take {worths}; methods that do: {able}.")
    return found


# ---------------------------------------------------------------- plans


class Plan(Struct, frozen=True):
    """Options with everything resolved: what the fit will do."""

    options: BoundaryOptions
    method: Method
    levels: int
    score_bins: int

    @property
    def kept_levels(self) -> int:
        """How many levels the model has: of cells, the leaves that they are gathered in."""
        return self.method.leaves or self.levels

    @property
    def text(self) -> str:
        """What the fit will do, in words."""
        scores = f"{self.score_bins} score bins" if self.score_bins else "every distinct score"
        return (
            f"fit a boundary by {self.method.name} over {self.kept_levels} uncertainty level"
            f"{'s' if self.kept_levels > 1 else ''} and {scores}: {self.options.target.text}"
        )


def plan(options: BoundaryOptions, data: ScoreRows | GridTable) -> Plan:
    """Return what options mean for some rows, or for a grid of them."""
    worths = options.target.worths
    chosen = method(options.method, options.target.option, worths)
    if worths and (isinstance(data, GridTable) or options.score_bins):
        raise UsageError(
            f"{worths} needs the rows and every distinct score: a grid of score bins has counts "
            "alone; leave --score-bins out."
        )
    grid = data.grid if isinstance(data, GridTable) else None
    if chosen.mix is not None:
        if (grid or options).order == "score-uncertainty":
            raise UsageError(f"--method {chosen.name} goes with --order uncertainty-score only.")
        if options.randomise == "tie":
            if grid is not None or options.levels not in (None, 1) or options.score_bins:
                raise UsageError(
                    "--randomise tie is random at one score of all rows together: give the rows, not "
                    "a grid, and leave out --uncertainty-bins and --score-bins; or use --randomise "
                    "block."
                )
            chosen = replace(chosen, mix=prefixes.random_tie, together=True)
    elif options.randomise != "block":
        raise UsageError(f"--randomise {options.randomise} goes with --method stochastic only.")
    if isinstance(data, GridTable):
        return _plan_of_grid(options, chosen, data.grid)
    return _plan_of_rows(options, chosen, data)


def _plan_of_rows(options: BoundaryOptions, chosen: Method, data: ScoreRows) -> Plan:
    levels = options.levels
    if levels is None:
        levels = 1 if chosen.together or data.uncertainty is None else chosen.levels
    score_bins = chosen.score_bins if options.score_bins is None else options.score_bins
    if score_bins == 0 and chosen.take is not None:
        raise UsageError(f"--method {chosen.name} needs score bins; --score-bins 0 has none.")
    if chosen.surface is not None:
        if score_bins:
            raise UsageError(
                f"--method {chosen.name} works on the scores themselves; leave --score-bins out."
            )
        shape = () if data.cells is None else data.cells.shape
        scale = data.options.measure
        surface = partial(best_cut, shape=shape, scale=scale, threads=options.workers)
        chosen = replace(chosen, surface=surface)
        if data.cells is not None:
            return Plan(options, chosen, data.cells.cells, 0)
    if data.cells is not None and levels > 1:
        return Plan(options, replace(chosen, leaves=levels), data.cells.cells, 0)
    check_bins(levels, max(score_bins, 1), has_uncertainty=data.uncertainty is not None)
    if options.order == "score-uncertainty" and score_bins == 0:
        raise UsageError("--order score-uncertainty needs --score-bins.")
    return Plan(options, chosen, levels, score_bins)


def _plan_of_grid(options: BoundaryOptions, chosen: Method, grid: Grid) -> Plan:
    if chosen.surface is not None:
        raise UsageError(f"a grid has lost the scores; --method {chosen.name} needs the rows.")
    if options.groups is not None or options.time is not None:
        raise UsageError("a grid has lost its rows: --groups and --time need the rows.")
    levels, score_bins = grid.shape
    for option, asked, have in (
        ("--uncertainty-bins", options.levels, levels),
        ("--score-bins", options.score_bins, score_bins),
    ):
        if asked is not None and asked != have:
            raise UsageError(f"{option} is {asked}, but the grid has {have}; leave it out.")
    if options.strategy != "equal-mass":
        raise UsageError(
            f"--strategy {options.strategy}: the grid is binned already; leave it out."
        )
    if options.order not in ("uncertainty-score", grid.order):
        raise UsageError(
            f"--order is {options.order}, but the grid's is {grid.order}; leave it out."
        )
    return Plan(dataclasses.replace(options, order=grid.order), chosen, levels, score_bins)
