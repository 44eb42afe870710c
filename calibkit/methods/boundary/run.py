"""A fit of ``boundary`` from its rows to its model: see `calibkit.summaries.states.Run`.

What a run may do instead (certify, fit segments, compare) is loaded where it is asked for.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.columns.remarks import of_tally
from calibkit.errors import UsageError
from calibkit.files.formats import Dialect
from calibkit.files.frames import open_frame
from calibkit.files.sources import Source
from calibkit.methods.boundary.choice import EVERY_LEVELS, candidates, fit_rows
from calibkit.methods.boundary.problem.columns import (
    QUANTILES,
    amounts_of,
    in_cells,
    roles_of,
    uncertainties,
)
from calibkit.methods.boundary.result.fit import FittedBoundary, delivered
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.boundary.solvers.methods import plan as resolved
from calibkit.methods.boundary.solvers.summary import count_over
from calibkit.models.lineage import makers_in, model_hash
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory
from calibkit.summaries.binning import GridTable, is_grid_table, read_grid_table, uncertainty_levels
from calibkit.summaries.score_batches import Reading, rows_within, score_state
from calibkit.summaries.score_rows import ScoreRows, columns_beside, read_score_rows, resolve
from calibkit.summaries.score_summary import rows_of_state
from calibkit.summaries.states import Plan, State, finished, options_of, recorded

#: The options of columns that rows are dealt or set apart by.
FOLLOWED: Final = ("groups", "time", "by")


class Inputs(Struct):
    """The rows of a run (or a grid of their counts), and those that judge it, if there are any.

    Where they are of a state there is no `source`.
    """

    data: ScoreRows | GridTable
    test: ScoreRows | None = None
    source: Source | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user has to be told of the rows."""
        of_test = self.test.warnings if self.test is not None else ()
        return (*self.data.warnings, *(f"--test: {remark}" for remark in of_test))

    @property
    def details(self) -> tuple[str, ...]:
        """What is said of the rows to those who ask for more."""
        return self.data.details

    def take(self) -> ScoreRows | GridTable:
        """Return the data and forget the rows, which can go once they are counted."""
        data = self.data
        if isinstance(data, ScoreRows):
            self.data = data.only(np.empty(0, np.int64))
        return data


def inputs(options: BoundaryOptions, source: Source) -> Inputs:
    """Read the rows of a run, and those that judge it."""
    data = read_boundary_rows(options, source)
    test = read_test_rows(options, data, source.dialect.dtype)
    if test is not None and isinstance(data, ScoreRows):
        names = data.options.roles
        makers_in(test.source, names, makers_in(source, names, _makers(options)), "the input")
    return Inputs(data, test, source)


def fit(options: BoundaryOptions, source: Source) -> FittedBoundary:
    """Return the model of all rows."""
    return _told(options, inputs(options, source))


def plan(options: BoundaryOptions, source: Source) -> Plan:
    """Return what `fit` would do; the rows are read, because the levels depend on them."""
    data = read_boundary_rows(options, source)
    columns = {name: name for name in ("count", "positives")}
    if isinstance(data, ScoreRows):
        columns = data.options.roles | _beside(options, source)
    if options.confidence is not None:
        from calibkit.methods.boundary.certificate.certificate import certificate_steps

        return Plan(columns, certificate_steps(options, data))
    auto = options.method == AUTO
    plans = candidates(data, options) if auto else [resolved(options, data)]
    steps = [planned.text for planned in plans]
    if options.folds:
        steps.append(f"cross-validate it in {options.folds} folds")
    if auto and len(plans) > 1:
        steps.append("keep the simplest that is as good as the best there")
    if options.auto_levels and not auto:
        tried = ", ".join(map(str, EVERY_LEVELS))
        steps.append(f"do so with {tried} levels, and keep what cross-validation favours")
    return Plan(columns, steps)


def state(options: BoundaryOptions, source: Source) -> State:
    """Return the state of the rows of a shard; rows that would judge the fit have no place in it."""
    if is_grid_table(source):
        raise UsageError("a grid is a summary already; --partial takes rows.")
    said, reading = {"asked": plain(options, "test", "calibrator")}, _reading(options, source)
    return score_state("boundary", source, reading, options, said, _makers(options))


def finish(state: State, memory: Memory, threads: int) -> FittedBoundary:
    """Return the model of the rows of a merged state."""
    options = options_of(state, BoundaryOptions, threads)
    rows = _placed(rows_of_state(state, memory, options.needs_each), options)
    return finished(_told(options, Inputs(rows)), state)


def _makers(options: BoundaryOptions) -> dict[str, str]:
    """Return the hash of the model that made the scores, if the user names it."""
    maker: Any = options.calibrator
    return {} if maker is None else {"score": model_hash(maker)}


def _told(options: BoundaryOptions, read: Inputs) -> FittedBoundary:
    """Return the fit, with what is to be said of its rows."""
    details = read.details
    fitted = fit_inputs(options, read)
    return replace(
        fitted,
        warnings=(*read.warnings, *fitted.warnings),
        notes=(*read.data.notes, *fitted.notes),
        details=details,
    )


