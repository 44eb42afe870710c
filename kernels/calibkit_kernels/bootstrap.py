"""The bootstrap of a tally: Poisson numbers of rows in its cells, and metrics of what was drawn.

Resampling n rows with replacement gives each row a number of copies that is nearly Poisson; drawing
these numbers independently (the Poisson bootstrap: Hanley, MacGibbon, Creating non-parametric
bootstrap samples using Poisson frequencies, 2006) lets all rows of one cell and label be drawn at
once.  A number is a function of its key and place, so nothing depends on threads or order.

A *table* has a row for each cell by falling score and two columns: positive and negative rows drawn.
"""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s
from .distributions import normal_cdf, normal_density
from .draws import uniform
from .elementary import log_of
from .rates import pool_rates

#: One row, up to the rounding of its weight.
ONE_ROW = 1.0 + 1e-9
#: From this mean on a Poisson number is drawn as a rounded normal one, corrected for skewness.
_MANY = 24.0


@kernel
def poisson(mean: float, key: np.uint64, place: int) -> float:
    """Return the Poisson number of a key and place.

    Below a mean of 24 by inversion; above, a normal number by Marsaglia's polar method with the
    Cornish-Fisher term for skewness, rounded.
    """
    if mean <= 0.0:
        return 0.0
    draw = 64 * place
    if mean < _MANY:
        left = uniform(key, draw)
        chance = math.exp(-mean)
        number = 0.0
        while left >= chance and number < 200.0:
            left -= chance
            number += 1.0
            chance *= mean / number
        return number
    x, square = 0.0, 0.0
    for attempt in range(31):
        x = 2.0 * uniform(key, draw + 2 * attempt) - 1.0
        y = 2.0 * uniform(key, draw + 2 * attempt + 1) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            break
    if not 0.0 < square < 1.0:
        return mean
    return _rounded_normal(mean, x, square)


@kernel
def _rounded_normal(mean: float, x: float, square: float) -> float:
    """Return the number of a mean from 24 on that a point (x, y) of the unit disc stands for.

    `square` is ``x^2 + y^2``, above 0 and below 1.
    """
    z = x * math.sqrt(-2.0 * log_of(square) / square)
    number = np.floor(mean + math.sqrt(mean) * z + (z * z - 1.0) / 6.0 + 0.5)
    return 0.0 if number < 0.0 else number


@kernel
def draw_numbers(mean: Floats, key: np.uint64, out: Floats) -> None:
    """Write a Poisson number for each mean."""
    for i in range(mean.size):  # those of a first attempt, several at once
        x = 2.0 * uniform(key, 64 * i) - 1.0
        y = 2.0 * uniform(key, 64 * i + 1) - 1.0
        square = x * x + y * y
        out[i] = _rounded_normal(mean[i], x, square) if 0.0 < square < 1.0 else np.nan
    for i in range(mean.size):
        if mean[i] < _MANY or out[i] != out[i]:
            out[i] = poisson(mean[i], key, i)


@kernel
def add_records(
    cell: Int64s, unit: Int64s, plus: Floats, minus: Floats, drawn: Floats, out: Floats
) -> None:
    """Add records to a table as often as their unit was drawn.

    Record i goes to ``cell[i]`` with ``plus[i]`` positive and ``minus[i]`` negative rows; ``unit[i]``
    is the number among `drawn`, how often each unit was drawn, that is its own.
    """
    for i in range(cell.size):
        times = drawn[unit[i]]
        out[cell[i], 0] += times * plus[i]
        out[cell[i], 1] += times * minus[i]


@kernel
def fill_cells(
    score: Floats, count: Int64s, positive: Int64s, breaks: Int64s, most: int, out: Floats
) -> int:
    """Gather the entries of a tally, by falling score, into cells; return how many.

    A cell has to begin at each of the rising entries `breaks`, and takes no further entry once it has
    `most` rows.  `out` gets positive rows, negative rows, the sum of scores over rows, and the entry
    after the last.
    """
    size, ahead = 0, 0
    rows, hits, mass = np.int64(0), np.int64(0), 0.0
    for i in range(score.size):
        rows += count[i]
        hits += positive[i]
        mass += float(count[i]) * np.float64(score[i])
        while ahead < breaks.size and breaks[ahead] <= i:
            ahead += 1
        ends = ahead < breaks.size and breaks[ahead] == i + 1
        if rows >= most or ends or i == score.size - 1:
            out[size, 0] = float(hits)
            out[size, 1] = float(rows - hits)
            out[size, 2] = mass
            out[size, 3] = float(i + 1)
            size += 1
            rows, hits, mass = np.int64(0), np.int64(0), 0.0
    return size


