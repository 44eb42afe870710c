"""What columns say of rows beside score and label: what they are worth, and in which cell they lie.

Rows are worth values that are caught, or costs that are saved.  Rows with several uncertainties lie in
a cell each, which takes the place of one uncertainty.  The distribution of a column in outline, for a
model to keep, is its quantiles, the rows between them and the largest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, Numbers, UInt8s, UInt16s, distinct_values
from calibkit.columns.rows import RowFinder, numeric_column
from calibkit.columns.segments import group_parts, time_parts
from calibkit.columns.weights import ROW, Unit, in_units
from calibkit.numerics.sums import exact_group_sums
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import Target
from calibkit.summaries import edges
from calibkit.summaries.score_rows import CellGrid, ScoreRows
from calibkit.summaries.tally import Tally

#: Largest amounts outside of these cannot be summed.
_LEAST, _MOST = 2.0**-900, 2.0**1000
#: Bins of each of so many columns: even numbers, so that a cut at the median is among them.
_BINS = {2: 8, 3: 6, 4: 4}
#: Rows, and rows of the rarer class, that a cell is to have on average.
_ROWS, _RARER = 60, 10
#: How many quantiles of the fitting data a model keeps.
QUANTILES = 20


class Values(Struct, frozen=True):
    """What each row adds when it is selected, in units.

    It is the value of a positive row, times its weight, and 0 for a negative one; with costs what a
    positive row costs if it is missed, and less what a negative one costs if it is selected.
    """

    gain: Int64s
    unit: Unit


def read_values(rows: ScoreRows, target: Target) -> Values | None:
    """Return what rows are worth for an objective; None where only their number counts."""
    if not target.value_columns:
        return None
    weight = np.ones(rows.score.size) if rows.weight is None else rows.weight
    hits = rows.labels == 1
    if target.value_column is not None:
        column = rows.other(target.value_column)
        amounts = np.where(hits, amounts_of(column, rows.finder, "values"), 0.0) * weight
        if hits.any() and not amounts.any():
            nothing = f"value {'' if rows.weight is None else 'or weight '}0 for every positive row"
            rows.finder.refuse(column, hits, nothing, "name a column with their values")
    else:
        column = rows.other(next(iter(target.value_columns.values())))
        alarm, miss = (
            amounts_of(rows.other(cost), rows.finder, "costs")
            if isinstance(cost, str)
            else float(cost)
            for cost in target.costs
        )
        amounts = np.where(hits, miss, alarm) * weight
        if not amounts.any():
            rows.finder.refuse(column, None, "no row costs anything", "name columns of costs")
    if not amounts.any():
        return Values(np.zeros(amounts.size, np.int64), ROW)
    largest = float(amounts.max())
    if not _LEAST < largest < _MOST / amounts.size:
        said = "amounts too large or too small to be summed"
        rows.finder.refuse(column, amounts == largest, said, "scale them; only their ratios matter")
    units, unit = in_units(amounts)
    return Values(np.where(hits, units, -units), unit)


def amounts_of(column: pl.Series, where: RowFinder, what: str) -> Floats:
    """Return amounts: finite, not negative."""
    found = numeric_column(column, where, low=0.0, advice=f"{what} cannot be negative")
    return found.astype(np.float64, copy=False)


def in_cells(rows: ScoreRows, names: tuple[str, ...], like: CellGrid | None = None) -> ScoreRows:
    """Return rows whose uncertainty is the number of their cell: of quantile bins, or of a grid `like`.

    There are fewer bins where cells would hold too few rows.
    """
    columns = [*uncertainties(rows, names).values()]
    grid = like
    if grid is None:
        count, positives = float(rows.rows), float(rows.positive_rows)
        if rows.weight is not None and not rows.options.sampled:
            negatives, positives = exact_group_sums(rows.weight, rows.labels, 2)
            count = negatives + positives
        bins = _BINS.get(len(names), 2)
        most_cells = min(count / _ROWS, min(positives, count - positives) / _RARER)
        while bins > 2 and bins ** len(names) > most_cells:
            bins -= 2
        quantiles = [edges.quantile_edges(values, bins, rows.weight) for values in columns]
        grid = CellGrid(
            names, tuple(distinct_values(inner[inner > low]) for low, inner in quantiles)
        )
    starts = tuple(float(cell) for cell in range(1, grid.cells))
    cell = grid.of(columns)
    return replace(rows, uncertainty=cell, cells=grid, level_edges=starts or None, notes=())


def roles_of(names: Sequence[str]) -> list[str]:
    """Return the role of each of several uncertainties."""
    return [f"uncertainty_{k}" if k > 1 else "uncertainty" for k in range(1, len(names) + 1)]


def uncertainties(rows: ScoreRows, names: Sequence[str]) -> dict[str, Numbers]:
    """Return the columns of several uncertainties by role, checked."""
    columns = (numeric_column(rows.other(name), rows.finder) for name in names)
    return dict(zip(roles_of(names), columns, strict=True))


def column_parts(rows: ScoreRows, options: BoundaryOptions, parts: int) -> UInt8s | None:
    """Return the part of each row where a column decides it: its group's, or by time; else None."""
    if options.groups is not None:
        return group_parts(rows.other(options.groups), parts, options.seed, rows.finder)
    if options.time is not None:
        return time_parts(rows.other(options.time), parts, rows.finder, rows.repeats)
    return None


