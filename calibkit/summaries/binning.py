"""Quantile and equal-width bins, and the grid of uncertainty levels by score bins; also from a table.

A bin is a pure function of the value: the number of edges at or below it.  Equal values never fall
in different bins.  (Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve
classifier performance, sections 5.2 and C.8.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers, UInt16s, rows_by_group
from calibkit.columns.rows import RowFinder, numeric_column
from calibkit.columns.weights import Unit, in_units
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.models.model import Column, canonical_text, column_descriptions
from calibkit.numerics.hashes import data_hash
from calibkit.options.bin import Order
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.edges import (
    assign,
    edges_by,
    equal_width_edges,
    extremes,
    level_edges,
    quantile_edges,
)
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels import tally as kernels
from calibkit_kernels.maps import LEAST, logit

#: A level and a score bin are kept in 16 bits.
MOST_LEVELS = 65_535
#: Cells a grid may have.
MOST_CELLS = 50_000_000
#: The columns by which a table is recognised as a grid.
GRID_COLUMNS = (
    *("uncertainty_bin", "score_bin", "uncertainty_low", "uncertainty_high", "score_low"),
    *("score_high", "count", "positives", "uncertainty_min", "score_min"),
)


class Levels(Struct, frozen=True):
    """The uncertainty levels of a boundary or a grid."""

    minimum: float  # smaller values count as this one; -inf where rows have no uncertainty
    edges: Floats  # the inner ones, one fewer than there are levels, non-decreasing

    @property
    def count(self) -> int:
        """How many levels there are."""
        return int(self.edges.size) + 1

    def of(self, uncertainty: Numbers | None, rows: int) -> UInt16s:
        """Return the level of each row; all rows are in level 0 where there is only one."""
        if uncertainty is None or self.count == 1:
            return np.zeros(rows, np.uint16)
        return assign(uncertainty, self.minimum, self.edges)


def uncertainty_levels(rows: ScoreRows, levels: int, strategy: str = "equal-mass") -> Levels:
    """Return the uncertainty levels fitted on rows; rows without uncertainty have one level."""
    return several_levels(rows, (levels,), strategy)[0]


def several_levels(
    rows: ScoreRows, several: Sequence[int], strategy: str = "equal-mass"
) -> list[Levels]:
    """Return what `uncertainty_levels` does, for several numbers of levels."""
    if rows.uncertainty is None:
        return [Levels(-np.inf, np.empty(0))] * len(several)
    if rows.level_edges is None:
        cut = edges_by(strategy, rows.uncertainty, several, rows.weight)
        return [Levels(*own) for own in cut]
    low, given = extremes(rows.uncertainty, rows.weight)[0], np.array(rows.level_edges)
    return [Levels(low, given if levels > 1 else np.empty(0)) for levels in several]


def check_bins(uncertainty_bins: int, score_bins: int, *, has_uncertainty: bool) -> None:
    """Raise `UsageError` where a grid would be impossible or absurd."""
    most = MOST_LEVELS
    if max(uncertainty_bins, score_bins) > most or uncertainty_bins * score_bins > MOST_CELLS:
        raise UsageError(
            f"{uncertainty_bins} x {score_bins} bins are too many; at most {most:,} each way and "
            f"{MOST_CELLS:,} cells."
        )
    if uncertainty_bins > 1 and not has_uncertainty:
        raise UsageError(
            f"--uncertainty-bins {uncertainty_bins} needs an uncertainty column; name one by "
            "--uncertainty."
        )


class Grid(Struct, frozen=True):
    """Counts over uncertainty bins (rows) and score bins (columns), 0 = lowest.

    One axis is binned first (the outer one, named first in `order`), the other within each of its
    bins.  Edges and minima have one row per outer bin, or a single row that all of them share; rows
    of an outer bin that was empty hold NaN.

    """

    total: Int64s  # [K, L], in units of `unit`
    positive: Int64s
    score_sum: Floats  # [K, L], each score counted as often as its weight in units
    order: Order
    uncertainty_edges: Floats  # inner ones
    score_edges: Floats
    uncertainty_min: Floats  # values below count as these
    score_min: Floats
    unit: Unit

    @property
    def shape(self) -> tuple[int, int]:
        """Uncertainty bins and score bins."""
        return self.total.shape[0], self.total.shape[1]

    @property
    def levels(self) -> Levels | None:
        """The uncertainty levels; None where they depend on the score bin."""
        if self.order == "score-uncertainty":
            return None
        return Levels(float(self.uncertainty_min[0]), self.uncertainty_edges[0])

    def as_tally(self) -> Tally:
        """Return the grid as a tally whose scores are the numbers of the columns."""
        level, column = np.nonzero(self.total)
        order = np.lexsort((level, -column))
        level, column = level[order], column[order]
        score, rows = column.astype(np.float64), self.total[level, column]
        hits = self.positive[level, column]
        return Tally(score, level.astype(np.uint16), rows, hits, self.shape[0], self.unit)


def fit_grid(
    rows: ScoreRows,
    uncertainty_bins: int,
    score_bins: int,
    *,
    strategy: str = "equal-mass",
    order: Order = "uncertainty-score",
    threads: int = 1,
) -> Grid:
    """Return the grid of rows; those of several uncertainty bins have uncertainties.

    `strategy`: ``equal-mass`` (quantile bins, the paper's equi-weight), ``equal-width`` (equi-span), or
    ``equal-odds``: levels of equal mass with bins of probabilities that are equally wide in log-odds,
    from a millionth inside (0, 1); `order`: which axis is binned first, for bins of equal mass.  Raises
    `UsageError` for impossible numbers of bins, `DataError` for equal-width bins of infinite scores.
    """
    check_bins(uncertainty_bins, score_bins, has_uncertainty=rows.uncertainty is not None)
    if strategy == "equal-mass" and order == "score-uncertainty":
        return _score_first_grid(rows, uncertainty_bins, score_bins, threads)
    levels = uncertainty_levels(rows, uncertainty_bins, strategy)
    tally = _tally(rows, levels.of(rows.uncertainty, rows.score.size), uncertainty_bins, threads)
    if strategy != "equal-mass":
        low, high = _finite_extremes(rows)
        inner = equal_width_edges(low, high, score_bins)
        if strategy == "equal-odds":
            least, most = (logit(min(max(end, LEAST), 1.0 - LEAST)) for end in (low, high))
            inner = 1.0 / (1.0 + np.exp(-equal_width_edges(least, most, score_bins)))
        both = levels.edges, inner
        return _filled(tally, "uncertainty-score", both, (levels.minimum, low))
    totals = tally.level_totals[:, 1]
    edges = level_edges(tally.score, tally.level, tally.count, totals, score_bins)
    lowest = np.full(uncertainty_bins, np.nan)
    lowest[tally.level] = tally.score  # scores fall along the tally: the last one stays
    return _filled(tally, order, (levels.edges, edges), (levels.minimum, lowest))


def _tally(rows: ScoreRows, level: UInt16s, levels: int, threads: int) -> Tally:
    weight = rows.weight
    return count_rows(rows.score, level, rows.labels, levels, weight=weight, threads=threads)


def _filled(
    tally: Tally,
    order: Order,
    edges: tuple[Floats, Floats],
    least: tuple[float | Floats, float | Floats],
) -> Grid:
    """Return the grid of a tally; edges and minima are of uncertainties, then of scores."""
    (spread, score), (low, lowest) = map(np.atleast_2d, edges), map(np.atleast_1d, least)
    within = np.broadcast_to(score, (tally.levels, score.shape[1]))
    total, positive, score_sum = kernels.fill_grid(
        tally.score, tally.level, tally.count, tally.positive, np.ascontiguousarray(within)
    )
    return Grid(total, positive, score_sum, order, spread, score, low, lowest, tally.unit)


def _finite_extremes(rows: ScoreRows) -> tuple[float, float]:
    """Return the least and the greatest score; refuse infinite ones of rows that weigh something."""
    low, high = extremes(rows.score, rows.weight)
    if not (np.isfinite(low) and np.isfinite(high)):
        infinite = np.isinf(rows.score) & (True if rows.weight is None else rows.weight > 0)
        column, advice = pl.Series(rows.options.score, rows.score), "use --strategy equal-mass"
        rows.finder.refuse(column, infinite, "infinite", f"{advice}, or correct them")
    return low, high


def _score_first_grid(
    rows: ScoreRows, uncertainty_bins: int, score_bins: int, threads: int
) -> Grid:
    score_min, score_edges = quantile_edges(rows.score, score_bins, rows.weight)
    column = assign(rows.score, score_min, score_edges)
    uncertainty = rows.uncertainty
    edges = np.full((score_bins, uncertainty_bins - 1), np.nan)
    minimum = np.full(score_bins, np.nan)
    for j, own in enumerate(rows_by_group(column, score_bins)):
        weight = None if rows.weight is None else rows.weight[own]
        if own.size == 0 or (weight is not None and not weight.any()):
            continue
        if uncertainty is None:
            minimum[j] = -np.inf
            continue
        minimum[j], edges[j] = quantile_edges(uncertainty[own], uncertainty_bins, weight)
    level = bins_within(uncertainty, column, minimum, edges)
    tally = _tally(rows, level, uncertainty_bins, threads)
    return _filled(tally, "score-uncertainty", (edges, score_edges), (minimum, score_min))


def _limits(edges: Floats, minimum: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper limits of all bins; NaN where the outer bin was empty."""
    ends = ((0.0, 0.0), (-np.inf, np.inf))
    limits = np.pad(edges, ((0, 0), (1, 1)), constant_values=ends)
    if minimum.size == edges.shape[0]:
        limits[np.isnan(minimum)] = np.nan
    return limits[:, :-1], limits[:, 1:]


def grid_levels(grid: Grid, score: Numbers, uncertainty: Numbers | None) -> UInt16s:
    """Return the uncertainty bin of each row: where scores were binned first, that of its score bin."""
    if grid.levels is not None:
        return grid.levels.of(uncertainty, score.size)
    column = assign(score, float(grid.score_min[0]), grid.score_edges[0])
    return bins_within(uncertainty, column, grid.uncertainty_min, grid.uncertainty_edges)


def bins_within(
    values: Numbers | None, outer: UInt16s, minimum: Floats, edges: Sequence[Floats] | Floats
) -> UInt16s:
    """Return the bin of each value by minimum and edges of its outer bin.

    It is 0 without values, and in an outer bin whose minimum is NaN, for it was empty.
    """
    found = np.zeros(outer.size, np.uint16)
    if values is None:
        return found
    for place in np.flatnonzero(~np.isnan(minimum)).tolist():
        rows = np.flatnonzero(outer == place)
        found[rows] = assign(values[rows], minimum[place], np.ascontiguousarray(edges[place]))
    return found


def grid_frame(grid: Grid) -> pl.DataFrame:
    """Return the grid as a table with one row a cell, by uncertainty bin, then score bin.

    Limits are ``[low, high)``, the outermost -inf and inf; null in an outer bin that was empty, as
    are positivity and mean score of an empty cell, and a mean score over infinite scores.  Counts
    are sums of weights where there are weights.
    """
    shape = grid.shape
    score_low, score_high = _limits(grid.score_edges, grid.score_min)
    uncertainty_low, uncertainty_high = _limits(grid.uncertainty_edges, grid.uncertainty_min)
    level, column = np.indices(shape, np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        positivity = grid.positive / grid.total
        mean_score = grid.score_sum / grid.total
    mean_score[np.isinf(mean_score)] = np.nan

    def spread(values: Numbers) -> pl.Series:
        return pl.Series(np.broadcast_to(values, shape).ravel(), nan_to_null=True)

    return pl.DataFrame(
        {
            "uncertainty_bin": spread(level),
            "score_bin": spread(column),
            "uncertainty_low": spread(uncertainty_low.T),
            "uncertainty_high": spread(uncertainty_high.T),
            "score_low": spread(score_low),
            "score_high": spread(score_high),
            "count": spread(grid.unit.amounts(grid.total)),
            "positives": spread(grid.unit.amounts(grid.positive)),
            "positivity": spread(positivity),
            "mean_score": spread(mean_score),
            "uncertainty_min": spread(
                np.where(np.isinf(grid.uncertainty_min), np.nan, grid.uncertainty_min)[None, :]
            ),
            "score_min": spread(grid.score_min[:, None]),
        }
    )


def grid_columns(rows: ScoreRows) -> dict[str, Column]:
    """Return the columns of score and uncertainty with the dtypes in which they are compared."""
    names = rows.options
    columns = {"score": Column(names.score, str(rows.score.dtype), names.scale)}
    if rows.uncertainty is not None and names.uncertainty is not None:
        columns["uncertainty"] = Column(names.uncertainty, str(rows.uncertainty.dtype))
    return columns


def grid_metadata(grid: Grid, rows: ScoreRows, strategy: str) -> dict[str, str]:
    """Return what a file of the grid should say of itself: how values are binned, which columns.

    The entry ``calibkit`` is a JSON object; `uncertainty_min` and `score_min` stand beside it.
    """
    label = Column(rows.options.label, positive=rows.options.positive)
    columns = grid_columns(rows) | {"label": label}
    about: dict[str, object] = {"columns": columns, "order": grid.order, "strategy": strategy}
    about |= {} if rows.resolution is None else {"resolution": rows.resolution}

    def values(array: Floats) -> str:
        return canonical_text([float(value) if np.isfinite(value) else None for value in array])

    return {
        "calibkit": canonical_text(about),
        "uncertainty_min": values(grid.uncertainty_min),
        "score_min": values(grid.score_min),
    }


class GridTable(Struct, frozen=True):
    """A grid that was read from a table."""

    grid: Grid
    columns: dict[str, Column]  # of score and uncertainty, from which it was made
    fingerprint: str  # a hash of its cells
    source: Source
    #: What rows have to be told.
    warnings: ClassVar[tuple[str, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()
    details: ClassVar[tuple[str, ...]] = ()


def is_grid_table(source: Source) -> bool:
    """Return whether the inputs are a table that ``bin`` wrote."""
    return all(name in source.schema for name in GRID_COLUMNS)


def read_grid_table(source: Source, options: ColumnOptions) -> GridTable:
    """Read a grid back from its table.

    `source`: a table with the columns `GRID_COLUMNS`; `options`: the names of the score and
    uncertainty columns the boundary will read, unless the file itself says what the grid was made
    from.
    """
    if options.weight is not None:
        raise UsageError(
            f"--weight {options.weight}: the grid's counts are weighted already, or never will be; "
            "leave it out.",
            column=options.weight,
        )
    read = source.read(list(GRID_COLUMNS))
    frame = read.cast(pl.Float64, strict=False)
    for column, own in zip(frame, read, strict=True):
        if column.null_count() > own.null_count():
            raise _broken(source, f"column {column.name!r} holds text")
    columns = _columns(source, options)
    ends = frame.select("score_low", "score_high", "score_min").to_numpy()
    beyond = np.isfinite(ends) & (ends != ends.clip(0.0, 1.0))
    if columns["score"].measure == "probability" and beyond.any():
        problem = "has scores outside [0, 1], and does not say their scale: name it by --scale"
        raise DataError.of(source.file, problem)
    frame = frame.sort("uncertainty_bin", "score_bin")
    levels, bins = _shape(frame, source)
    where = RowFinder(source)
    counts = np.concatenate(
        [numeric_column(frame[name], where, low=0.0) for name in ("count", "positives")]
    )
    if not counts.any():
        raise _broken(source, "all cells are empty")
    units, unit = in_units(counts)
    total, positive = units.reshape(2, levels, bins)
    if (positive > total).any():
        raise _broken(source, "a cell has more positives than rows")
    filled = frame.fill_null(np.nan)
    fingerprint = data_hash({name: filled[name].to_numpy() for name in GRID_COLUMNS})
    grid = _grid(filled, total, positive, unit)
    return GridTable(grid, columns, fingerprint, source)


def _grid(frame: pl.DataFrame, total: Int64s, positive: Int64s, unit: Unit) -> Grid:
    """Put the edges and minima of a table together: one row an outer bin, or one for all."""

    def matrix(name: str) -> Numbers:
        return np.array(frame[name].to_numpy()).reshape(total.shape)

    uncertainty_edges, uncertainty_min = matrix("uncertainty_high")[:-1], matrix("uncertainty_min")
    score_edges, score_min = matrix("score_high")[:, :-1], matrix("score_min")
    score_first = _varies(uncertainty_edges, 1) or _varies(uncertainty_min, 1)
    shared = not _varies(score_edges, 0) and not _varies(score_min, 0)
    columns, levels = slice(None if score_first else 1), slice(1 if shared else None)
    lowest = uncertainty_min[0, columns]
    if total.shape[0] == 1:
        lowest = np.where(np.isnan(lowest), -np.inf, lowest)
    order: Order = "score-uncertainty" if score_first else "uncertainty-score"
    spread = np.ascontiguousarray(uncertainty_edges.T[columns])
    edges, least = np.ascontiguousarray(score_edges[levels]), score_min[levels, 0]
    sums = np.zeros(total.shape)
    return Grid(total, positive, sums, order, spread, edges, lowest, least, unit)


def _varies(values: Numbers, axis: int) -> bool:
    """Return whether values differ along an axis, as those that are undefined do from others."""
    first = np.broadcast_to(values.take([0], axis), values.shape)
    return not np.array_equal(values, first, equal_nan=True)


def _shape(frame: pl.DataFrame, source: Source) -> tuple[int, int]:
    """Return the numbers of bins of a complete grid, sorted by cell."""
    places = frame.select("uncertainty_bin", "score_bin").fill_null(np.nan).to_numpy()
    if not np.isfinite(places).all():
        raise _broken(source, "a bin has no number")
    levels, bins = (int(last) + 1 for last in places.max(axis=0))
    complete = levels * bins == frame.height
    if not complete or not np.array_equal(places, np.argwhere(np.ones((levels, bins)))):
        raise _broken(
            source, f"{levels} x {bins} cells need a row each, but there are {frame.height} rows"
        )
    return levels, bins


def _columns(source: Source, options: ColumnOptions) -> dict[str, Column]:
    about = source.metadata().get("calibkit")
    if about is not None:
        try:
            columns = column_descriptions(about)
            _check_same(source, options, columns)
            return columns
        except ModelError:
            raise _broken(source, "its metadata entry 'calibkit' is damaged") from None
    # What does not say of what type its rows were is as its edges were read, see `--dtype`.
    score, uncertainty = (
        "float32" if source.schema[name] == pl.Float32 else "float64"
        for name in ("score_high", "uncertainty_high")
    )
    return {
        "score": Column(options.score, dtype=score, scale=options.scale),
        "label": Column(options.label, positive=options.positive),
        "uncertainty": Column(options.uncertainty or "uncertainty", dtype=uncertainty),
    }


def _check_same(source: Source, options: ColumnOptions, columns: dict[str, Column]) -> None:
    """Refuse column options that contradict what the grid was made from."""
    unset = ColumnOptions()
    made = {role: one.name for role, one in columns.items()}
    if "score" in columns and columns["score"].scale is not None:
        made["scale"] = columns["score"].scale
    for role in ("score", "label", "uncertainty", *made.keys() & {"scale"}):
        asked = getattr(options, role)
        if asked not in (getattr(unset, role), made.get(role)):
            own = repr(made[role]) if role in made else "no such column"
            raise UsageError(
                f"{source.file}: the grid was made from {own}, not from --{role} {asked}; "
                "leave the option out, or make the grid again.",
                column=asked,
            )


def _broken(source: Source, problem: str) -> DataError:
    found = f"looks like a grid of `calibkit bin`, but {problem}; make it again"
    return DataError.of(source.file, found)
