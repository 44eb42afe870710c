"""The bootstrap of metrics that have no smooth influence function, on a tally of few cells.

The tally is gathered into cells that keep the bins of the calibration errors whole; where there are
more distinct scores than cells, a cell takes neighbours, and their mean score stands for them.  Each
replicate draws Poisson numbers of positive and negative rows for every cell, or, where rows belong
together or stand for others, one number for each group or row; of rows by themselves those that stand
in the same cells with one label are drawn at once.  All metrics share the replicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, distinct_values
from calibkit.measures.influence import IntervalOptions, independent, places
from calibkit.measures.reliability import bins_of, cosine_sums, smooth_calibration_error, smoothed
from calibkit.measures.views import View
from calibkit.options.metrics import stem
from calibkit.runtime.progress import steps
from calibkit_kernels import bootstrap as kernels
from calibkit_kernels.draws import mix
from calibkit_kernels.metrics import precision_integral

#: Cells of a tally that is resampled by itself, and of one that is resampled with its rows; of two
#: tallies together when rows are many, since their cells multiply.
MOST_CELLS, FEW_CELLS, PAIR_CELLS = 4096, 1024, 256
_MANY_ROWS = 20_000

#: An odd constant: how keys of successive replicates differ.
_STEP = np.uint64(0x9E3779B97F4A7C15)

#: The name of what isotonic regression fits too well, and its size in the noise of pools: between
#: 1, exact for one pool, and the 3/2 of a curve that rises everywhere.
NOISE, _POOL_NOISE = "corp_noise", 1.25

#: The name of the excess of the variance of `ece_debiased` squared.
EXCESS = "excess"

#: Terms of the cosine series of smooth ECE; narrower kernels are no smoother than these.
_MOST_TERMS, _DROPPED, _POINTS = 512, 7.1, 4
#: In widths of the kernel: farther away it is below 1e-17 of its height, with its reflections.
_FARTHEST = 9.0

#: From a table of positive and negative rows a cell to the values of some metrics.
Statistic = Callable[[Floats], Sequence[float]]


class Spread(Struct, frozen=True):
    """A metric on the cells themselves, and its mean and standard deviation over the replicates."""

    own: float
    mean: float
    deviation: float


def _bin_ends(view: View, strategy: str) -> Int64s:
    """Return the entry after the last of each bin, from the highest bin on."""
    found = bins_of(view, strategy)
    assert found is not None  # only metrics with a value are resampled
    return found.ends


class Statistics:
    """The metrics of one view that are resampled, as functions of a table of its cells.

    Where the noise of the rows makes a metric larger, and by how much is known, it is left out: of
    the gaps of bins (`ece`, `ace`) and of smoothed residuals (`smooth_ece`), and of what isotonic
    regression fits too well (CORP; the amount is the metric `NOISE`).  `ece_debiased` is squared,
    and may be negative.
    """

    def __init__(self, view: View, metrics: Sequence[str], most: int) -> None:
        plain = set(map(stem, metrics))
        bins: dict[tuple[str, ...], Int64s] = {}
        if plain & {"ece", "mce", "ece_debiased"}:
            bins["ece", "mce", "ece_debiased", EXCESS] = _bin_ends(view, view.settings.strategy)
        if "ace" in plain:
            bins["ace", "", "", ""] = _bin_ends(view, "equal-mass")
        # Cells by falling score that never straddle the bins.
        breaks = distinct_values(np.concatenate([*bins.values(), np.empty(0, np.int64)]))
        room = np.empty((most + 2 * breaks.size + 2, 4))
        least = 1 if view.score.size <= most else -(-view.total // most)
        score = view.score if view.probability is None else view.probability
        size = kernels.fill_cells(score, view.count, view.positive, breaks, least, room)
        rows = room[:size, 0] + room[:size, 1]
        #: Positive and negative rows of each cell, its mean score, the entry of the tally after it.
        self.table = room[:size, :2] * view.rows_each
        self.score = np.divide(room[:size, 2], rows, out=np.zeros(size), where=rows > 0)
        self.ends = room[:size, 3].astype(np.int64)
        self.share = 1.0
        if view.by_rows and view.probability is not None:
            near = independent(view, _bin_ends(view, "equal-mass"))
            self.share = 1.0 / float(np.mean(1.0 / near))
        self.parts: list[tuple[tuple[str, ...], Statistic]] = []
        for names, ends in bins.items():
            after = np.searchsorted(self.ends, ends, side="right").astype(np.int64)
            self.parts.append((names, partial(self._gaps, after, independent(view, ends))))
        if plain & {"miscalibration", "discrimination"}:
            self.parts.append((("miscalibration", "discrimination", NOISE), self._corp))
        if "smooth_ece" in plain:
            self.parts.append((("smooth_ece",), _smooth(view, self.table, self.score, self.share)))
        if "pr_auc" in plain:
            self.parts.append((("pr_auc",), _area))
        at_bound = {"recall_at_precision": _recall, "precision_at_recall": _precision}
        for name in metrics:
            if statistic := at_bound.get(stem(name)):
                bound = float(name.partition(":")[2])
                self.parts.append(((name,), partial(statistic, bound)))

    def of(self, table: Floats) -> dict[str, float]:
        """Return the metrics of a table; NaN where one is not defined."""
        return {
            name: value
            for names, statistic in self.parts
            for name, value in zip(names, statistic(table), strict=True)
            if name
        }

    def _gaps(self, ends: Int64s, share: Floats, table: Floats) -> Sequence[float]:
        out = np.empty(4)
        kernels.gap_statistics(table, self.score, ends, share, out)
        return out.tolist()

    def _corp(self, table: Floats) -> Sequence[float]:
        out = np.empty(3)
        kernels.corp_statistics(table, self.score, np.empty_like(table), out)
        noise = _POOL_NOISE * float(out[2]) / self.share
        return [float(out[0]) - noise, float(out[1]) - noise, noise]


def _area(table: Floats) -> Sequence[float]:
    """Return the area under precision and recall, rows of a cell in random order."""
    hits, rows = table[:, 0].copy(), table[:, 0] + table[:, 1]
    area = float(precision_integral(rows, hits, 0, 0))
    return [area / float(np.add.reduce(hits)) if hits.any() else math.nan]


def _recall(precision: float, table: Floats) -> Sequence[float]:
    """Return the largest recall of a threshold with a precision; NaN without a positive row."""
    hits, rows = np.cumsum(table[:, 0]), np.cumsum(table[:, 0] + table[:, 1])
    met = np.flatnonzero((table[:, 0] > 0.0) & (hits >= precision * rows))
    best = hits[met[-1]] if met.size else 0.0
    return [float(best / hits[-1]) if hits.size and hits[-1] > 0.0 else math.nan]


def _precision(recall: float, table: Floats) -> Sequence[float]:
    """Return the largest precision of a threshold with a recall; NaN without a positive row."""
    hits, rows = np.cumsum(table[:, 0]), np.cumsum(table[:, 0] + table[:, 1])
    if not hits.size or hits[-1] <= 0.0:
        return [math.nan]
    met = (rows > 0.0) & (hits >= recall * hits[-1])
    return [float(np.max(hits[met] / rows[met], initial=0.0))]


def _smooth(view: View, table: Floats, score: Floats, share: float) -> Statistic:
    """Return smooth ECE of a table less what noise adds, to first order about the value of the rows.

    At a fixed width sigma it is the mean size of smoothed residuals, each of which is larger than
    what is behind it by the bias of a folded normal variable.  The fixed point moves by a change at
    fixed width over 1 - f'(sigma).
    """
    sigma = max(smooth_calibration_error(view) or 0.0, 1e-3)
    terms = min(_MOST_TERMS, 1 + math.ceil(_DROPPED / (math.pi * sigma)))
    points = 1 + max(256, _POINTS * terms)
    # Cells of equal width, narrow beside sigma: few, whatever the tally has.
    size = _POINTS * max(terms, 32)
    place = np.minimum((score * size).astype(np.int64), size - 1)
    middle = (np.arange(size) + 0.5) / size

    def gathered(values: Floats) -> Floats:
        return np.bincount(place, values, size).astype(np.float64)

    def coefficients(table: Floats) -> Floats:
        rows = table[:, 0] + table[:, 1]
        residual = (table[:, 0] - rows * score) / max(float(np.add.reduce(rows)), 1e-300)
        return cosine_sums(gathered(residual), terms)

    hits, misses = table.T
    square = hits * (1.0 - score) ** 2 + misses * score**2
    square = gathered(square / (share * max(math.fsum(hits + misses), 1e-300) ** 2))
    noise = _noise(middle[square > 0.0], square[square > 0.0], sigma, points)
    step, own = 0.05 * sigma, coefficients(table)
    low, whole, high = (smoothed(own, sigma + shift, points)[0] for shift in (-step, 0.0, step))
    slope = min((high - low) / (2.0 * step), 0.0)

    def moved(table: Floats) -> Sequence[float]:
        found, residual = smoothed(coefficients(table), sigma, points)
        found -= float(kernels.mean_folded_bias(residual, noise))
        return [sigma + (found - whole) / (1.0 - slope)]

    return moved


def _noise(places: Floats, variances: Floats, sigma: float, points: int) -> Floats:
    """Return the standard deviation of smoothed residuals at equally spaced points from 0 to 1.

    They are sums over rising places, at which the residuals are independent.
    """
    found = np.empty(points)
    for number, t in enumerate(np.linspace(0.0, 1.0, points)):
        first, last = np.searchsorted(places, (t - _FARTHEST * sigma, t + _FARTHEST * sigma))
        f = places[first:last]
        near = [np.exp(-0.5 * ((t - own) / sigma) ** 2) for own in (f, -f, 2.0 - f)]
        kernel = (near[0] + near[1] + near[2]) / (sigma * math.sqrt(2.0 * math.pi))
        found[number] = math.sqrt(float(np.sum(kernel * kernel * variances[first:last])))
    return found


class Units(Struct, frozen=True):
    """What is drawn together: records of rows, each in the unit it belongs to."""

    mean: Floats  # how often each unit is drawn in the mean
    #: The unit of each record, the label of its rows, and their weight.
    unit: Int64s
    label: Int64s
    weight: Floats
    cell: tuple[Int64s, ...]  # the cell of each record, for each score

    def tables(self, sizes: Sequence[int], key: np.uint64) -> list[Floats]:
        """Return what one replicate draws, as a table for each score."""
        drawn = np.empty(self.mean.size)
        kernels.draw_numbers(self.mean, key, drawn)
        plus, minus = self.weight * self.label, self.weight * (1 - self.label)
        tables = [np.zeros((size, 2)) for size in sizes]
        for cell, table in zip(self.cell, tables, strict=True):
            kernels.add_records(cell, self.unit, plus, minus, drawn, table)
        return tables


def units_of(view: View, cell: tuple[Int64s, ...]) -> Units:
    """Return the units of some rows; each has its number by what it is, not by where it stands.

    Groups that weigh nothing anywhere have the last numbers.

    Rows by themselves that stand in the same cells with one label are one unit, whose number has the
    mean and variance of the sum of its rows' own: of weights that count rows their sum, of sampling
    weights the square of their sum over the sum of their squares.
    """
    sample = view.sample
    label = sample.label.astype(np.int64)
    weight = sample.weights * (view.rows_each / view.unit.size)
    if sample.group is not None:
        group, order = sample.group, np.arange(label.size)
        if (weight != np.rint(weight)).any():  # whose sums are rounded: in one order
            order = np.lexsort((weight, label, *cell, group))
        order = order[weight[order] > 0.0]  # no others: units have numbers
        unit, cell = group[order], tuple(own[order] for own in cell)
        mean = np.zeros(unit.max() + 1)
        mean[unit] = 1.0  # groups of other slices need no draw
        return Units(mean, unit, label[order], weight[order], cell)
    key = label.copy()
    for own in cell:
        key = key * (1 + int(own.max())) + own
    order = np.lexsort((weight, key))
    order = order[weight[order] > 0.0]  # no others: units have numbers
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    first, sorted_weight = order[starts], weight[order]
    total = np.add.reduceat(sorted_weight, starts)
    each = np.ones(starts.size)
    if view.sampled:
        squares = np.multiply(*sample.squared(weight))
        square = np.add.reduceat(squares[order], starts)
        each = np.divide(square, total, out=np.zeros(starts.size), where=total > 0)
    mean = np.divide(total, each, out=np.zeros(starts.size), where=each > 0)
    whole = np.rint(mean)  # but for rounding, to which draws would be sensitive
    mean = np.where(np.abs(mean - whole) <= 1e-12 * whole, whole, mean)
    every = np.arange(starts.size)
    return Units(mean, every, label[first], each, tuple(c[first] for c in cell))


def spreads(
    views: Sequence[View], metrics: Sequence[str], options: IntervalOptions
) -> dict[str, Spread]:
    """Return how metrics of one view vary, or the differences of two, the second less the first.

    `views`: both scores of two are drawn with the same rows. `metrics`: of those in `Statistics`, all
    with defined values; one that is defined in few replicates is left out.
    """
    *paired, last = views
    most = FEW_CELLS if last.by_rows else MOST_CELLS
    if paired:
        most = FEW_CELLS if last.sample.rows <= _MANY_ROWS else PAIR_CELLS
    both = [Statistics(view, metrics, most) for view in views]
    own = [one.table for one in both]
    if last.by_rows or paired:
        cell = tuple(places(v, s.ends) for v, s in zip(views, both, strict=True))
        units = units_of(last, cell)
    else:  # the positive and the negative rows of each cell
        every = np.arange(own[0].size)
        units = Units(own[0].ravel(), every, 1 - every % 2, np.ones(every.size), (every // 2,))

    def values(tables: Sequence[Floats]) -> dict[str, float]:
        first, *second = (one.of(table) for one, table in zip(both, tables, strict=True))
        for found in (first, *second) if second else ():
            if "ece_debiased" in found:
                found["ece_debiased"] = math.sqrt(max(0.0, found["ece_debiased"]))
        return {name: second[0][name] - first[name] for name in first} if second else first

    sizes = [len(table) for table in own]
    with np.errstate(over="ignore"):
        seed = mix(np.uint64(options.seed))
        keys = [mix(seed + np.uint64(b) * _STEP) for b in range(1, options.replicates + 1)]
    with ThreadPoolExecutor(options.threads) as pool:
        found = pool.map(lambda key: values(units.tables(sizes, np.uint64(key))), keys)
        drawn = list(steps(found, len(keys), "replicates drawn"))
    varied = {}
    for name, value in values(own).items():
        finite = [one[name] for one in drawn if math.isfinite(one[name])]
        if len(finite) > 0.9 * len(drawn) and math.isfinite(value):
            mean = math.fsum(finite) / len(finite)
            square = math.fsum((x - mean) ** 2 for x in finite) / (len(finite) - 1)
            varied[name] = Spread(value, mean, math.sqrt(square))
    return varied