# ---------------------------------------------------------------- columns in outline


class Quantiles(NamedTuple):
    """Where the values of a column lie."""

    #: The smallest value, then the inner edges of bins of equal mass; equal ones stay.
    quantiles: list[float]
    counts: list[int | float]  # rows (sums of weights) in the bins of `place_between`
    largest: float


def quantiles_of_rows(values: Numbers, weight: Floats | None) -> Quantiles:
    """Return the outline of a column of numbers; rows of weight 0 do not count."""
    units, unit = edges.NO_WEIGHT, ROW
    if weight is not None:
        units, unit = in_units(weight)
        values, units = edges.few_values(values, units)
    ((low, inner),) = edges.quantiles_in_units(values, units, (QUANTILES,))
    found = np.array([low, *inner])
    counts = edges.unit_sums(place_between(values, found), units, QUANTILES)
    largest = (values[units > 0] if units.size else values).max()
    amounts = [unit.amount(int(count)) for count in counts]
    return Quantiles(found.tolist(), amounts, float(largest) + 0.0)


def quantiles_of_tally(tally: Tally) -> Quantiles:
    """Return the outline of the scores of a tally."""
    found = edges.falling_quantiles(tally.score, tally.count, QUANTILES)
    rising = tally.score[::-1]
    borders = found.astype(rising.dtype)
    at, above = (np.searchsorted(rising, borders, side=side) for side in ("left", "right"))
    size = rising.size
    again = np.append(False, found[1:] == found[:-1])  # the quantile before is the same
    starts = np.where(again, above, at)
    ends = np.append(starts[1:], size)
    counts = [
        tally.unit.amount(int(tally.count[size - end : size - start].sum(dtype=np.int64)))
        for start, end in zip(starts, ends, strict=True)
    ]
    largest = tally.score[np.argmax(tally.count > 0)]  # entries fall; rows of weight 0 do not count
    return Quantiles(found.tolist(), counts, float(largest))


def place_between(values: Numbers, quantiles: Floats) -> UInt16s:
    """Return the bin of each value between quantiles, which rise or stay.

    Bin j reaches from quantile j up to the next, without it.  Where several quantiles are one value,
    which many rows then share, the bin of the first holds this value alone, that of the last what
    lies above it, and any between are empty.  Values below all quantiles count as the first.
    """
    place = edges.assign(values, float(quantiles[0]), quantiles[1:])
    first = np.searchsorted(quantiles, quantiles, side="left").astype(np.uint16)
    if (first == np.arange(first.size)).all():
        return place
    on = np.maximum(values, quantiles[0]) == quantiles[place]
    return np.where(on, first[place], place)
