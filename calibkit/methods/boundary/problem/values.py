"""What rows are worth: values that are caught, or costs that are saved, from columns of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.numeric import numeric_column
from calibkit.columns.rows import RowFinder
from calibkit.columns.weights import ROW, Unit, in_units
from calibkit.models.model import Column
from calibkit.options.objective import Target

Floats = NDArray[np.float64]

#: Largest amounts outside of these cannot be summed.
_LEAST, _MOST = 2.0**-900, 2.0**1000


@dataclass(frozen=True)
class Values:
    """What each row adds when it is selected, in units.

    Attributes
    ----------
    gain
        The value of a positive row, times its weight, and 0 for a negative one; with costs what a
        positive row costs if it is missed, and less what a negative one costs if it is selected.
    unit
        What a unit is worth.
    columns
        Where it comes from, by role: ``value``, or ``cost_fp`` and ``cost_fn``.
    """

    gain: NDArray[np.int64]
    unit: Unit
    columns: dict[str, Column]


def read_values(rows: ScoreRows, target: Target) -> Values | None:
    """Return what rows are worth for an objective; None where only their number counts.

    Raises
    ------
    DataError
        Missing, infinite or negative amounts; values of the positive rows that sum to zero, costs
        that are all zero.
    """
    columns = {role: Column(name) for role, name in target.value_columns.items()}
    if not columns:
        return None
    assert rows.label is not None and rows.others is not None and rows.where is not None
    weight = np.ones(rows.score.size) if rows.weight is None else rows.weight
    hits = rows.label == 1
    if target.value_column is not None:
        column = rows.others[target.value_column]
        amounts = np.where(hits, amounts_of(column, rows.where, "values"), 0.0) * weight
        if hits.any() and not amounts.any():
            rows.where.refuse(
                column, hits, "value 0 for every positive row", "name a column with their values"
            )
    else:
        column = rows.others[next(iter(columns.values())).name]
        assert target.costs is not None
        costs = [
            amounts_of(rows.others[cost], rows.where, "costs")
            if isinstance(cost, str)
            else np.full(rows.score.size, float(cost))
            for cost in target.costs
        ]
        amounts = np.where(hits, costs[1], costs[0]) * weight
        if not amounts.any():
            rows.where.refuse(column, None, "no row costs anything", "name columns of costs")
    if not amounts.any():
        return Values(np.zeros(amounts.size, np.int64), ROW, columns)
    largest = float(amounts.max())
    if not _LEAST < largest < _MOST / amounts.size:
        rows.where.refuse(
            column,
            amounts == largest,
            "amounts too large or too small to be summed",
            "scale them, their ratios alone count",
        )
    units, unit = in_units(amounts)
    return Values(np.where(hits, units, -units), unit, columns)


def amounts_of(column: pl.Series, where: RowFinder, what: str) -> Floats:
    """Return amounts: finite, not negative."""
    found = numeric_column(column, where, low=0.0, advice=f"{what} cannot be negative")
    return found.astype(np.float64, copy=False)
