"""Variances of metrics by their influence functions: what each row contributes to the estimate.

A smooth metric of n rows is, but for terms that vanish faster, its true value plus a sum over rows
of what each contributes; the variance is the sum of their squares (Hampel, The influence curve and
its role in robust estimation, 1974).  Contributions depend on score and label alone, so they are
functions of the tally, computed block by block.  Where rows are not exchangeable units they go to
the rows: summed by group (``--groups``), times the weight (``--weight-kind sampling``), subtracted
for two scores of the same rows.

For the AUC the contributions are DeLong's structural components, and the variance is DeLong's.  The
interval of a rate (a over b, counted in rows) is Wilson's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.measures.result import Interval
from calibkit.measures.views import DEFINED, Sample, Scale, Slice, View, once
from calibkit.numerics.bounds import score_limits
from calibkit.numerics.distributions import critical_value, student_value
from calibkit.numerics.sums import added, exact_group_sums, exact_sum
from calibkit_kernels import metrics as kernels

#: Bits of the lower half of a float's digits.
_HALF = np.uint64(27)
#: What few groups say may reach farther than exponentials of floats do.
_MOST = 700.0


def variance(metric: str, view: View) -> float:
    """Return the variance of a metric's estimate.

    `metric`: one with contributions, whose value is defined for this view. `view`: the rows: by
    themselves, in groups, or with sampling weights, as its sample and settings say.
    """
    if view.by_rows:
        return rows_variance(row_contributions(metric, view), view)
    contributions = DEFINED[metric].contributions
    assert contributions is not None  # only metrics that have some are asked for
    if len(view.blocks) > 1:
        contributions(view, 0)  # what blocks share is computed before threads would each do so

    def squares(count: Numbers, positive: Numbers, block: int) -> tuple[float]:
        return (kernels.sum_of_squares(count, positive, *contributions(view, block)),)

    blocks = [(block,) for block in range(len(view.blocks))]
    (total,) = added(view.each(squares, view.count, view.positive, given=blocks))
    return float(total) / view.unit.size


def row_contributions(metric: str, view: View) -> Floats:
    """Return what each row contributes to a metric for each unit of its weight."""
    contributions = DEFINED[metric].contributions
    assert contributions is not None
    blocks = [contributions(view, block) for block in range(len(view.blocks))]
    plus, minus = (np.concatenate([block[side] for block in blocks]) for side in (0, 1))
    entry = entries(view)
    found: Floats = np.where(view.sample.label == 1, plus[entry], minus[entry])
    return found / view.unit.size


@once
def entries(view: View) -> Int64s:
    """Return the entry of the tally at which each row stands."""
    # Sorted scores are found many times faster: each search begins where the last one ended.
    order = np.argsort(view.sample.score)
    rising = view.score[::-1]
    found = np.empty(order.size, np.int64)
    found[order] = rising.size - 1 - np.searchsorted(rising, view.sample.score[order])
    np.maximum(found, 0, out=found)  # a row of weight 0 may stand above all entries
    return found


def places(view: View, ends: Int64s) -> Int64s:
    """Return where each row stands among stretches of the tally, given the entry after each."""
    return np.searchsorted(ends, entries(view), side="right").astype(np.int64)


def sampled_rows(view: View, ends: Int64s) -> tuple[Floats, Floats]:
    """Return the weight of each stretch of the tally, and how many rows of equal weight that is.

    They are (sum w)^2 / sum w^2: L. Kish, Survey sampling, 1965.
    """
    part, weight = places(view, ends), _weights(view)
    mass = exact_group_sums(weight, part, ends.size)
    own, again = view.sample.squared(weight)
    squares = exact_group_sums(own, part, ends.size, times=again)
    return mass, np.divide(mass * mass, squares, out=np.zeros(ends.size), where=squares > 0)


def independent(view: View, ends: Int64s) -> Floats:
    """Return how many independent rows a row of each stretch of the tally is worth.

    It is the variance that the sum of a stretch's residuals would have, were its rows independent,
    over the one it has.  Of rows that belong together it counts only how they vary together within
    the stretch: those that lie in different bins do not make the gap of one of them noisier.
    """
    sample, probability, parts = view.sample, view.probability, ends.size
    if probability is None or not view.by_rows:
        return np.ones(parts)
    part, weight = places(view, ends), _weights(view)
    residual = sample.label.astype(np.float64) - probability[entries(view)]
    mass, rows = sampled_rows(view, ends)
    total = exact_group_sums(weight, part, parts, times=residual)
    residual -= np.divide(total, mass, out=np.zeros(parts), where=mass > 0)[part]
    own = residual * weight
    alone = exact_group_sums(own, part, parts, times=residual)
    (sums, again), part_of = sample.squared(own), part
    if sample.group is not None:
        pairs, place = np.unique(sample.group * parts + part, return_inverse=True)
        sums, part_of = group_sums(own, place), pairs % parts
        again = sums
    together = exact_group_sums(sums, part_of, parts, times=again)
    share = np.ones(parts)  # where residuals are equal, weights alone can tell
    if view.sampled:
        np.divide(rows, mass, out=share, where=mass > 0)
    np.divide(alone, together, out=share, where=(alone > 0) & (together > 0))
    return share if sample.group is None else np.minimum(share, 1.0)


def _weights(view: View) -> Floats:
    """Return how many rows each row stands for."""
    return view.sample.weights * (view.rows_each / view.unit.size)


def rows_variance(contribution: Floats, data: Slice) -> float:
    """Return the variance of a sum over rows from what each contributes, in any order of rows.

    `contribution`: what each row contributes for each unit of its weight. `data`: the rows, of which a
    weight w is w independent rows (``frequency``) or one row (``sampling``).  Rows of a group are
    summed first.  G groups or sampled rows have the factor G / (G - 1).  Where the weight of each
    class among all rows is fixed (``--prevalence``), a row more of a class takes weight from every
    row of it: contributions are centred by their mean over *all* rows of the class, and rows outside
    the slice contribute too.
    """
    sample, weight = data.sample, data.sample.weight
    if not data.by_rows:
        if weight is None:
            return exact_sum(contribution, contribution)
        # In two halves, whose products with numbers of rows are exact: counted or written out, rows
        # give the same.
        high = (contribution.view(np.uint64) >> _HALF << _HALF).view(np.float64)
        halves = np.concatenate([high * weight, (contribution - high) * weight])
        return exact_sum(np.concatenate([contribution, contribution]), halves)
    sums = contribution if weight is None else contribution * weight
    group, outside = sample.group, 0.0
    if sample.classes is not None:
        every, label = sample.classes, sample.label.astype(np.int64)
        mean = exact_group_sums(sums, label, 2) / every.weight
        if every.group is None:
            sums = sums - mean[label] * sample.weights
            own, again = sample.squared(sample.weights)
            inside = exact_group_sums(own, label, 2, times=again)
            outside = exact_sum(mean * mean, every.square - inside)
        else:
            sums = np.concatenate([sums, -np.add.reduce(every.group * mean, axis=1)])
            group = np.concatenate([sample.group, np.arange(len(every.group))])
    if group is None:
        factors = sample.squared(sums)
    else:
        sums = group_sums(sums, group)
        factors = sums, sums
    units = sample.units
    return (exact_sum(*factors) + outside) * units / max(units - 1, 1)


def group_sums(values: Floats, group: Int64s) -> Floats:
    """Return the sum of the values of each group that has rows, whatever the order of rows.

    Values are added as multiples of a power of two at most 2^-61 of the largest sum there can be.
    """
    largest = float(np.abs(values).max(initial=0.0))
    # frexp: largest < 2^exponent; so many of them stay below 2^62.
    exponent = 61 - math.frexp(largest)[1] - values.size.bit_length()
    sums = np.zeros(int(group.max()) + 1, np.int64)
    np.add.at(sums, group, np.rint(np.ldexp(values, exponent)).astype(np.int64))
    present = np.bincount(group, minlength=sums.size) > 0
    return np.ldexp(sums[present].astype(np.float64), -exponent)


def class_contributions(cells: Sequence[float], sample: Sample) -> Floats:
    """Return what each row contributes, for each unit of its weight, by decision and label.

    `cells` has that of a true negative, false negative, false positive and true positive.
    """
    place = 2 * sample.score.astype(np.int64) + sample.label
    return np.array(cells)[place]


class Level(Struct, frozen=True):
    """How far an interval reaches: by its confidence and the number of independent units.

    `units` None is so many that the normal law holds; with few groups Student's is wider.
    """

    confidence: float
    units: int | None = None

    @property
    def reach(self) -> float:
        """Standard errors to either side."""
        if self.units is None:
            return critical_value(self.confidence)
        return student_value(self.confidence, max(self.units - 1, 1))


class IntervalOptions(Struct, frozen=True, kw_only=True):
    """What intervals are wanted: their confidence, and how replicates are drawn.

    Neither the number of threads nor the order of replicates shows in a result.
    """

    confidence: float = 0.95
    seed: int = 0
    threads: int = 1
    replicates: int = 200

    def level(self, data: Slice) -> Level | None:
        """Return how far intervals reach for some rows; None where these are too few for any."""
        units = None if data.sample.group is None else data.sample.units
        each = data.numbers
        rows = data.sample.label.size if each is None else each.sum()
        few = rows < 2 if units is None else min(rows, units) < 2
        return None if few else Level(self.confidence, units)


def wilson(rate: float, rows: float, level: Level) -> Interval:
    """Return the score interval of a rate of so many independent rows, not necessarily whole."""
    return Interval(*score_limits(rate, rows, level.reach))


def effective_rows(rate: float, variance: float, sample: Sample) -> float:
    """Return of how many independent rows a rate with this variance would be; its own are none.

    Where every row agrees the variance says nothing; then it is Kish's number, the square of the
    sum of weights over the sum of their squares (Survey sampling, 1965), weights of groups summed.
    """
    if variance > 0.0 and 0.0 < rate < 1.0:
        return rate * (1.0 - rate) / variance
    factors = sample.squared(sample.weights)
    if sample.group is not None:
        weight = group_sums(sample.weights, sample.group)
        factors = weight, weight
    return exact_sum(factors[0]) ** 2 / exact_sum(*factors)


def on_scale(value: float, reach: float, scale: Scale) -> tuple[float, float]:
    """Return the ends of an interval that is symmetric on a scale, where the value has a place on it.

    `reach` is to either side, on the scale of the value itself.
    """
    if scale == "logit" and 0.0 < value < 1.0:
        odds, reach = math.log(value / (1.0 - value)), reach / (value * (1.0 - value))
        low, high = (1.0 / (1.0 + math.exp(min(-x, _MOST))) for x in (odds - reach, odds + reach))
        return low, high
    less = 1.0 if scale == "log1p" else 0.0
    if scale in ("log", "log1p") and value + less > 0.0:
        factor = math.exp(min(reach / (value + less), _MOST))
        return (value + less) / factor - less, (value + less) * factor - less
    return value - reach, value + reach
