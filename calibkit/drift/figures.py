"""The figures of new rows: how far they have moved, and what precision, recall and AUC are today.

Between shares e of the fitting rows and a of the new rows in bins, the population stability index is
PSI = sum (a - e) ln(a / e), the symmetrised Kullback-Leibler divergence (Jeffreys, An invariant form
for the prior probability in estimation problems, 1946).  Without drift it is about c times a
chi-square variable with k degrees of freedom, k one less than the number of bins and c = 1/N + 1/M for
N new and M fitting rows (Yurdakul, Statistical properties of population stability index, 2018).  So
small files have a large PSI by chance, and what it tells is by how much it exceeds that.

Of rates without labels nothing can be known unless something stays as it was.  ``covariate``: the
probability of a positive at a score.  Then each row is positive with its calibrated probability, and
rates are those of these (confidence-based estimation).  ``prior``: how scores are distributed among
positives, and among negatives.  Then only the base rate has moved: its value of highest likelihood,
which expectation and maximisation would find (Saerens, Latinne and Decaestecker, Adjusting the outputs
of a classifier to new a priori probabilities, 2002), shifts every probability.

Their intervals are those of the rates that the labels of these very rows would show.  Three things are
unsure: the labels, given their probabilities; under ``prior`` the base rate; and the probabilities.
How well a calibrator knows these depends on its rows alone: nothing that is right whatever the shape of
the truth knows a mean of them better than the mean label of calibration rows of the same kind does.
So of a row at q the variance is q (1 - q) times one plus the ratio of new rows to calibration rows
there, by the twentieths of scores that the model keeps.  All of it goes through the rates by the delta
method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from calibkit.arrays import Bools, Floats, Int64s
from calibkit.drift.rows import Counts, Sums, Watched, base_rate, cells, fitted_rows
from calibkit.measures.influence import Level, wilson
from calibkit.measures.result import Difference, Interval, Number
from calibkit.numerics.distributions import critical_value
from calibkit.numerics.solve import rising_root
from calibkit.numerics.sums import exact_group_sums, exact_sum
from calibkit.options.watch import DriftOptions

#: What an empty bin of the new rows counts as, lest the index be infinite.
_EMPTY: Final = 0.5

#: What is estimated without labels.
RATES: Final = ("precision", "recall", "auc", "base_rate")

#: How near to 0 and 1 a probability, and a base rate, may be.
_NEAR: Final = 1e-12
_LEAST: Final = 1e-9


def figures(
    one: Watched, counts: Counts, options: DriftOptions
) -> tuple[dict[str, Number], dict[str, Interval]]:
    """Return the metrics of the new rows, and their intervals."""
    level, sums = Level(options.confidence), counts.sums[one.name]
    values: dict[str, Number] = {}
    bounds: dict[str, Interval] = {}

    def rate(name: str, part: float, whole: float, rows: float) -> None:
        """Add a rate, None of nothing; `rows` is how many independent rows it is of."""
        values[name] = part / whole if whole > 0.0 else None
        if whole > 0.0:
            bounds[name] = wilson(min(1.0, part / whole), rows, level)

    rate("missing_share", counts.missing, counts.read, counts.read)
    total = _total(sums, "rows")
    values["count"] = counts.read - counts.missing if one.weight is None else total
    thinned = _independent(one, sums)
    kish = total * thinned
    for name, part in (("selected_share", "selected"), ("outside_range", "outside")):
        rate(name, _total(sums, part), total, kish)
    for role in ("score", "uncertainty"):
        name = f"psi_{role}"
        # None where the boundary does not read the column.
        values |= dict.fromkeys((name, f"{name}_expected", f"{name}_p_value"))
        if role in one.outline and total:
            old, place = _filled(one.outline[role].counts)
            new = np.bincount(place, [float(rows) for rows in sums[role]])
            sizes = kish, fitted_rows(one.model, _share(one, counts))
            index = stability(new.tolist(), old.tolist(), sizes, options.confidence)
            values |= {name: index.value, f"{name}_expected": index.expected}
            values[f"{name}_p_value"], bounds[name] = index.p_value, index.interval
    if options.label is not None:
        names = ("labelled", "positives", "labelled_selected", "hits")
        rows, positives, selected, hits = (_total(sums, name) for name in names)
        values["labelled"] = rows
        for name, own, whole in (
            ("base_rate", positives, rows),
            ("precision", hits, selected),
            ("recall", hits, positives),
            ("fpr", selected - hits, rows - positives),
        ):
            rate(name, own, whole, whole * thinned)
    return values, bounds


def estimated(one: Watched, counts: Counts, options: DriftOptions) -> dict[str, Difference]:
    """Return the rates of the new rows without their labels."""
    source = one.model if options.calibrator is None else options.calibrator
    sums = counts.sums[one.name]
    *places, rows, mass = cells(sums).T
    score_bin, rank, selected = (own.astype(np.int64) for own in places)
    known_rows = fitted_rows(source, _share(one, counts))
    fitted = one.outline["score"].counts
    old, place = _filled(fitted)
    bins = place[score_bin]
    known = known_rows * (old / np.array(fitted).sum())[bins]
    own = exact_group_sums(rows, bins, old.size)[bins]
    alike = Cells(rank, rows, mass / rows, selected == 1, known, own / known)
    basis, level = (known_rows, base_rate(source) or 0.5), Level(options.confidence)
    independent = _independent(one, sums)
    return estimate(alike, basis, str(options.assumed), level, independent=independent)


def _total(sums: Sums, name: str) -> float:
    return float(sum(sums.get(name, ())))


def _independent(one: Watched, sums: Sums) -> float:
    """Return how many independent rows there are in a unit of sampling weight (Kish)."""
    total, square = _total(sums, "rows"), _total(sums, "squares")
    return total / square if square and _sampled(one) else 1.0


def _sampled(one: Watched) -> bool:
    fitted = one.model.columns.get("weight")
    return fitted is not None and fitted.kind == "sampling"


def _share(one: Watched, counts: Counts) -> float | None:
    """Return how many independent rows there are in a row that was sampled; None in others."""
    sums, rows = counts.sums[one.name], counts.read - counts.missing
    return _total(sums, "rows") * _independent(one, sums) / rows if rows and _sampled(one) else None


def _filled(counts: Sequence[float]) -> tuple[Floats, Int64s]:
    """Return the fitting rows of the bins that held some, and where the rows of each bin count.

    Where many fitting rows share the lowest value, the bins below it are empty; new rows that fall
    there have drifted and must not be left out: they count in the next bin that held some, those
    above the last such bin in it.
    """
    old = np.array(counts, np.float64)
    filled = np.flatnonzero(old)
    place = np.searchsorted(filled, np.arange(old.size))
    return old[filled], np.minimum(place, filled.size - 1)


class Stability(Struct, frozen=True):
    """The index of one column, and what chance alone gives on average.

    `p_value` is the probability of shares that differ as much or more without drift, by Pearson's test
    of two samples (On the criterion, 1900).  `interval` is that of the index of all rows that such
    files might hold: what chance adds is taken off, and it reaches down to 0 wherever the test does not
    tell the samples apart.
    """

    value: float
    expected: float
    p_value: float
    interval: Interval


def stability(
    new: Sequence[float], reference: Sequence[float], sizes: tuple[float, float], confidence: float
) -> Stability:
    """Return the index between new rows and fitting rows, given their weight in each bin.

    Of `reference` all are positive, of `new` some; an empty bin counts as half a row.  `sizes` says of
    how many independent rows either is: N, M.
    """
    rows, fitted = sizes
    chance = 1.0 / rows + 1.0 / fitted
    total, whole = math.fsum(new), math.fsum(reference)
    old = [count / whole for count in reference]
    now = [max(count, _EMPTY * total / rows) / total for count in new]
    value = math.fsum((a - e) * math.log(a / e) for a, e in zip(now, old, strict=True))
    free = len(old) - 1
    # Pearson's statistic of two samples, given the shares of their bins.
    plain = [count / total for count in new]
    both = [(rows * a + fitted * e) / (rows + fitted) for a, e in zip(plain, old, strict=True)]
    apart = math.fsum((a - e) ** 2 / b for a, e, b in zip(plain, old, both, strict=True))
    p_value = chi_square_tail(apart * rows * fitted / (rows + fitted), free)
    # Of samples alike the slopes themselves are noise: their variances have a mean of 4 k c^2.
    sloped = _variance(now, old, rows) + _variance(old, now, fitted) - 4.0 * free * chance**2
    steep = max(4.0 * chance, sloped / max(value, free * chance)) if free else 0.0
    low, high = _ends(value - free * chance, 2.0 * free * chance**2, steep, confidence)
    if p_value > (1.0 - confidence) / 2.0:
        low = 0.0
    return Stability(value, free * chance, p_value, Interval(low, high))


def _ends(excess: float, flat: float, steep: float, confidence: float) -> tuple[float, float]:
    """Return the values that an excess over chance does not rule out.

    At a value v the excess has mean v and variance ``flat + steep v``; an end is where it lies a
    critical value away, with the variance there (as Wilson's interval of a rate).
    """
    square = critical_value(confidence) ** 2
    centre = excess + 0.5 * square * steep
    half = math.sqrt(max(0.0, centre**2 - excess**2 + square * flat))
    low = centre - half if excess > 0.0 else 0.0
    return max(0.0, low), max(0.0, centre + half)


def _variance(own: Sequence[float], other: Sequence[float], rows: float) -> float:
    """Return the variance that one sample gives the index, by the delta method."""
    slopes = [math.log(a / b) + 1.0 - b / a for a, b in zip(own, other, strict=True)]
    mean = math.fsum(a * slope for a, slope in zip(own, slopes, strict=True))
    square = math.fsum(a * slope**2 for a, slope in zip(own, slopes, strict=True))
    return max(0.0, square - mean**2) / rows


def chi_square_tail(x: float, free: int) -> float:
    """Return the probability that a chi-square variable of `free` degrees of freedom exceeds `x`.

    With 0 degrees it is the constant 0.  By the recurrence from 1 or 2 degrees (Abramowitz and Stegun,
    Handbook of mathematical functions, 26.4.8), all of whose terms are positive.
    """
    if x <= 0.0:
        return 1.0
    if free == 0:
        return 0.0
    half = 0.5 * x
    odd = free % 2 == 1
    tail = math.erfc(math.sqrt(half)) if odd else math.exp(-half)
    for degrees in range(1 if odd else 2, free - 1, 2):
        order = 0.5 * degrees
        tail += math.exp(order * math.log(half) - half - math.lgamma(order + 1.0))
    return min(1.0, tail)


class Cells(Struct, frozen=True):
    """New rows that are alike, a cell an entry: how many (by weight), and their mean probability.

    `rank` is the place of the probability: cells of one rank are tied.  `selected` are those that the
    boundary selects.  `known` are the calibration rows in the twentieth of scores where the cell lies,
    and `ratio` says how many new rows there are to each.
    """

    rank: Int64s
    rows: Floats
    probability: Floats
    selected: Bools
    known: Floats
    ratio: Floats


def estimate(
    cells: Cells,
    basis: tuple[float, float],
    assumed: str,
    level: Level,
    *,
    independent: float = 1.0,
) -> dict[str, Difference]:
    """Return each rate of `RATES` with the ends of its interval.

    `basis` is what the calibrator's probabilities rest on: its rows, and their share of positives;
    `assumed` is ``covariate`` or ``prior``, `independent` says how many independent rows there are in
    a unit of weight.
    """
    found = dict.fromkeys(RATES, Difference(None))
    if not cells.rows.size:
        return found
    q = np.clip(cells.probability, _NEAR, 1.0 - _NEAR)
    # No calibrator is sure of a 0 or 1: as if its rows had half a positive and half a negative more.
    soft = (cells.known * q + 0.5) / (cells.known + 1.0)
    # That moves all rows of a twentieth together, however few of them are independent.
    unsure = cells.rows * cells.ratio * soft * (1.0 - soft) * independent
    moved = _Moved(cells, q, basis) if assumed == "prior" else None
    now = q if moved is None else moved.now
    for name, (value, slope) in _rates(cells, now).items():
        variance = exact_sum(cells.rows * slope**2, now * (1.0 - now))
        if moved is not None:
            more, slope = moved.through(slope)
            variance += more
        variance += exact_sum(unsure, slope**2)
        variance /= independent
        spread = value * (1.0 - value)
        found[name] = Difference(value)
        if spread > 0.0 and variance > 0.0:
            # Wilson's interval of as many rows as have this variance.
            ends = wilson(value, spread / variance, level)
            found[name] = Difference(value, ends.low, ends.high)
    return found


def _rates(cells: Cells, now: Floats) -> dict[str, tuple[float, Floats]]:
    """Return each rate that there is, and its derivative by the probability of a row of each cell."""
    rows, taken = cells.rows, np.where(cells.selected, cells.rows, 0.0)
    total, selected = exact_sum(rows), exact_sum(taken)
    positives, hits = exact_sum(rows, now), exact_sum(taken, now)
    found, chosen = dict[str, tuple[float, Floats]](), cells.selected.astype(np.float64)
    if selected > 0.0:
        found["precision"] = (hits / selected, chosen / selected)
    found["recall"] = (hits / positives, (chosen - hits / positives) / positives)
    below, above = _beside(cells.rank, rows * (1.0 - now), rows * now)
    negatives = total - positives
    area = exact_sum(rows * now, below) / positives
    slope = (below - area) / positives - (above - area) / negatives
    found["auc"] = (area, slope)
    found["base_rate"] = (positives / total, np.full(rows.size, 1.0 / total))
    return found


def _beside(rank: Int64s, negatives: Floats, positives: Floats) -> tuple[Floats, Floats]:
    """Return the share of negatives below each cell and of positives above it, ties by half."""
    _, place = np.unique(rank, return_inverse=True)
    low, high = np.bincount(place, negatives), np.bincount(place, positives)
    below = (np.cumsum(low) - 0.5 * low) / low.sum()
    above = 1.0 - (np.cumsum(high) - 0.5 * high) / high.sum()
    return below[place], above[place]


class _Moved:
    """Probabilities under another base rate, the most likely one, and how unsure it is.

    At a base rate p the density of scores is that of negatives times 1 + p (r - 1), r the ratio of
    the two densities: q / (1 - q) over the odds at calibration.
    """

    def __init__(self, cells: Cells, q: Floats, basis: tuple[float, float]) -> None:
        self.cells, self.q = cells, q
        self.known, self.before = basis
        self.ratio = q / (1.0 - q) * (1.0 - self.before) / self.before
        self.base_rate = rising_root(
            lambda rate: -exact_sum(cells.rows, self._pulls(rate)), _LEAST, 1.0 - _LEAST
        )
        rate = self.base_rate
        self.now = rate * self.ratio / (1.0 + rate * (self.ratio - 1.0))
        #: The observed information of the base rate.
        self.information = exact_sum(cells.rows, self._pulls(rate) ** 2)

    def _pulls(self, rate: float) -> Floats:
        """Return the derivative of a row's log-likelihood by the base rate."""
        return (self.ratio - 1.0) / (1.0 + rate * (self.ratio - 1.0))

    def through(self, slope: Floats) -> tuple[float, Floats]:
        """Return what a rate's variance has from the base rate, which the scores tell, and its slopes.

        A slope is the derivative by the calibrated probability of a row of each cell.  It moves the
        row's own odds, with them the most likely base rate, and a mean of all of them is the base
        rate at calibration.
        """
        rows, q, before, rate = self.cells.rows, self.q, self.before, self.base_rate
        spread, variance, further = self.now * (1.0 - self.now), 0.0, 0.0
        if self.information:
            by_base_rate = exact_sum(rows * slope, spread) / (rate * (1.0 - rate))
            variance = by_base_rate**2 / self.information
            further = by_base_rate / self.information
        steep = self.ratio / (1.0 + rate * (self.ratio - 1.0)) ** 2
        both = slope * spread + further * steep
        own = both / (q * (1.0 - q))
        shared = -exact_sum(rows, both) / (before * (1.0 - before))
        found: Floats = own + shared / (self.cells.ratio * self.known)
        return variance, found
