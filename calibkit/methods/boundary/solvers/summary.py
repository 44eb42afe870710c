"""What a fit will do, and what it needs of its rows: counted once, after which the rows can go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import Grid, Levels, check_bins, uncertainty_levels
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import CellGrid, ScoreRows
from calibkit.columns.segments import read_segments
from calibkit.errors import DataError, UsageError
from calibkit.methods.boundary.problem import quantiles
from calibkit.methods.boundary.problem.columns import (
    column_parts,
    read_values,
    roles_of,
    uncertainties,
)
from calibkit.methods.boundary.problem.gap import WithinGap
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.problem.problem import (
    Problem,
    binned_problem,
    classes_of,
    goal_of,
    grid_problem,
    raw_problem,
    tally_totals,
)
from calibkit.methods.boundary.solvers.cell_surface import best_cell_cut
from calibkit.methods.boundary.solvers.classic import random_tie
from calibkit.methods.boundary.solvers.logistic import best_cut, distinct
from calibkit.methods.boundary.solvers.methods import Method, method
from calibkit.models.model import Provenance, Resolution
from calibkit.options.boundary import BoundaryOptions
from calibkit.runtime.threads import later
from calibkit.summaries.tally import Tally
from calibkit.version import __version__

#: How many quantiles of the fitting data a model keeps.
QUANTILES = 20


@dataclass(frozen=True)
class Plan:
    """Options with everything resolved: what the fit will do."""

    options: BoundaryOptions
    method: Method
    levels: int
    score_bins: int

    @property
    def kept_levels(self) -> int:
        """How many levels the model has: of cells, the leaves that they are gathered in."""
        return self.method.leaves or self.levels

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        options = self.options
        scores = f"{self.score_bins} score bins" if self.score_bins else "every distinct score"
        fit = (
            f"fit a boundary by {self.method.name} over {self.kept_levels} uncertainty level"
            f"{'s' if self.kept_levels > 1 else ''} and {scores}: {options.target.text}"
        )
        return [fit, f"cross-validate it in {options.folds} folds"] if options.folds else [fit]


def plan(options: BoundaryOptions, data: ScoreRows | GridTable) -> Plan:
    """Return what options mean for some rows, or for a grid of them."""
    if options.confidence is not None:
        raise UsageError(
            "a confidence needs calibkit.methods.boundary.certificate.certificate.certify_boundary."
        )
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
            chosen = replace(chosen, mix=random_tie, together=True)
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
    if score_bins == 0 and chosen.needs_grid:
        raise UsageError(f"--method {chosen.name} needs score bins; --score-bins 0 has none.")
    if chosen.surface is not None:
        if score_bins:
            raise UsageError(
                f"--method {chosen.name} works on the scores themselves; leave --score-bins out."
            )
        best = best_cut if data.cells is None else partial(best_cell_cut, shape=data.cells.shape)
        surface = partial(best, scale=data.options.measure, threads=options.workers)
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
    return Plan(replace(options, order=grid.order), chosen, levels, score_bins)


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class Stack:
    """Segments with uncertainty levels of their own, as one problem over all of these."""

    names: tuple[str, ...]
    pooled: tuple[str, ...]  # the values of the column that share the segment of all others
    rows: tuple[NDArray[np.int64], ...] = ()  # of each segment, until they are counted
    levels: tuple[Levels, ...] = ()  # of each segment, when they are

    def places(self, segment: int) -> slice:
        """Return which levels of the problem are those of a segment."""
        own = self.levels[segment].count
        return slice(segment * own, (segment + 1) * own)


@dataclass(frozen=True, kw_only=True)
class Summary(Problem):
    """What a fit takes from its data: what its method chooses from, and what is said of the rows."""

    planned: Plan
    #: A tally on which to find the best single threshold; None where only a grid is known whose
    #: score bins differ between levels.
    single: Tally | None
    #: The uncertainty levels of the model, which a single threshold may show several of; None where
    #: they depend on the score bin.
    shown: Levels | None
    rows: int  # whatever they weigh
    positives: int
    origin: Provenance  # of a model fitted on this
    file: str | None  # the first input, for messages
    #: Their distributions, in quantiles of equal mass; None where only a grid is known.
    score: quantiles.Quantiles | None = None
    uncertainty: quantiles.Quantiles | None = None
    stack: Stack | None = None  # the segments whose levels the tally holds one after the other
    resolution: Resolution | None = None  # how coarse the rows are; None where nothing was lost
    cells: CellGrid | None = None  # whose cells are the levels of the tally

    def aim(self) -> tuple[Tally, Goal]:
        """Return the rows as the objective counts them, and what is to be reached on them."""
        target = self.planned.options.target
        tally = self.tally.reweighted(classes_of(target, self.totals()))
        goal = goal_of(target, tally_totals(tally))
        if target.gap is not None and isinstance(goal, CountGoal):
            goal = WithinGap(goal, target.gap, self.planned.levels)
        return tally, goal

    @property
    def minimised(self) -> bool:
        """Whether the objective is to be small."""
        return self.planned.options.target.minimised

    def need_classes(self) -> None:
        """Refuse rows of one class where the objective needs both, or the other one."""
        totals, target = self.totals(), self.planned.options.target
        column = self.columns["label"].name
        counts = {"p": totals.positives, "n": totals.rows - totals.positives}
        for needed, word in (("p", "positive"), ("n", "negative")):
            if needed in target.needs and not counts[needed]:
                raise DataError(
                    f"{self.file}: column {column!r}: no {word} row, but {target.flags} "
                    "needs some; name the positive class by --positive if labels are not 0/1",
                    column=column,
                    file=self.file,
                    rows=totals.rows,
                )


def summarise(
    data: ScoreRows | GridTable, options: BoundaryOptions, levels: Levels | None = None
) -> Summary:
    """Count rows, or take over the counts of a grid, for one specification.

    Rows are counted over `levels`, and every distinct score, where they are given.
    """
    planned = plan(options, data)
    if isinstance(data, GridTable):
        return _summary_of_grid(data, planned)
    # Beside the counting, of which only the sort uses all processors.
    spread = data.uncertainty if data.cells is None else None
    uncertainties = later(options.workers, _outline, spread, data.weight)
    fingerprint = later(options.workers, _rows_hash, data, planned)
    problem, shown = _problem_of_rows(data, planned, levels)
    single = problem.tally
    if problem.grid is None:
        score: quantiles.Quantiles | None = quantiles.quantiles_of_tally(single, QUANTILES)
    else:
        own = uncertainty_levels(data, 1)
        if shown is not None and shown.count > single.levels:  # one threshold for several
            own = shown
        single = raw_problem(data, own, options.workers).tally
        score = _outline(data.score, data.weight)
    if options.folds:  # forward folds need one more
        part = column_parts(data, options, options.folds + (options.time is not None))
        if part is not None:
            problem = replace(problem, dealt=data, part=part)
    return Summary(
        **vars(problem),
        planned=planned,
        single=single,
        shown=shown,
        rows=data.rows,
        positives=data.positive_rows,
        origin=_origin(planned, data, data.rows, fingerprint()),
        file=data.file,
        score=score,
        uncertainty=uncertainties(),
        resolution=data.resolution,
        cells=data.cells,
    )


def _summary_of_grid(data: GridTable, planned: Plan) -> Summary:
    alike = data.grid.score_edges.shape[0] == 1
    if planned.method.together and not alike:
        raise UsageError(
            f"--method {planned.method.name} needs the same score bins at every uncertainty level; "
            "make the grid by --strategy equal-width or --order score-uncertainty, or give the "
            "rows themselves."
        )
    problem = grid_problem(data.grid, data.columns)
    totals = problem.totals()
    return Summary(
        **vars(problem),
        planned=planned,
        single=problem.tally if alike else None,
        shown=problem.levels,
        rows=totals.rows,
        positives=totals.positives,
        origin=_origin(planned, data, totals.rows, data.fingerprint),
        file=data.file,
    )


def _problem_of_rows(
    data: ScoreRows, planned: Plan, levels: Levels | None
) -> tuple[Problem, Levels | None]:
    """Return the problem, and the levels of the model: a single threshold may show several."""
    options, surface = planned.options, planned.method.surface is not None
    if levels is None and planned.score_bins:
        bins = (1 if planned.method.together else planned.levels, planned.score_bins)
        problem = binned_problem(data, bins, options.strategy, options.order, options.workers)
        if planned.method.together and options.order == "uncertainty-score":
            return problem, uncertainty_levels(data, planned.levels, options.strategy)
        return problem, problem.levels
    values = read_values(data, options.target)
    if levels is not None:
        return raw_problem(data, levels, options.workers, values), levels
    levels = uncertainty_levels(data, planned.levels, options.strategy)
    levels = distinct(levels) if surface and data.cells is None else levels
    problem = raw_problem(data, levels, options.workers, values)
    finite = (
        data.options.measure == "probability" or np.isfinite(problem.tally.score[[0, -1]]).all()
    )
    if surface and not finite:  # probabilities have their logits
        rows = int(np.count_nonzero(np.isinf(data.score)))
        raise DataError(
            f"{data.file}: column {data.options.score!r}: infinite in {rows} rows; a logistic surface "
            "needs finite scores: clip them, or choose another --method",
            file=data.file,
            column=data.options.score,
            rows=rows,
        )
    return problem, levels


def _outline(
    values: NDArray[Any] | None, weight: NDArray[np.float64] | None
) -> quantiles.Quantiles | None:
    return None if values is None else quantiles.quantiles_of_rows(values, weight, QUANTILES)


def _origin(planned: Plan, data: ScoreRows | GridTable, rows: int, fingerprint: str) -> Provenance:
    options = planned.options
    said: dict[str, Any] = {
        **options.target.said,
        "method": options.method,
        "uncertainty_bins": planned.kept_levels,
        "score_bins": planned.score_bins,
        "strategy": options.strategy,
        "order": options.order,
        "folds": options.folds,
        "seed": options.seed,
    }
    prevalence = options.target.prevalence
    beside = {
        "value": options.value,
        "prevalence": None if prevalence is None else prevalence.text,
        "groups": options.groups,
        "time": options.time,
    }
    said |= {name: chosen for name, chosen in beside.items() if chosen is not None}
    if options.by is not None:
        said |= {"by": options.by, "bound": options.bound}
        if options.max_gap is not None:
            said["max_gap"] = options.max_gap
        said["min_group_positives"] = options.min_group_positives
    if planned.method.mix is not None:
        said["randomise"] = options.randomise
    if isinstance(data, ScoreRows):
        said |= {"on_missing": data.options.on_missing, "unlabelled": data.options.unlabelled}
    else:
        del said["strategy"]  # the grid was made before
    files = data.source.paths if data.source else None
    return Provenance(__version__, said, rows, fingerprint, files)


def _rows_hash(rows: ScoreRows, planned: Plan) -> str:
    used: dict[str, NDArray[Any]] = {"score": rows.score}
    if rows.label is not None:
        used["label"] = rows.label
    if rows.cells is not None:
        used |= zip(roles_of(rows.cells), uncertainties(rows, rows.cells.names), strict=True)
    elif rows.uncertainty is not None and planned.levels > 1:
        used["uncertainty"] = rows.uncertainty
    if rows.weight is not None:
        used["weight"] = rows.weight
    if planned.options.by is not None:
        segments = read_segments(rows.other(planned.options.by), rows.finder)
        used["by"] = segments.code.astype(np.float64)
    for role, name in planned.options.target.value_columns.items():
        used[role] = rows.other(name).cast(pl.Float64).to_numpy()
    return rows.fingerprint(used)
