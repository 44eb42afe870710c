"""The rows of a boundary: what its options read, checked, and counted where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from calibkit.bins.grid_table import GridTable, is_grid_table, read_grid_table
from calibkit.columns.columns import ScoreRows, read_score_rows, resolve
from calibkit.columns.numeric import numeric_column
from calibkit.columns.rows import refuse_missing
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError
from calibkit.files.frames import open_frame
from calibkit.files.sources import Source
from calibkit.methods.boundary.choice import EVERY_LEVELS
from calibkit.methods.boundary.choice import LEVELS as AUTO_LEVELS
from calibkit.methods.boundary.problem.cells import in_cells
from calibkit.methods.boundary.problem.values import amounts_of
from calibkit.methods.boundary.solvers.logistic import LEVELS as SURFACE_LEVELS
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.boundary.solvers.summary import QUANTILES
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.score_batches import Reading, rows_within, summarise_scores
from calibkit.summaries.score_states import rows_of_state
from calibkit.summaries.score_summary import ScoreSummary
from calibkit.summaries.states import State


def read_boundary_rows(options: BoundaryOptions, source: Source) -> ScoreRows | GridTable:
    """Return the rows of a fit, as they are or counted, or the grid that a table of ``bin`` holds.

    Raises
    ------
    UsageError
        A column is not there, or one column has two roles.
    DataError
        Values that are missing, out of range or of the wrong type.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    if is_grid_table(source):
        if options.several:
            raise UsageError("a grid has one uncertainty: several need the rows.")
        return read_grid_table(source, options.columns)
    rows = rows_within(source, _reading(options, source, _levels(options)), source.memory)
    return _placed(rows, options)


def _placed(rows: ScoreRows, options: BoundaryOptions) -> ScoreRows:
    """Return rows with the edges that are given, or in cells of several uncertainties."""
    if options.several:
        return in_cells(rows, options.several)
    return replace(rows, level_edges=options.edges or None)


def read_test_rows(
    options: BoundaryOptions, data: ScoreRows | GridTable, dtype: str
) -> ScoreRows | None:
    """Return the rows that judge a boundary, read as those it is fitted on; None where there are none.

    Parameters
    ----------
    options, data
        Of the fit.
    dtype
        What numbers of a text file become if a grid does not say it.
    """
    if options.test is None:
        return None
    if isinstance(data, ScoreRows):
        columns, dtype = data.options, str(data.score.dtype)
    else:
        score, uncertainty = data.columns["score"], data.columns.get("uncertainty")
        name = uncertainty.name if uncertainty and data.grid.shape[0] > 1 else None
        columns = replace(options.columns, score=score.name, uncertainty=name)
        dtype = score.dtype or dtype
    fitted_on = data.source if isinstance(data, ScoreRows) else None
    dialect = None if fitted_on is None else fitted_on.dialect
    source = open_frame(options.test, "test", dtype=dtype, dialect=dialect)
    others = _others(replace(options, groups=None, time=None), source)
    several = options.several
    rows = read_score_rows(source, columns, others=others, uncertainty=not several)
    fitted = data.cells if isinstance(data, ScoreRows) else None
    return in_cells(rows, several, fitted) if several else rows


def read_summary(options: BoundaryOptions, source: Source) -> ScoreSummary:
    """Return the rows as a summary that merges with those of other shards.

    Raises
    ------
    UsageError, DataError, ResourceError
        As `read_boundary_rows`, and for a grid.
    """
    if is_grid_table(source):
        raise UsageError("a grid is a summary already; --partial takes rows.")
    reading = _reading(options, source)
    return summarise_scores(source, reading, source.memory or memory_budget(None))


def merged_rows(options: BoundaryOptions, state: State, memory: Memory) -> ScoreRows:
    """Return the rows of a state.

    Raises
    ------
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    return _placed(rows_of_state(state, memory, _needs_each(options)), options)


def _reading(options: BoundaryOptions, source: Source, levels: tuple[int, ...] = ()) -> Reading:
    roles = resolve(source, options.columns, label=True, uncertainty=not options.several).roles
    return Reading(
        columns=[*roles.values(), *_others(options, source)],
        read=partial(_read, options),
        levels=levels,
        strategy=options.strategy,
        edges=options.edges,
        needs_each=_needs_each(options),
        threads=options.workers,
    )


def _needs_each(options: BoundaryOptions) -> str | None:
    """Return the option that needs every row as it is, if one does."""
    for option, given in (
        ("--groups", options.groups),
        ("--time", options.time),
        ("--by", options.by),
        ("--confidence", options.confidence),
        ("--uncertainty with several columns", options.several),
        ("--weight-kind sampling", options.sampled),
    ):
        if given:
            return option
    return options.target.worths or None


def _levels(options: BoundaryOptions) -> tuple[int, ...]:
    """Return the numbers of levels that may be tried, whose edges must stay what they are."""
    levels = [QUANTILES]
    if options.levels is not None:
        levels.append(options.levels)
    elif options.method == AUTO:
        levels += [*AUTO_LEVELS, SURFACE_LEVELS]
    elif options.auto_levels:
        levels += EVERY_LEVELS
    elif options.method in METHODS:
        levels.append(METHODS[options.method].levels)
    return tuple(sorted(set(levels)))


def _others(options: BoundaryOptions, source: Source) -> list[str]:
    """Return the columns that are read beside those of the roles."""
    target = options.target
    asked = dict.fromkeys(target.value_columns.values(), f"--{target.option}")
    if target.value_column is not None:
        asked[target.value_column] = "--value"
    for option in ("groups", "time", "by"):
        if (name := getattr(options, option)) is not None:
            asked.setdefault(name, f"--{option}")
    roles = resolve(source, options.columns, label=True, uncertainty=not options.several).roles
    for name in options.several:
        if name in asked or name in roles.values():
            raise UsageError(
                f"column {name!r} has two roles; name another --uncertainty.", column=name
            )
        asked[name] = "--uncertainty"
    for name, option in asked.items():
        source.require([name], option)
    source.as_dates([name for name in (options.time,) if name is not None])
    return list(asked)


def _read(options: BoundaryOptions, source: Source) -> ScoreRows:
    others, several = _others(options, source), options.several
    rows = read_score_rows(source, options.columns, others=others, uncertainty=not several)
    if source.whole or rows.others is None or rows.where is None:
        return rows
    # What a fit would refuse later, when a row no longer knows its place.
    for name in options.target.value_columns.values():
        amounts_of(rows.others[name], rows.where, "values" if options.target.bound else "costs")
    for name in several:
        numeric_column(rows.others[name], rows.where)
    for name in filter(None, (options.groups, options.time)):
        refuse_missing(rows.others[name], rows.where)
    if options.by is not None:
        read_segments(rows.others[options.by], rows.where)
    return rows
