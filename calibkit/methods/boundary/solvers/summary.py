"""What a fit needs of its rows: counted once, after which the rows can go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import Levels, uncertainty_levels
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import CellGrid, ScoreRows
from calibkit.columns.resolution import Resolution
from calibkit.columns.segments import read_segments
from calibkit.columns.splits import group_parts, time_parts
from calibkit.errors import DataError, UsageError
from calibkit.methods.boundary.problem.cells import roles_of, uncertainties
from calibkit.methods.boundary.problem.gap import WithinGap
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.problem.problem import (
    Problem,
    binned_problem,
    grid_problem,
    raw_problem,
    tally_totals,
)
from calibkit.methods.boundary.problem.quantiles import (
    Quantiles,
    quantiles_of_rows,
    quantiles_of_tally,
)
from calibkit.methods.boundary.problem.target import classes_of, goal_of
from calibkit.methods.boundary.problem.values import read_values
from calibkit.methods.boundary.solvers.logistic import distinct
from calibkit.methods.boundary.solvers.plan import Plan, plan
from calibkit.models.model import Provenance
from calibkit.options.boundary import BoundaryOptions
from calibkit.runtime.threads import later
from calibkit.summaries.tally import Tally
from calibkit.version import __version__

#: How many quantiles of the fitting data a model keeps.
QUANTILES = 20


@dataclass(frozen=True)
class Stack:
    """Segments with uncertainty levels of their own, as one problem over all of these.

    Attributes
    ----------
    names, pooled
        The segments, and the values of the column that share the one of all others.
    rows
        The rows of each segment, until they are counted.
    levels
        The uncertainty levels of each segment, when they are.
    """

    names: tuple[str, ...]
    pooled: tuple[str, ...]
    rows: tuple[NDArray[np.int64], ...] = ()
    levels: tuple[Levels, ...] = ()

    def places(self, segment: int) -> slice:
        """Return which levels of the problem are those of a segment."""
        own = self.levels[segment].count
        return slice(segment * own, (segment + 1) * own)


@dataclass(frozen=True)
class Summary:
    """All that a fit takes from its data.

    Attributes
    ----------
    planned
        What to fit.
    problem
        What the method chooses from.
    single
        A tally on which to find the best single threshold; None where only a grid is known whose
        score bins differ between levels.
    levels
        The uncertainty levels of the model; None where they depend on the score bin.
    rows, positives
        How many rows there are, whatever they weigh.
    score, uncertainty
        Their distributions, in quantiles of equal mass; None where only a grid is known.
    origin
        The provenance of a model fitted on this.
    file
        The first input, for messages.
    stack
        The segments whose levels the problem holds one after the other, if it does.
    resolution
        How coarse the rows are; None where nothing was lost.
    cells
        The grid whose cells are the levels of the problem, of several uncertainties.
    """

    planned: Plan
    problem: Problem
    single: Tally | None
    levels: Levels | None
    rows: int
    positives: int
    origin: Provenance
    file: str | None
    score: Quantiles | None = None
    uncertainty: Quantiles | None = None
    stack: Stack | None = None
    resolution: Resolution | None = None
    cells: CellGrid | None = None

    def aim(self) -> tuple[Tally, Goal]:
        """Return the rows as the objective counts them, and what is to be reached on them."""
        target = self.planned.options.target
        tally = self.problem.tally.reweighted(classes_of(target, self.problem.totals()))
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
        totals, target = self.problem.totals(), self.planned.options.target
        column = self.problem.columns["label"].name
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

    Raises
    ------
    UsageError
        Options that are impossible or do not go together.
    DataError
        Equal-width bins of infinite scores.
    """
    planned = plan(options, data)
    if isinstance(data, GridTable):
        return _summary_of_grid(data, planned)
    assert data.label is not None
    # Beside the counting, of which only the sort uses all processors.
    spread = data.uncertainty if data.cells is None else None
    uncertainties = later(options.workers, _outline, spread, data.weight)
    fingerprint = later(options.workers, _rows_hash, data, planned)
    problem, levels = _problem_of_rows(data, planned, levels)
    part = _parts_of_column(data, options)
    if part is not None:
        problem = replace(problem, rows=data, part=part)
    single, score = problem.tally, None
    if problem.grid is None:
        score = quantiles_of_tally(problem.tally, QUANTILES)
    else:
        single = raw_problem(data, uncertainty_levels(data, 1), options.workers).tally
        score = _outline(data.score, data.weight)
    return Summary(
        planned,
        problem,
        single,
        levels,
        data.rows,
        data.positive_rows,
        _origin(planned, data, data.rows, fingerprint()),
        data.file,
        score,
        uncertainties(),
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
        planned,
        problem,
        problem.tally if alike else None,
        problem.levels,
        totals.rows,
        totals.positives,
        _origin(planned, data, totals.rows, data.fingerprint),
        data.file,
    )


def _parts_of_column(data: ScoreRows, options: BoundaryOptions) -> NDArray[np.uint8] | None:
    """Return the part of each row where a column decides it; forward folds need one more part."""
    name = options.groups or options.time
    if name is None or options.folds == 0:
        return None
    assert data.others is not None and data.where is not None
    if options.groups is not None:
        return group_parts(data.others[name], options.folds, options.seed, data.where)
    return time_parts(data.others[name], options.folds + 1, data.where)


def _problem_of_rows(
    data: ScoreRows, planned: Plan, levels: Levels | None
) -> tuple[Problem, Levels | None]:
    """Return the problem, and the levels of the model: a single threshold may show several."""
    options = planned.options
    values = read_values(data, options.target)
    if levels is not None:
        return raw_problem(data, levels, options.workers, values), levels
    if not planned.score_bins:
        levels = uncertainty_levels(data, planned.levels, options.strategy)
        if planned.method.surface is not None:
            levels = distinct(levels)
        problem = raw_problem(data, levels, options.workers, values)
        if planned.method.surface is not None:
            need_finite(problem, data)
        return problem, levels
    bins = (1 if planned.method.together else planned.levels, planned.score_bins)
    problem = binned_problem(data, bins, options.strategy, options.order, options.workers)
    if planned.method.together and options.order == "uncertainty-score":
        return problem, uncertainty_levels(data, planned.levels, options.strategy)
    return problem, problem.levels


def need_finite(problem: Problem, data: ScoreRows) -> None:
    """Refuse infinite scores, which no surface can be fitted to; probabilities have their logits."""
    score = problem.tally.score
    if data.options.measure == "probability" or np.isfinite(score[[0, -1]]).all():
        return
    rows = int(np.count_nonzero(np.isinf(data.score)))
    raise DataError(
        f"{data.file}: column {data.options.score!r}: infinite in {rows} rows; a logistic surface "
        "needs finite scores: clip them, or choose another --method",
        file=data.file,
        column=data.options.score,
        rows=rows,
    )


def _outline(values: NDArray[Any] | None, weight: NDArray[np.float64] | None) -> Quantiles | None:
    return None if values is None else quantiles_of_rows(values, weight, QUANTILES)


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
        assert rows.others is not None and rows.where is not None
        segments = read_segments(rows.others[planned.options.by], rows.where)
        used["by"] = segments.code.astype(np.float64)
    for role, name in planned.options.target.value_columns.items():
        assert rows.others is not None
        used[role] = rows.others[name].cast(pl.Float64).to_numpy()
    return rows.fingerprint(used)
