"""Fitting a boundary: rows to a problem, a method's choice, its figures, the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl

from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.gap import WithinGap
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.problem.problem import deal
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.methods.boundary.result import figures
from calibkit.methods.boundary.result.describe import describe, flatten, reference, warnings_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import BoundaryFit, Figures, SegmentFit
from calibkit.methods.boundary.solvers import exact
from calibkit.methods.boundary.solvers.methods import METHODS, best_choice
from calibkit.methods.boundary.solvers.summary import Plan, Summary, summarise
from calibkit.models.model import Range, Resolution
from calibkit.options.boundary import BoundaryOptions
from calibkit.runtime.threads import later
from calibkit.summaries.runs import Fitted
from calibkit.summaries.tally import Tally


@dataclass(frozen=True, kw_only=True)
class FittedBoundary(Fitted[BoundaryModel]):
    """A fitted boundary, what the user should be told, and its folds one by one."""

    goal: Goal  # that of all rows, in the units of the folds
    checked: figures.Validation | None = None
    row_units: Fraction = Fraction(1)  # of a weight of 1, before classes are reweighted
    #: What it was fitted on, and what a boundary without a surface would be; None for segments and
    #: certificates.
    summary: Summary | None = None
    thresholds: Summary | None = None

    @property
    def folds(self) -> tuple[figures.Judged, ...]:
        """What each fold gave, empty without cross-validation."""
        return () if self.checked is None else self.checked.folds

    @property
    def frontier(self) -> pl.DataFrame:
        """Every boundary that no other beats in precision and recall, one row each."""
        from calibkit.methods.boundary.solvers.frontier import frontier_rows

        assert self.thresholds is not None  # `BoundaryOptions.check_frontier`
        return frontier_rows(self.thresholds)


def fit_boundary(
    data: ScoreRows | GridTable, options: BoundaryOptions, *, test: ScoreRows | None = None
) -> FittedBoundary:
    """Fit a decision boundary over score and uncertainty, on rows or a grid of their counts.

    `test`: labelled rows on which the boundary is judged; they take no part in the fit.  Raises
    `UsageError` for an impossible combination of options, `DataError` for rows without a positive one,
    `InfeasibleError` where no boundary of this method selects a row and meets the bound.
    """
    return delivered(fit_summary(summarise(data, options)), options, test)


def delivered(
    fitted: FittedBoundary, options: BoundaryOptions, test: ScoreRows | None = None
) -> FittedBoundary:
    """Judge a fit on test rows, and let its model say of its origin what is asked for."""
    model = fitted.model
    model.tags = dict(options.tags or {})
    if options.provenance == "none":
        model.provenance = None
    elif options.provenance == "hash" and model.provenance is not None:
        model.provenance = msgspec.structs.replace(model.provenance, files=None)
    if test is not None:
        figures.judge_test(model, test, options.target, fitted.goal.of)
    return fitted


def fit_summary(summary: Summary) -> FittedBoundary:
    """Fit a decision boundary on what was counted of its rows; see `fit_boundary`."""
    planned, fitted_on = summary.planned, summary
    options = planned.options
    summary.need_classes()
    warnings: list[str] = []
    tally, goal = summary.aim()
    classes = goal.totals.classes
    folds = fold_count(summary, warnings)
    # While the search runs: none of these needs another.
    single = later(options.workers, score_only, summary.single, goal.alone)
    dealt = later(
        options.workers if folds else 1, deal, summary, folds, options.seed, options.workers
    )
    found, optimum = planned.method.find_with_optimum(tally, goal)
    resolution = summary.resolution
    if resolution is not None:
        optimum, resolution = _of_rows(planned, tally, goal, found, optimum, resolution)
    if found.selected == 0 and options.target.bound is not None:
        raise _infeasible(tally, goal, planned)
    if isinstance(goal, ThreeWay) and found.reviewed > goal.limit:
        floor = found.reviewed if optimum.proven else math.ceil(optimum.ceiling * goal.totals.rows)
        raise OverCapacityError(planned, *map(tally.unit.amount, (found.reviewed, floor)))
    dealt_rows = dealt().reweighted(classes) if folds else None
    checked = None if dealt_rows is None else figures.cross_validate(dealt_rows, planned, goal)
    summary, found = flatten(summary, found)
    fit = seen_in_sample(summary, found, goal, optimum.ceiling, single())
    fit.optimal_in_sample = planned.method.mix is not None or (
        optimum.proven and fit.bound_met and goal.value(*found.counts) == optimum.ceiling
    )
    fit.cross_validated = None if checked is None else checked.figures
    if resolution is not None:
        fit.resolution = resolution
    segments: list[SegmentFit] = []
    if summary.stack is not None:
        judged_on = None if options.time is not None else dealt_rows
        segments = figures.judge_segments(summary.stack, goal, tally, found, judged_on, checked)
        if isinstance(goal, WithinGap):
            fit.gap = figures.gap_seen(goal, tally, found, judged_on, checked)
    model = describe(summary, found, fit, segments)
    said = (*warnings, *warnings_of(model, options.target))
    return FittedBoundary(
        model=model,
        warnings=said,
        goal=goal,
        checked=checked,
        row_units=fitted_on.totals().row_units,
        summary=fitted_on,
        thresholds=fitted_on,
    )


def seen_in_sample(
    summary: Summary, found: Found, goal: Goal, ceiling: float, single: Figures | None
) -> BoundaryFit:
    """Return what is known of a boundary from the rows that it was found on.

    `summary`, `found`: the rows, and the boundary; `goal`: that of the rows, see `Summary.aim`;
    `ceiling`, `single`: what no boundary can exceed, and the figures of the best single threshold.
    """
    totals, unit = summary.totals(), summary.tally.unit
    selected, _ = goal.totals.classes.rows(found.selected, found.true_positives)
    return BoundaryFit(
        rows=unit.amount(totals.rows),
        positives=unit.amount(totals.positives),
        in_sample=figures.figures(goal, unit, found.counts),
        upper_bound=ceiling,
        optimal_in_sample=False,
        exact_arithmetic=goal.totals.exact and summary.tally.gain_unit.exact,
        # A randomised boundary meets its bound by its very probability.
        bound_met=summary.planned.method.mix is not None or goal.met(*map(int, found.counts)),
        score_only=single,
        cross_validated=None,
        test=None,
        reference=reference(summary, selected / totals.rows),
        certificate=None,
    )


def _of_rows(
    planned: Plan,
    tally: Tally,
    goal: Goal,
    found: Found,
    optimum: exact.Solution,
    resolution: Resolution,
) -> tuple[exact.Solution, Resolution]:
    """Return the optimum over rows that were made coarser, as far as it can be known.

    No boundary over the rows themselves does better than one that could take the positive rows of
    each coarse score without its negative ones.
    """
    value = goal.value(*found.counts)
    if planned.method.choose is None or planned.score_bins or value is None:
        return optimum, resolution
    if isinstance(goal, ThreeWay):  # how many rows of a cell suffice is not known
        return replace(
            optimum, ceiling=float(not planned.options.target.minimised), proven=False
        ), resolution
    points = tally.parted().points(together=planned.method.together)
    ceiling = best_choice(points, goal.alone).ceiling
    low, high = sorted((value, ceiling))
    optimum = replace(optimum, ceiling=ceiling, proven=value == ceiling)
    return optimum, msgspec.structs.replace(resolution, optimum=Range(low, high))


def _infeasible(tally: Tally, goal: Goal, planned: Plan) -> InfeasibleError:
    blocks = exact.isotonic_blocks(tally.points(together=planned.method.together))
    rows, hits = int(blocks.selected[0]), int(blocks.true_positives[0])
    name, target = planned.method.name, planned.options.target
    if target.gap is not None:
        advice = "allow a larger gap"
    elif goal.met(rows, hits):
        advice = f"--method {'exact' if name != 'exact' else 'st'} does"
    elif target.option == "precision":
        assert target.bound is not None
        best = f"{hits / rows:.6g}"
        if float(best) >= float(target.bound):  # of six digits, yet short of it
            best = f"{hits / rows}"
        advice = (
            f"the highest precision any selection reaches is {best}, with "
            f"{tally.unit.amount(tally.classes.rows(rows, hits)[0]):,} rows: lower the bound, or "
            "improve the scores"
        )
    else:
        advice = "the rows of the highest scores exceed it already: raise the bound"
    return InfeasibleError(
        f"no boundary of --method {name} selects a row with {target.text}; {advice}."
    )


class OverCapacityError(InfeasibleError):
    """More rows have to be reviewed than can be."""

    def __init__(self, planned: Plan, least: float, floor: float) -> None:
        possible = f"the least review possible is {least:,} rows"
        if floor < least:
            possible = f"the least review found is {least:,} rows, at least {floor:,} are needed"
        super().__init__(
            f"--method {planned.method.name} cannot {planned.options.target.text}: {possible}; raise "
            "the capacity, or lower a bound."
        )
        self.least = least


def fold_count(summary: Summary, warnings: list[str]) -> int:
    """Return how many folds to cross-validate in, 0 for none; warn where rows are too few."""
    options = summary.planned.options
    folds = options.folds
    rows, positives = summary.rows, summary.positives
    if summary.dealt is None:
        totals = summary.totals()
        rows, positives = totals.rows, totals.positives
    if folds and (positives < folds or rows < 2 * folds):
        warnings.append(
            f"{positives} positive of {rows} rows are too few for {folds} folds: not "
            "cross-validated, and the figures on these rows are optimistic"
        )
        return 0
    part = summary.part
    if folds and part is not None and np.unique(part).size < folds + (options.time is not None):
        warnings.append(
            f"column {options.groups or options.time!r} has too few values for {folds} folds: not "
            "cross-validated, and the figures on these rows are optimistic"
        )
        return 0
    return folds


def score_only(tally: Tally | None, goal: Goal) -> Figures | None:
    """Return the figures of the best single threshold."""
    if tally is None:
        return None
    tally = tally.reweighted(goal.totals.classes)
    found = METHODS["st"].find(tally, goal)
    return figures.figures(goal, tally.unit, found.counts)
