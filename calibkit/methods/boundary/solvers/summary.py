"""What a fit needs of its rows: counted once, after which the rows can go.

Over raw scores the tally is that of the rows.  Over score bins it is the grid's, with the numbers of
the columns as scores.  Every method and the cross-validation work on the tally alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, UInt8s, UInt16s, rows_by_group
from calibkit.columns.segments import read_segments
from calibkit.columns.weights import ClassWeights
from calibkit.errors import DataError, UsageError
from calibkit.methods.boundary.problem.columns import (
    Quantiles,
    Values,
    column_parts,
    quantiles_of_rows,
    quantiles_of_tally,
    read_values,
    uncertainties,
)
from calibkit.methods.boundary.problem.goals import CountGoal, Goal, Totals, tally_totals
from calibkit.methods.boundary.solvers.gap import WithinGap
from calibkit.methods.boundary.solvers.logistic import distinct
from calibkit.methods.boundary.solvers.methods import Plan, classes_of, goal_of, plan
from calibkit.models.model import Column, Provenance, Resolution
from calibkit.numerics.hashes import random_parts
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import Target
from calibkit.runtime.threads import later
from calibkit.summaries import binning
from calibkit.summaries.binning import GridTable
from calibkit.summaries.score_rows import CellGrid, ScoreRows, label_and_weight
from calibkit.summaries.score_summary import columns_of
from calibkit.summaries.tally import Tally, count_rows
from calibkit.version import __version__


class Stack(Struct, frozen=True):
    """Segments with uncertainty levels of their own, as one problem over all of these."""

    names: tuple[str, ...]
    pooled: tuple[str, ...]  # the values of the column that share the segment of all others
    code: Int64s  # the segment of each row, until they are counted
    levels: tuple[binning.Levels, ...] = ()  # of each segment, when they are

    @property
    def rows(self) -> list[Int64s]:
        """The rows of each segment."""
        return rows_by_group(self.code, len(self.names))

    def places(self, segment: int) -> slice:
        """Return which levels of the problem are those of a segment."""
        own = self.levels[segment].count
        return slice(segment * own, (segment + 1) * own)


class Summary(Struct, frozen=True, kw_only=True):
    """What a fit takes from its data: what its method chooses from, and what is said of the rows."""

    planned: Plan
    tally: Tally  # distinct scores, or columns of `grid`, per level
    #: The uncertainty levels of the model, which a single threshold may show several of; None where
    #: they depend on the score bin, or on the segment.
    levels: binning.Levels | None
    #: A tally on which to find the best single threshold; None where only a grid is known whose
    #: score bins differ between levels.
    single: Tally | None
    columns: dict[str, Column]  # that it was made from, by role
    origin: Provenance  # of a model fitted on this
    file: str | None  # the first input, for messages
    grid: binning.Grid | None = None  # the score bins
    #: Where rows have to be dealt one by one: the rows (with fractional or sampling weights, with
    #: values, or where `part` is given), and the part of each, if a column decides it.
    dealt: ScoreRows | None = None
    part: UInt8s | None = None
    values: Values | None = None  # what each row is worth, where that counts
    #: The level of each row where `levels` does not say it: segments have levels of their own.
    level: UInt16s | None = None
    #: Their distributions, in quantiles of equal mass; None where only a grid is known.
    score: Quantiles | None = None
    uncertainty: Quantiles | None = None
    stack: Stack | None = None  # the segments whose levels the tally holds one after the other
    resolution: Resolution | None = None  # how coarse the rows are; None where nothing was lost
    cells: CellGrid | None = None  # whose cells are the levels of the tally
    #: Where the tally is counted over finer levels, which several candidates share: the level of each.
    places: UInt16s | None = None

    def over_own_levels(self) -> Summary:
        """Return what is counted over the levels of the model alone."""
        if self.places is None or self.levels is None:
            return self
        tally = self.tally.coarser(self.places, self.levels.count)
        return replace(self, tally=tally, single=tally, places=None)

    def totals(self) -> Totals:
        """Return rows and positive rows, in units."""
        return tally_totals(self.tally)

    def aim(self) -> tuple[Tally, Goal]:
        """Return the rows as the objective counts them, and what is to be reached on them."""
        target = self.planned.options.target
        tally = self.tally.reweighted(classes_of(target, self.totals()))
        goal = goal_of(target, tally_totals(tally))
        if (gap := target.gap) and self.stack is not None and isinstance(goal, CountGoal):
            goal = WithinGap(goal, gap.measure, gap.most.fraction, len(self.stack.names))
        return tally, goal

    def need_classes(self) -> None:
        """Refuse rows of one class where the objective needs both, or the other one."""
        totals, target = self.totals(), self.planned.options.target
        column = self.columns["label"].name
        counts = {"p": totals.positives, "n": totals.rows - totals.positives}
        for needed, word in (("p", "positive"), ("n", "negative")):
            if needed in target.needs and not counts[needed]:
                problem = f"column {column!r}: no {word} row, but {target.flags} needs some"
                advice = "name the positive class by --positive VALUE if labels are not 0/1"
                said = f"{problem}; {advice}"
                raise DataError.of(self.file, said, column=column, rows=self.origin.rows)

    def scores(self, thresholds: Floats) -> Floats:
        """Translate thresholds of the levels on the tally's scores into thresholds on scores."""
        return np.array([self.score_at(level, value) for level, value in enumerate(thresholds)])

    def score_at(self, level: int, value: float) -> float:
        """Translate a threshold on the tally's scores into one on scores.

        A grid's bin reaches down to its lower edge, the lowest bin that held rows of a level with these
        edges to -inf.
        """
        if self.grid is None or np.isnan(value):
            return float(value)
        column, edges = int(value), self.grid.score_edges
        alone = edges.shape[0] > 1
        if not self.grid.total[level if alone else slice(None), :column].any():
            return -np.inf
        return float(edges[level if alone else 0, column - 1])

    def deal(self, classes: ClassWeights) -> Tally:
        """Return the tally dealt to folds of equal size, with its classes reweighted.

        Counts of rows are dealt as such, fractions of them rounded.  Rows with fractional or sampling
        weights, or with values, are dealt one by one, in parts of about equal size.
        """
        options, rows, part, level = self.planned.options, self.dealt, self.part, self.level
        if rows is None:
            tally = self.tally
            if tally.unit.size != 1.0:  # cells of a table hold fractions of rows
                tally = tally.in_whole_rows()
                classes = classes_of(options.target, tally_totals(tally))
            return tally.deal(options.folds, options.seed).reweighted(classes)
        if part is None:
            columns = columns_of(rows)
            if rows.options.sampled and rows.weight is not None:  # in any unit
                columns["weight"] = (rows.weight / rows.weight.max()).astype(np.float32)
            if self.values is not None:
                columns["gain"] = self.values.gain
            if level is not None:  # rows of different segments are no copies of each other
                columns["level"] = level
            part = random_parts(columns, options.folds, options.seed)
        own, levels = rows, self.tally.levels
        if self.grid is not None:
            level = binning.grid_levels(self.grid, rows.score, rows.uncertainty)
            edges = np.broadcast_to(self.grid.score_edges, (levels, self.grid.shape[1] - 1))
            column = binning.bins_within(rows.score, level, np.full(levels, -np.inf), edges)
            own = replace(rows, score=column.astype(np.float64))
        elif level is None:
            assert self.levels is not None
            level = self.levels.of(rows.uncertainty, rows.score.size)
        more = {"sampled": rows.options.sampled and self.part is None, "threads": options.workers}
        return count_at(own, level, levels, self.values, part=part, **more).reweighted(classes)


