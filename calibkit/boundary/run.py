"""A fit of ``boundary`` from its rows to its model: see `calibkit.fitted.Fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from calibkit.bins.binning import uncertainty_levels
from calibkit.bins.grid_table import GridTable
from calibkit.boundary.auto import Choice, candidates, choose_method, fit_choice
from calibkit.boundary.certificate import certificate_steps, certify_boundary
from calibkit.boundary.choose import CANDIDATES, choose_levels, chosen_note
from calibkit.boundary.compare import Compared, compare_methods, comparison_frame
from calibkit.boundary.fit import FittedBoundary, delivered, fit_summary
from calibkit.boundary.plan import plan as resolved
from calibkit.boundary.problem import raw_problem
from calibkit.boundary.reading import (
    merged_rows,
    read_boundary_rows,
    read_summary,
    read_test_rows,
)
from calibkit.boundary.segmented import fit_segments
from calibkit.boundary.summary import Summary, summarise
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Plan
from calibkit.makers import makers_of, model_hash, record_makers
from calibkit.memory import Memory
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.options.option import from_plain, plain
from calibkit.rows.columns import ScoreRows
from calibkit.rows.remarks import of_tally
from calibkit.summaries import plain as states
from calibkit.summaries.score_states import score_state, source_of
from calibkit.summaries.states import State

KIND = "boundary"

#: What a boundary is fitted on: counted once, or for several methods, or later for each segment.
Counted = Summary | Choice | ScoreRows | GridTable


@dataclass(frozen=True)
class Comparison:
    """All methods that take the objective, on the same rows.

    Attributes
    ----------
    methods
        Those that meet the bound first.
    fit
        Fits the method that was asked for on these rows.
    warnings, notes, details
        As in `calibkit.fitted.Fitted`, of the rows.
    """

    methods: tuple[Compared, ...]
    fit: Callable[[], FittedBoundary]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The methods as a table, one row each."""
        return comparison_frame(self.methods)


@dataclass(frozen=True)
class _Inputs:
    """The rows of a run, and those that judge it, with what the user should be told of them."""

    data: ScoreRows | GridTable
    test: ScoreRows | None
    source: Source
    makers: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        of_test = self.test.warnings if self.test is not None else ()
        of_rows = self.data.warnings if isinstance(self.data, ScoreRows) else ()
        return (*of_rows, *(f"--test: {remark}" for remark in of_test))

    @property
    def notes(self) -> tuple[str, ...]:
        return self.data.notes if isinstance(self.data, ScoreRows) else ()

    @property
    def details(self) -> tuple[str, ...]:
        if not isinstance(self.data, ScoreRows):
            return ()
        return (f"{self.data.rows:,} rows used of {self.data.rows_read:,} read",)


def fit(options: BoundaryOptions, source: Source) -> FittedBoundary:
    """Return the model of all rows.

    Raises
    ------
    UsageError
        Options that do not go together.
    DataError
        Values that are missing or out of range; rows of one class where the objective needs both.
    InfeasibleError
        No boundary selects a row and meets the bound, or nothing can be certified.
    """
    return _told(options, _inputs(options, source))


def compare(options: BoundaryOptions, source: Source) -> Comparison:
    """Return all methods that take the objective, side by side; errors as `fit`."""
    options.check_comparison()
    inputs = _inputs(options, source)
    methods = sorted(compare_methods(inputs.data, options, inputs.test), key=lambda one: one.rank)
    return Comparison(
        tuple(methods),
        partial(_fit, options, inputs),
        inputs.warnings,
        inputs.notes,
        inputs.details,
    )


def plan(options: BoundaryOptions, source: Source) -> Plan:
    """Return what `fit` would do; the rows are read, because the levels depend on them."""
    data = read_boundary_rows(options, source)
    columns = {name: name for name in ("count", "positives")}
    if isinstance(data, ScoreRows):
        columns = data.options.roles | options.target.worth_columns
        if options.by is not None:
            columns["by"] = options.by
    return Plan(columns, _steps(options, data))


def _steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    if options.confidence is not None:
        return certificate_steps(options, data)
    auto = options.method == AUTO
    plans = candidates(data, options) if auto else [resolved(options, data)]
    steps = [step for planned in plans for step in planned.steps()[:1]] + plans[0].steps()[1:]
    if auto and len(plans) > 1:
        steps.append("keep the simplest that is as good as the best there")
    if options.auto_levels and not auto:
        tried = ", ".join(map(str, CANDIDATES))
        steps.append(f"do so with {tried} levels, and keep what cross-validation favours")
    return steps