@kernel
def folded_bias(mean: float, deviation: float) -> float:
    """Return by how much the mean size of a normal variable exceeds the size of its mean."""
    if abs(mean) >= 38.0 * deviation:
        return 0.0
    z = abs(mean) / deviation
    return 2.0 * deviation * (normal_density(z) - z * normal_cdf(-z))


@kernel
def gap_statistics(table: Floats, score: Floats, ends: Int64s, share: Floats, out: Floats) -> None:
    """Write calibration errors over bins: l1, largest, l2 squared, and an excess of variance.

    The l1 error is the mean size of the bins' gaps, each less what its own noise adds to its size;
    the squared l2 error is debiased as `ece_debiased`, leaves out bins worth one independent row, and
    may be negative.  NaN without rows.

    `score` has the mean score of each cell of the table, `ends` the cell after the last one of each
    bin, by falling score, `share` how many independent rows a row of each bin is worth.
    """
    total, absolute, largest, squares, excess, start = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for j in range(ends.size):
        rows, hits, mass = 0.0, 0.0, 0.0
        for k in range(start, ends[j]):
            own = table[k, 0] + table[k, 1]
            rows += own
            hits += table[k, 0]
            mass += own * score[k]
        start = ends[j]
        if rows <= 0.0:
            continue
        gap = (hits - mass) / rows
        # The bin's mean score counts as one row more, so that one label leaves some doubt.
        rate = (hits + mass / rows) / (rows + 1.0)
        noise = math.sqrt(max(0.0, rate * (1.0 - rate)) / (share[j] * rows))
        total += rows
        absolute += rows * (abs(gap) - folded_bias(gap, noise))
        largest = max(largest, abs(gap))
        size = share[j] * rows
        if size > ONE_ROW:
            rate = hits / rows
            squares += rows * (gap * gap - rate * (1.0 - rate) / (size - 1.0))
            excess += 4.0 * (rows * noise * noise) * (rows * noise * noise)
    out[0] = absolute / total if total > 0.0 else math.nan
    out[1] = largest if total > 0.0 else math.nan
    out[2] = squares / total if total > 0.0 else math.nan
    out[3] = excess / (total * total) if total > 0.0 else math.nan


@kernel
def mean_folded_bias(mean: Floats, deviation: Floats) -> float:
    """Return the mean of `folded_bias` over points, at least one."""
    total = 0.0
    for i in range(mean.size):
        total += folded_bias(mean[i], deviation[i])
    return total / mean.size


@kernel
def corp_statistics(table: Floats, score: Floats, stack: Floats, out: Floats) -> None:
    """Write miscalibration, discrimination (CORP) and the noise of pools; NaN without rows.

    The noise is the sum over pools of rate (1 - rate), over rows: by about so much, times a factor near
    3/2, isotonic regression fits its own rows too well (Meyer, Woodroofe, On the degrees of freedom in
    shape-restricted regression, 2000).  `score` has the mean score of each cell of the table, `stack`
    room for a row of two numbers a cell.
    """
    total, good, brier = 0.0, 0.0, 0.0
    for k in range(score.size):
        hits, misses = table[k, 0], table[k, 1]
        rows = hits + misses
        stack[k, 0], stack[k, 1] = rows, hits
        if rows <= 0.0:
            continue
        total += rows
        good += hits
        brier += hits * (1.0 - score[k]) * (1.0 - score[k]) + misses * score[k] * score[k]
    size = pool_rates(stack[:, 0], stack[:, 1], np.empty(0, np.int64), False, stack)
    pooled, noise = 0.0, 0.0
    for j in range(size):
        rate = stack[j, 1] / stack[j, 0]
        pooled += rate * (stack[j, 0] - stack[j, 1])
        noise += rate * (1.0 - rate)
    out[0] = (brier - pooled) / total if total > 0.0 else math.nan
    out[1] = (good * (total - good) / total - pooled) / total if total > 0.0 else math.nan
    out[2] = noise / total if total > 0.0 else math.nan