def count_at(
    rows: ScoreRows, level: UInt16s, levels: int, values: Values | None, **more: Any
) -> Tally:
    """Count rows at their levels, and what they are worth; see `count_rows` for the others."""
    if values is not None:
        more |= {"gain": values.gain, "gain_unit": values.unit}
    tally = count_rows(rows.score, level, rows.labels, levels, weight=rows.weight, **more)
    if not rows.options.sampled or rows.weight is None:
        return tally
    return replace(tally, rows_each=np.count_nonzero(rows.weight) / tally_totals(tally).rows)


def count_over(
    rows: ScoreRows, levels: binning.Levels, threads: int, values: Values | None = None
) -> Tally:
    """Count rows over some levels, at every distinct score."""
    level = levels.of(rows.uncertainty, rows.score.size)
    return count_at(rows, level, levels.count, values, threads=threads)


def described_columns(rows: ScoreRows, target: Target) -> dict[str, Column]:
    """Return the columns of rows by role, with the dtypes in which they are compared."""
    columns = binning.grid_columns(rows) | label_and_weight(rows.options)
    if rows.cells is not None:
        names = rows.cells.names
        for name, (role, one) in zip(names, uncertainties(rows, names).items(), strict=True):
            columns[role] = Column(name, dtype=str(one.dtype))
    return columns | {role: Column(name) for role, name in target.value_columns.items()}


# ---------------------------------------------------------------- counting


