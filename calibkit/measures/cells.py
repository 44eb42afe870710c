"""Calibration error over the cells of a grid: ECE@j (Arora et al., section C.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Numbers, UInt16s
from calibkit.errors import UsageError
from calibkit.measures.result import Number
from calibkit.measures.views import Sample, as_probabilities
from calibkit.numerics.distributions import critical_value, normal_quantile
from calibkit.options.metrics import Settings
from calibkit.summaries.binning import MOST_LEVELS, Grid, bins_within, grid_levels
from calibkit.summaries.tally import count_rows
from calibkit_kernels.tally import fill_grid


class Cells(Struct, frozen=True):
    """The cell of each row, level by level: ``cell = level * columns + column``."""

    cell: UInt16s
    levels: int
    columns: int


def place(grid: Grid, score: Numbers, uncertainty: Numbers | None) -> Cells:
    """Return the cells of rows in a grid fitted before.

    Raises `UsageError` for a grid with more cells than rows can be told apart in.
    """
    levels, columns = grid.shape
    if levels * columns > MOST_LEVELS:
        raise UsageError(
            f"--grid has {levels} x {columns} cells; ECE@j takes at most {MOST_LEVELS:,}."
        )
    level = grid_levels(grid, score, uncertainty)
    outer = level if grid.score_min.size > 1 else np.zeros_like(level)  # else all levels are alike
    column = bins_within(score, outer, grid.score_min, grid.score_edges)
    return Cells((level * np.uint16(columns) + column).astype(np.uint16), levels, columns)


def stretches(
    sample: Sample, cells: Cells, settings: Settings, confidence: float | None = None
) -> Iterator[tuple[str, int, Number, tuple[float | None, float | None]]]:
    """Yield ECE@j and cumulative ECE@j for every score bin j, with the ends of their intervals.

    ECE@j is the mean of |mean probability - mean label| in the cells of score bin j, one an uncertainty
    level, that have rows, None where there is none; the cumulative one takes all cells of score bins j
    and up.  Ends are None without a `confidence`.
    """
    gaps, variances = _gaps(sample, cells, settings)
    held = ~np.isnan(gaps)
    for j in range(cells.columns):
        for name, columns in (("ece_at", slice(j, j + 1)), ("cumulative_ece_at", slice(j, None))):
            known = held[:, columns]
            own = gaps[:, columns][known]
            ends = interval(own, variances[:, columns][known], confidence)
            yield name, j, math.fsum(own) / own.size if own.size else None, ends


def interval(
    gaps: Numbers, variances: Numbers, confidence: float | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of the mean of absolute gaps, (None, None) of no gaps.

    It is the range of the mean over all true gaps d that the cells do not rule out together, those
    with sum((gap - d)^2 / variance) up to the quantile of the chi-squared distribution: so it holds
    what noise adds to absolute gaps, and for several cells is wider than need be.

    `gaps`, `variances`: |mean probability - mean label| of each cell, and the variance of its mean
    label. `confidence`: how often such an interval holds the mean of the true gaps at least, about;
    None: none is wanted.
    """
    if confidence is None or not gaps.size:
        return None, None
    # The quantile: exact for one degree of freedom, else by the cube of Wilson and Hilferty.
    spread = 2.0 / (9.0 * gaps.size)
    most = gaps.size * (1.0 - spread + normal_quantile(confidence) * math.sqrt(spread)) ** 3
    most = critical_value(confidence) ** 2 if gaps.size == 1 else most
    high = (math.fsum(gaps) + math.sqrt(most * math.fsum(variances))) / gaps.size
    # The least mean: each gap is smaller by the same share of its variance, down to 0.
    order = np.argsort(gaps / variances, kind="stable")
    gaps, variances = gaps[order], variances[order]
    nil = np.cumsum([0.0, *(gaps**2 / variances)])  # what the gaps cost that have come down to 0
    if nil[-1] <= most:
        return 0.0, min(high, 1.0)
    share = np.sqrt(np.maximum(most - nil[:-1], 0.0) / np.cumsum(variances[::-1])[::-1])
    least = share[np.argmax(share <= gaps / variances)]
    low = math.fsum(np.maximum(gaps - least * variances, 0.0)) / gaps.size
    return low, min(high, 1.0)


def _gaps(sample: Sample, cells: Cells, settings: Settings) -> tuple[Floats, Floats]:
    """Return |mean probability - mean label| of each cell, NaN where it has no row.

    And the variance of the mean label; its share is that of two more rows of each class (Agresti and
    Coull), so that it is never 0.
    """
    size = cells.levels * cells.columns
    gaps, variances = np.full(size, np.nan), np.full(size, np.nan)
    weight, score = sample.weight, as_probabilities(sample.score, settings.scale)
    if score is not None and score.size and (weight is None or weight.any()):
        tally = count_rows(
            score, cells.cell, sample.label, size, weight=weight, threads=settings.threads
        )
        one_bin = np.empty((size, 0))
        count, positive, mass = (
            column.ravel()
            for column in fill_grid(tally.score, tally.level, tally.count, tally.positive, one_bin)
        )
        held = count > 0
        gaps[held] = np.abs(mass[held] - positive[held]) / count[held]
        share = (positive[held] + 2.0) / (count[held] + 4.0)
        variances[held] = share * (1.0 - share) / count[held]
    shape = cells.levels, cells.columns
    return gaps.reshape(shape), variances.reshape(shape)