def state(options: BoundaryOptions, source: Source) -> State:
    """Return the state of the rows of a shard; rows that would judge the fit have no place in it.

    Raises
    ------
    UsageError, DataError, ResourceError
        As `calibkit.boundary.reading.read_summary`.
    """
    summary = read_summary(options, source)
    makers = makers_of(source, summary.options, _makers(options))
    asked = plain(replace(options, test=None, calibrator=None, threads=None))
    files = source.paths if options.provenance == "names" else ()
    return score_state(KIND, {"asked": asked, "makers": makers}, summary, files)


def finish(state: State, memory: Memory, threads: int) -> FittedBoundary:
    """Return the model of the rows of a merged state."""
    said = state.header.options
    options = from_plain(said.get("asked"), BoundaryOptions, state.path, threads=threads)
    makers = states.from_plain(said.get("makers"), dict[str, str], state.path)
    rows = merged_rows(options, state, memory)
    return _told(options, _Inputs(rows, None, source_of(state), makers))


def count(data: ScoreRows | GridTable, options: BoundaryOptions) -> Counted:
    """Count rows over the levels asked for or chosen, or for several methods.

    Segments and certificates count for themselves: of these the data come back as they are.

    Raises
    ------
    UsageError
        Options that do not go together.
    DataError
        Rows of one class where the objective needs both.
    InfeasibleError
        No number of levels meets the bound.
    """
    if options.by is not None or options.confidence is not None:
        return data
    if options.method == AUTO:
        return choose_method(data, options)
    if not options.auto_levels:
        return summarise(data, options)
    if isinstance(data, GridTable):
        raise UsageError("a grid has its levels; leave --uncertainty-bins auto out.")
    return choose_levels(data, options)


def _inputs(options: BoundaryOptions, source: Source) -> _Inputs:
    data = read_boundary_rows(options, source)
    return _Inputs(data, read_test_rows(options, data, source.dtype), source, _makers(options))


def _makers(options: BoundaryOptions) -> dict[str, str]:
    """Return the hash of the model that made the scores, if the user names it."""
    return {} if options.maker is None else {"score": model_hash(options.maker)}


def _told(options: BoundaryOptions, inputs: _Inputs) -> FittedBoundary:
    """Return the fit, with what is to be said of its rows."""
    fitted = _fit(options, inputs)
    return replace(
        fitted,
        warnings=(*inputs.warnings, *fitted.warnings),
        notes=(*inputs.notes, *fitted.notes),
        details=inputs.details,
    )


def _fit(options: BoundaryOptions, inputs: _Inputs) -> FittedBoundary:
    counted = count(inputs.data, options)
    odd, note, thresholds = _oddities(counted, options), tuple[str, ...](), None
    if isinstance(counted, Summary):
        fitted, thresholds = fit_summary(counted), counted
        note = (chosen_note(counted),) if options.auto_levels else ()
    elif isinstance(counted, Choice):
        fitted, thresholds = fit_choice(counted), counted.thresholds
    elif options.confidence is not None:
        fitted = certify_boundary(counted, options)
    else:
        fitted = fit_segments(counted, options)
    fitted = delivered(fitted, options, inputs.test)
    record_makers(fitted.model, inputs.source, inputs.makers)
    return replace(fitted, warnings=(*odd, *fitted.warnings), notes=note, thresholds=thresholds)


def _oddities(counted: Counted, options: BoundaryOptions) -> list[str]:
    """Return what is odd about the scores; of a grid, which has lost them, nothing."""
    if isinstance(counted, GridTable):
        return []
    if isinstance(counted, ScoreRows):
        tally = raw_problem(counted, uncertainty_levels(counted, 1), options.workers).tally
        size = int(counted.score.size)
        name = counted.options.score
        scale: str = counted.options.scale
    else:
        summary = counted.ranked[0].summary if isinstance(counted, Choice) else counted
        if summary.single is None or summary.score is None:
            return []
        tally, size = summary.single, summary.rows
        column = summary.problem.columns["score"]
        name, scale = column.name, column.scale or "raw"
    return of_tally(name, scale, tally.score, tally.count, tally.positive, size)