def fit_inputs(options: BoundaryOptions, read: Inputs) -> FittedBoundary:
    """Return the fit of rows that were read, with what is to be said of it alone."""
    rows = read.data.rows if isinstance(read.data, ScoreRows) else 0
    notes: tuple[str, ...] = ()
    if options.confidence is not None:
        from calibkit.methods.boundary.certificate.certificate import certify_boundary

        fitted = certify_boundary(read.data, options)
    elif options.by is not None:
        from calibkit.methods.boundary.segments import fit_segments

        fitted = fit_segments(read.data, options)
    else:
        fitted = fit_rows(read.take(), options)
        if fitted.summary is not None and options.auto_levels and options.method != AUTO:
            chosen = fitted.summary.planned.kept_levels
            notes = (
                f"{chosen} uncertainty level{'s' if chosen > 1 else ''} chosen by cross-validation "
                f"among {', '.join(map(str, EVERY_LEVELS))}.",
            )
    odd: list[str] = []
    data = read.data
    if isinstance(data, ScoreRows):
        single = None if fitted.summary is None else fitted.summary.single
        if single is None:
            single = count_over(data, uncertainty_levels(data, 1), options.workers)
        counted = single.score, single.count, single.positive
        odd = of_tally(data.options.score, data.options.scale, *counted, rows)
    fitted = delivered(fitted, options, read.test)
    if read.source is not None:
        recorded(fitted, read.source, _makers(options))
    return replace(fitted, warnings=(*odd, *fitted.warnings), notes=notes)


def read_boundary_rows(options: BoundaryOptions, source: Source) -> ScoreRows | GridTable:
    """Return the rows of a fit, as they are or counted, or the grid that a table of ``bin`` holds."""
    if is_grid_table(source):
        if options.several:
            raise UsageError("a grid has one uncertainty: several need the rows.")
        return read_grid_table(source, options.columns)
    # The numbers of levels that may be tried, whose edges must stay what they are.
    levels = {QUANTILES}
    if options.levels is not None:
        levels.add(options.levels)
    elif options.method == AUTO:
        levels |= {*EVERY_LEVELS, METHODS["logistic"].levels}
    elif options.auto_levels:
        levels |= {*EVERY_LEVELS}
    elif options.method in METHODS:
        levels.add(METHODS[options.method].levels)
    reading = _reading(options, source, tuple(sorted(levels)))
    return _placed(rows_within(source, reading, source.memory), options)


def _placed(rows: ScoreRows, options: BoundaryOptions) -> ScoreRows:
    """Return rows with the edges that are given, or in cells of several uncertainties."""
    if options.several and options.confidence is None:
        return in_cells(rows, options.several)
    return replace(rows, level_edges=options.edges or None)


def read_test_rows(
    options: BoundaryOptions, data: ScoreRows | GridTable, dtype: str
) -> ScoreRows | None:
    """Return the rows that judge a boundary, read as those it is fitted on; None where there are none.

    `options`, `data`: of the fit; `dtype`: what numbers of a text file become if a grid does not say
    it.
    """
    if options.test is None:
        return None
    if isinstance(data, ScoreRows):
        columns = data.options
        dialect = replace(data.source.dialect, dtype=str(data.score.dtype))
    else:
        own, columns = data.columns, options.columns
        score, label, uncertainty = own["score"], own["label"], own.get("uncertainty")
        columns = dataclasses.replace(
            columns,
            score=score.name,
            scale=cast(Any, score.scale or columns.scale),
            label=label.name,
            positive=label.positive or columns.positive,
            uncertainty=uncertainty.name if uncertainty and data.grid.shape[0] > 1 else None,
        )
        dialect = Dialect(dtype=score.dtype or dtype)
    source = open_frame(options.test, "test", dialect=dialect)
    judged = dataclasses.replace(options, groups=None, max_group_rows=None, time=None)
    others = list(_beside(judged, source).values())
    return read_score_rows(source, columns, others=others, uncertainty=not options.several)


def _reading(options: BoundaryOptions, source: Source, levels: tuple[int, ...] = ()) -> Reading:
    roles = resolve(source, options.columns, label=True, uncertainty=not options.several).roles
    return Reading(
        columns=roles | _beside(options, source),
        read=partial(_read, options),
        levels=levels,
        strategy=options.strategy,
        edges=options.edges,
        needs_each=options.needs_each,
        threads=options.workers,
    )


def _beside(options: BoundaryOptions, source: Source) -> dict[str, str]:
    """Return the columns that are read beside those of `resolve`, by role."""
    target, several = options.target, options.several
    found = target.value_columns
    option = f"--{target.option}" if target.value_column is None else "--value"
    source.require([*found.values()], option)
    taken = {options.score: "--score", options.label: "--label"}
    found |= columns_beside(source, options, *FOLLOWED, taken=taken)
    roles = options.columns.roles if several else {}
    for role, name in zip(roles_of(several), several, strict=True):
        if name in {*found.values(), *roles.values()}:
            raise UsageError(
                f"column {name!r} has two roles; name another --uncertainty.", column=name
            )
        source.require([name], "--uncertainty")
        found[role] = name
    return found


def _read(options: BoundaryOptions, source: Source) -> ScoreRows:
    beside, several = _beside(options, source), options.several
    others = list(dict.fromkeys(beside.values()))
    rows = read_score_rows(source, options.columns, others=others, uncertainty=not several)
    if source.whole:
        return rows
    # What a fit would refuse later, when a row no longer knows its place.
    for name in options.target.value_columns.values():
        amounts_of(rows.other(name), rows.finder, "values" if options.target.bound else "costs")
    uncertainties(rows, several)
    rows.refuse_absent({role: beside[role] for role in FOLLOWED if role in beside})
    return rows
