"""A fit from its inputs to its model: which rows to read, what to choose, what to fit.

`read_boundary_rows` reads them, `count` counts them as often as the specification needs, `fit` fits
what was counted.  The three are apart so that rows, which may be many, can go before the fit.
"""

from __future__ import annotations

from dataclasses import replace

from calibkit.bins.binning import uncertainty_levels
from calibkit.bins.grid_table import GridTable, is_grid_table, read_grid_table
from calibkit.boundary.auto import Choice, choose_method, fit_choice
from calibkit.boundary.certificate import certify_boundary
from calibkit.boundary.choose import choose_levels
from calibkit.boundary.fit import Fitted, delivered, fit_summary
from calibkit.boundary.problem import raw_problem
from calibkit.boundary.reading import BoundaryReader, worth_columns
from calibkit.boundary.segmented import fit_segments
from calibkit.boundary.spec import AUTO, BoundarySpec
from calibkit.boundary.summary import Summary, summarise
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, ScoreRows, read_score_rows
from calibkit.rows.remarks import of_tally

#: What a boundary is fitted on: counted once, or for several methods, or later for each segment.
Counted = Summary | Choice | ScoreRows | GridTable


def read_boundary_rows(
    source: Source,
    columns: ColumnOptions,
    spec: BoundarySpec,
    *,
    auto_levels: bool = False,
    edges: tuple[float, ...] = (),
    memory: Memory | None = None,
) -> ScoreRows | GridTable:
    """Return the rows of a fit, or the grid that a table of ``bin`` holds.

    The parameters are those of `calibkit.boundary.reading.BoundaryReader`.

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
        return read_grid_table(source, columns)
    reader = BoundaryReader(
        spec=spec, columns=columns, auto_levels=auto_levels, edges=edges, memory=memory
    )
    return reader.rows(source)


def columns_to_judge(
    data: ScoreRows | GridTable, columns: ColumnOptions, dtype: str
) -> tuple[ColumnOptions, str]:
    """Return how rows are read that judge the fit on `data`: its columns, and their type."""
    if isinstance(data, ScoreRows):
        return data.options, str(data.score.dtype)
    score, uncertainty = data.columns["score"], data.columns.get("uncertainty")
    name = uncertainty.name if uncertainty and data.grid.shape[0] > 1 else None
    return replace(columns, score=score.name, uncertainty=name), score.dtype or dtype


def read_test_rows(source: Source, columns: ColumnOptions, spec: BoundarySpec) -> ScoreRows:
    """Return the rows that judge a boundary; else as `read_boundary_rows`.

    `columns` are those of the fit, see `columns_to_judge`.
    """
    beside = worth_columns(source, spec.target)
    if spec.by is not None and spec.by not in beside:
        source.require([spec.by], "--by")
        beside.append(spec.by)
    return read_score_rows(source, columns, others=beside)


def count(data: ScoreRows | GridTable, spec: BoundarySpec, *, auto_levels: bool = False) -> Counted:
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
    if spec.by is not None or spec.confidence is not None:
        return data
    if spec.method == AUTO:
        return choose_method(data, spec)
    if not auto_levels:
        return summarise(data, spec)
    if isinstance(data, GridTable):
        raise UsageError("a grid has its levels; leave --uncertainty-bins auto out.")
    return choose_levels(data, spec)


def fit(
    counted: Counted,
    spec: BoundarySpec,
    *,
    auto_levels: bool = False,
    test: ScoreRows | None = None,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> Fitted:
    """Fit a boundary on what `count` returned; see `calibkit.boundary.fit.fit_boundary`."""
    said = _remarks(counted, spec)
    fitted = delivered(_fit(counted, spec, auto_levels), spec.target, test, provenance, tags)
    return replace(fitted, warnings=(*said, *fitted.warnings))


def _fit(counted: Counted, spec: BoundarySpec, auto_levels: bool) -> Fitted:
    if isinstance(counted, Summary):
        return fit_summary(counted)
    if isinstance(counted, Choice):
        return fit_choice(counted)
    if spec.confidence is not None:
        return certify_boundary(counted, spec)
    return fit_segments(counted, spec, auto_levels=auto_levels)


def _remarks(counted: Counted, spec: BoundarySpec) -> list[str]:
    """Return what is odd about the scores; of a grid, which has lost them, nothing."""
    if isinstance(counted, GridTable):
        return []
    if isinstance(counted, ScoreRows):
        tally = raw_problem(counted, uncertainty_levels(counted, 1), spec.threads).tally
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


def check_auto_levels(spec: BoundarySpec) -> None:
    """Refuse a number of levels to be chosen where nothing can choose it.

    Raises
    ------
    UsageError
        No folds, or a certificate of one method.
    """
    if spec.folds == 0:
        raise UsageError("--uncertainty-bins auto is chosen by cross-validation: give it --folds.")
    if spec.confidence is not None and spec.method != AUTO:
        raise UsageError(
            "--uncertainty-bins auto chooses by cross-validation, which --confidence has none of."
        )