def summarise(
    data: ScoreRows | GridTable, options: BoundaryOptions, levels: binning.Levels | None = None
) -> Summary:
    """Count rows, or take over the counts of a grid, for one specification.

    Rows are counted over `levels`, and every distinct score, where they are given.
    """
    planned = plan(options, data)
    if isinstance(data, GridTable):
        return _summary_of_grid(data, planned)
    # Beside the counting, of which only the sort uses all processors.
    outline = later(options.workers, _outline, data)
    fingerprint = later(options.workers, _rows_hash, data, planned)
    threads, strategy, grid, values = options.workers, options.strategy, None, None
    if levels is None and planned.score_bins:
        together = planned.method.together
        bins = (1 if together else planned.levels, planned.score_bins)
        grid = binning.fit_grid(
            data, *bins, strategy=strategy, order=options.order, threads=threads
        )
        tally, levels, own = grid.as_tally(), grid.levels, binning.uncertainty_levels(data, 1)
        if together and levels is not None:  # a single threshold, which several levels show
            own = levels = binning.uncertainty_levels(data, planned.levels, strategy)
        single, score = count_over(data, own, threads), quantiles_of_rows(data.score, data.weight)
    else:
        values = read_values(data, options.target)
        given = levels is not None
        if levels is None:
            levels = binning.uncertainty_levels(data, planned.levels, strategy)
            if planned.method.surface is not None and data.cells is None:
                levels = distinct(levels)
        tally = single = count_over(data, levels, threads, values)
        if planned.method.surface is not None and not given:
            _need_finite(data, tally)
        score = quantiles_of_tally(tally)
    part = None
    if options.folds:  # forward folds need one more
        part = column_parts(data, options, options.folds + (options.time is not None))
    whole = values is None and part is None and tally.unit.size == 1.0 and not data.options.sampled
    return Summary(
        tally=tally,
        levels=levels,
        single=single,
        columns=described_columns(data, options.target),
        **_about(planned, data, data.rows, fingerprint()),
        grid=grid,
        dealt=None if whole else data,
        part=part,
        values=values,
        score=score,
        uncertainty=outline(),
        resolution=data.resolution,
        cells=data.cells,
    )


def _summary_of_grid(data: GridTable, planned: Plan) -> Summary:
    alike, tally = data.grid.score_edges.shape[0] == 1, data.grid.as_tally()
    if planned.method.together and not alike:
        raise UsageError(
            f"--method {planned.method.name} needs the same score bins at every uncertainty level; "
            "make the grid by --strategy equal-width or --order score-uncertainty, or give the "
            "rows themselves."
        )
    return Summary(
        tally=tally,
        levels=data.grid.levels,
        single=tally if alike else None,
        columns=data.columns,
        grid=data.grid,
        **_about(planned, data, tally_totals(tally).rows, data.fingerprint),
    )


def _need_finite(data: ScoreRows, tally: Tally) -> None:
    """Refuse infinite scores of a logistic surface; probabilities have their logits."""
    if data.options.measure != "probability" and not np.isfinite(tally.score[[0, -1]]).all():
        rows, column = int(np.count_nonzero(np.isinf(data.score))), data.options.score
        problem = (
            f"column {column!r}: infinite in {rows} rows; a logistic surface needs finite scores"
        )
        advice = "clip them, or choose another --method"
        raise DataError.of(data.source.file, f"{problem}: {advice}", column=column, rows=rows)


def _outline(data: ScoreRows) -> Quantiles | None:
    if data.uncertainty is None or data.cells is not None:
        return None
    return quantiles_of_rows(data.uncertainty, data.weight)


def _about(
    planned: Plan, data: ScoreRows | GridTable, rows: int, fingerprint: str
) -> dict[str, Any]:
    """Return what a summary says of its rows, whatever they were counted in."""
    options = planned.options
    names = ["method", "order", "folds", "seed", "value", "groups", "time"]
    if options.by is not None:
        names += ["by", "bound", "max_gap"]
    prevalence = options.target.prevalence
    said: dict[str, Any] = {
        **options.target.said,
        "uncertainty_bins": planned.kept_levels,
        "score_bins": planned.score_bins,
        "strategy": options.strategy if isinstance(data, ScoreRows) else None,
        "prevalence": None if prevalence is None else prevalence.text,
        **{name: getattr(options, name) for name in names},
    }
    said = {name: chosen for name, chosen in said.items() if chosen is not None}
    if options.by is not None:  # None too: the default depends on the bound
        said["min_group_positives"] = options.min_group_positives
    if planned.method.mix is not None:
        said["randomise"] = options.randomise
    if isinstance(data, ScoreRows):
        said |= {"on_missing": data.options.on_missing, "unlabelled": data.options.unlabelled}
    origin = Provenance(__version__, said, rows, fingerprint, data.source.paths)
    return {"planned": planned, "origin": origin, "file": data.source.file}


def _rows_hash(rows: ScoreRows, planned: Plan) -> str:
    used = columns_of(rows)
    if rows.cells is not None:
        used |= uncertainties(rows, rows.cells.names)
    elif planned.levels == 1:
        used.pop("uncertainty", None)
    if planned.options.by is not None:
        segments = read_segments(rows.other(planned.options.by), rows.finder)
        used["by"] = segments.code.astype(np.float64)
    for role, name in planned.options.target.value_columns.items():
        used[role] = rows.other(name).cast(pl.Float64).to_numpy()
    return rows.fingerprint(used)
