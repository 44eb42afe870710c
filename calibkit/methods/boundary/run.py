"""A fit of ``boundary`` from its rows to its model: see `calibkit.summaries.runs.Fit`.

What a run may do instead (certify, fit segments, compare) is loaded where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from calibkit.bins.binning import uncertainty_levels
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.columns.remarks import of_tally
from calibkit.files.sources import Source
from calibkit.methods.boundary.choice import EVERY_LEVELS, candidates, fit_rows
from calibkit.methods.boundary.problem.problem import raw_problem
from calibkit.methods.boundary.reading import (
    merged_rows,
    read_boundary_rows,
    read_summary,
    read_test_rows,
)
from calibkit.methods.boundary.result.fit import FittedBoundary, delivered
from calibkit.methods.boundary.solvers.plan import plan as resolved
from calibkit.models.lineage import makers_of, model_hash, record_makers
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.options.option import from_plain, plain
from calibkit.runtime.memory import Memory
from calibkit.summaries.runs import Plan
from calibkit.summaries.score_states import score_state, source_of
from calibkit.summaries.states import State
from calibkit.summaries.states import from_plain as texts_from_plain
from calibkit.summaries.tally import Tally

if TYPE_CHECKING:
    from calibkit.methods.boundary.compare import Compared

KIND = "boundary"


@dataclass(frozen=True)
class Inputs:
    """The rows of a run, and those that judge it.

    Attributes
    ----------
    data, test
        The rows, or a grid of their counts, and others that judge the fit, if there are any.
    source
        Where the rows are read.
    makers
        The hash of the model that made the column of a role, as the user says.
    """

    data: ScoreRows | GridTable
    test: ScoreRows | None
    source: Source
    makers: Mapping[str, str]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user has to be told of the rows."""
        of_test = self.test.warnings if self.test is not None else ()
        of_rows = self.data.warnings if isinstance(self.data, ScoreRows) else ()
        return (*of_rows, *(f"--test: {remark}" for remark in of_test))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a summary says of the rows."""
        return self.data.notes if isinstance(self.data, ScoreRows) else ()

    @property
    def details(self) -> tuple[str, ...]:
        """What is said of the rows to those who ask for more."""
        if not isinstance(self.data, ScoreRows):
            return ()
        return (f"{self.data.rows:,} rows used of {self.data.rows_read:,} read",)


@dataclass(frozen=True)
class Comparison:
    """All methods that take the objective, those that meet the bound first."""

    options: BoundaryOptions
    inputs: Inputs
    methods: tuple[Compared, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The methods as a table, one row each."""
        from calibkit.methods.boundary.compare import comparison_frame

        return comparison_frame(self.methods)

    def fit(self) -> FittedBoundary:
        """Fit the method that was asked for on the same rows."""
        return _fit(self.options, self.inputs)


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
    from calibkit.methods.boundary.compare import compare_methods

    options.check_comparison()
    inputs = _inputs(options, source)
    methods = compare_methods(inputs.data, options, inputs.test)
    return Comparison(options, inputs, tuple(sorted(methods, key=lambda one: one.rank)))


def plan(options: BoundaryOptions, source: Source) -> Plan:
    """Return what `fit` would do; the rows are read, because the levels depend on them."""
    data = read_boundary_rows(options, source)
    columns = {name: name for name in ("count", "positives")}
    if isinstance(data, ScoreRows):
        columns = data.options.roles | options.target.value_columns
        if options.by is not None:
            columns["by"] = options.by
    return Plan(columns, _steps(options, data))


def _steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    if options.confidence is not None:
        from calibkit.methods.boundary.certificate.certificate import certificate_steps

        return certificate_steps(options, data)
    auto = options.method == AUTO
    plans = candidates(data, options) if auto else [resolved(options, data)]
    steps = [step for planned in plans for step in planned.steps()[:1]] + plans[0].steps()[1:]
    if auto and len(plans) > 1:
        steps.append("keep the simplest that is as good as the best there")
    if options.auto_levels and not auto:
        tried = ", ".join(map(str, EVERY_LEVELS))
        steps.append(f"do so with {tried} levels, and keep what cross-validation favours")
    return steps


def state(options: BoundaryOptions, source: Source) -> State:
    """Return the state of the rows of a shard; rows that would judge the fit have no place in it.

    Raises
    ------
    UsageError, DataError, ResourceError
        As `calibkit.methods.boundary.reading.read_summary`.
    """
    summary = read_summary(options, source)
    makers = makers_of(source, summary.options.roles, _makers(options))
    asked = plain(replace(options, test=None, calibrator=None, threads=None))
    files = source.paths if options.provenance == "names" else ()
    return score_state(KIND, {"asked": asked, "makers": makers}, summary, files)


def finish(state: State, memory: Memory, threads: int) -> FittedBoundary:
    """Return the model of the rows of a merged state."""
    said = state.header.options
    options = from_plain(said.get("asked"), BoundaryOptions, state.path, threads=threads)
    makers = texts_from_plain(said.get("makers"), dict[str, str], state.path)
    rows = merged_rows(options, state, memory)
    return _told(options, Inputs(rows, None, source_of(state), makers))


def _inputs(options: BoundaryOptions, source: Source) -> Inputs:
    data = read_boundary_rows(options, source)
    return Inputs(
        data, read_test_rows(options, data, source.dialect.dtype), source, _makers(options)
    )


def _makers(options: BoundaryOptions) -> dict[str, str]:
    """Return the hash of the model that made the scores, if the user names it."""
    return {} if options.maker is None else {"score": model_hash(options.maker)}


def _told(options: BoundaryOptions, inputs: Inputs) -> FittedBoundary:
    """Return the fit, with what is to be said of its rows."""
    fitted = _fit(options, inputs)
    return replace(
        fitted,
        warnings=(*inputs.warnings, *fitted.warnings),
        notes=(*inputs.notes, *fitted.notes),
        details=inputs.details,
    )


def _fit(options: BoundaryOptions, inputs: Inputs) -> FittedBoundary:
    data = inputs.data
    single: Tally | None = None
    notes: tuple[str, ...] = ()
    if options.confidence is not None:
        from calibkit.methods.boundary.certificate.certificate import certify_boundary

        fitted = certify_boundary(data, options)
    elif options.by is not None:
        from calibkit.methods.boundary.segments import fit_segments

        fitted = fit_segments(data, options)
    else:
        fitted = fit_rows(data, options)
        assert fitted.summary is not None
        single = fitted.summary.single
        if options.auto_levels and options.method != AUTO:
            chosen = fitted.summary.planned.kept_levels
            notes = (
                f"{chosen} uncertainty level{'s' if chosen > 1 else ''} chosen by cross-validation "
                f"among {', '.join(map(str, EVERY_LEVELS))}.",
            )
    odd: list[str] = []
    if isinstance(data, ScoreRows):
        if single is None:
            single = raw_problem(data, uncertainty_levels(data, 1), options.workers).tally
        counted = single.score, single.count, single.positive
        odd = of_tally(data.options.score, data.options.scale, *counted, data.rows)
    fitted = delivered(fitted, options, inputs.test)
    record_makers(fitted.model, inputs.source, inputs.makers)
    return replace(fitted, warnings=(*odd, *fitted.warnings), notes=notes)
