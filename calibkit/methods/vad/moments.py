"""Moments of replicate predictions: sums that merge exactly, and the shrinkage that they give.

With F the links of S members, lambda = 1 - E[var over replicates] / Var[F_1]: `Moments.estimate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.vad.model import Segment, VadFit
from calibkit.models.scales import measure
from calibkit.numerics.sums import LEAST_PRODUCT, NO_FACTORS, ExactSum, bins_total, nearest_float
from calibkit.options.vad import VadOptions
from calibkit_kernels.maps import LEAST, log_odds
from calibkit_kernels.metrics import expit
from calibkit_kernels.sums import NO_CODES, add_columns

Floats = NDArray[Any]

#: Rows on the scale of the link at a time, few enough for them to stay in the cache.
_BLOCK = 8192

#: A product of two float64 lies below 2^2048; the bins begin at the smallest one.
_WIDTH = 2048 - LEAST_PRODUCT

_UNIT = 1 << -LEAST_PRODUCT

#: By it a float is split into two halves of 26 bits (Dekker, A floating-point technique, 1971).
_SPLITTER = 134217729.0

#: Numbers beyond this have squares that float64 does not hold.
LARGEST: Final = 1e150


def to_link(
    values: Floats, scale: str, link: str, out: NDArray[np.float64]
) -> NDArray[np.bool_] | None:
    """Write values of a scale on the scale of a link.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken; returns where, None:
    nowhere.  Logits and raw numbers are never clipped.
    """
    if link == "logit" and scale == "probability":
        exact = values.astype(np.float64, copy=False)
        log_odds(exact, LEAST, out)
        return (exact < LEAST) | (exact > 1.0 - LEAST)
    if link == "identity" and scale == "logit":
        expit(values, out)
    else:
        out[:] = values
    return None


def from_link(values: NDArray[np.float64], scale: str, link: str) -> NDArray[np.float64]:
    """Return values on the scale of a link as probabilities; raw numbers stay what they are."""
    if link == "logit":
        found = np.empty_like(values)
        expit(values, found)
        return found
    return values if scale == "raw" else np.clip(values, 0.0, 1.0)


@dataclass(frozen=True)
class Moments:
    """Sums over rows, without rounding: of parts of the rows, they merge into those of the whole."""

    #: How many replicates there are, and the first that enters the conditional variance.
    members: int
    first: int
    #: In units of 2^-2148: the weights (1 a row without any), those of rows with a clipped value,
    #: each prediction, the squares of the first member, the squares about each row's mean.
    sums: tuple[int, ...]

    def merge(self, *others: Moments) -> Moments:
        """Return the sums over the rows of all."""
        columns = zip(self.sums, *(other.sums for other in others), strict=True)
        return replace(self, sums=tuple(map(sum, columns)))

    @property
    def weight(self) -> Fraction:
        """The sum of the weights, or the number of rows."""
        return Fraction(self.sums[0], _UNIT)

    def estimate(self) -> Segment:
        """Return shrinkage, mean and variances; needs a positive weight.

        The mean is that of the prediction that is shrunk: the extra one if there is one, else the
        first member.  Variances are population forms: of the first member over rows, and of one row
        over replicates, about the mean shift of each.  The shrinkage is 1 where the first member is
        constant.
        """
        weight, clipped, *totals, squares, spread = self.sums
        means = [Fraction(total, weight) for total in totals]
        # Squares below the smallest float are lost: a constant may seem to vary by less than nothing.
        variance = max(Fraction(squares, weight) - means[0] * means[0], Fraction(0))
        replicates = means[self.first : self.members]
        middle = sum(replicates, Fraction(0)) / len(replicates)
        shift = sum(((mean - middle) * (mean - middle) for mean in replicates), Fraction(0))
        # The squares within rows are rounded one by one: equal replicates may fall below 0.
        within = max((Fraction(spread, weight) - shift) / (len(replicates) - 1), Fraction(0))
        shrinkage = 1 - within / variance if variance else Fraction(1)
        return Segment(
            lambda_=nearest_float(shrinkage),
            mean=nearest_float(means[-1] if len(means) > self.members else means[0]),
            fit=VadFit(
                rows=_amount(self.weight),
                variance=nearest_float(variance),
                conditional_variance=nearest_float(within),
                clipped=_amount(Fraction(clipped, _UNIT)),
            ),
        )


def _amount(weight: Fraction) -> int | float:
    """Return a number of rows: an integer where it is whole."""
    return int(weight) if weight.denominator == 1 else nearest_float(weight)


def first_of(options: VadOptions) -> int:
    """Return the first member that enters the conditional variance."""
    return 1 if options.replicates == "bootstrap" else 0


def sum_moments(
    predictions: Sequence[Floats],
    options: VadOptions,
    weight: NDArray[np.float64] | None = None,
    *,
    extra: bool = False,
) -> Moments:
    """Return the sums over rows, on the scale of the link.

    The predictions are the replicates, first the one in service; `extra`: then comes a further one,
    calibrated probabilities, of which only the mean is wanted.  Rows count by their weight, if any.
    """
    members, first = len(predictions) - extra, first_of(options)
    bins = np.zeros((len(predictions) + 2, _WIDTH, 2), np.int64)
    rows, clipped = ExactSum(), ExactSum()
    room = np.empty(len(predictions) * _BLOCK)  # taken once: fresh memory costs more than the sums
    for start in range(0, predictions[0].size, _BLOCK):
        own = slice(start, start + _BLOCK)
        size = predictions[0][own].size
        links, moved = room[: len(predictions) * size].reshape(-1, size), np.zeros(size, np.bool_)
        for place, values in enumerate(predictions):
            scale = measure(options.scale) if place < members else "probability"
            outside = to_link(values[own], scale, options.link, links[place])
            if outside is not None:
                moved |= outside
        square, rest = _squares(links[0])
        spread = _spreads(links[first:members])
        times = None if weight is None else weight[own]
        factors = NO_FACTORS if times is None else times.view(np.int64)
        columns = [*enumerate(links), (-2, square), (-2, rest), (-1, spread)]
        for place, values in columns:
            add_columns(values.view(np.int64), factors, NO_CODES, LEAST_PRODUCT, bins[place, None])
        if times is None:
            rows.units += size * _UNIT
            clipped.units += int(np.count_nonzero(moved)) * _UNIT
        else:
            rows.add(times)
            clipped.add(times[moved])
    totals = (bins_total(part) for part in bins)
    return Moments(members, first, (rows.units, clipped.units, *totals))


def _squares(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two numbers for each value that together are its square, without rounding."""
    high = _SPLITTER * values - (_SPLITTER * values - values)
    low = values - high
    square = values * values
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _spreads(links: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squares of each column about its mean, added row by row.

    numpy's own sums take another order where there is one column only.
    """
    mean, spread = np.zeros((2, links.shape[1]))
    for own in links:
        mean += own
    mean /= len(links)
    for own in links:
        apart = own - mean
        spread += np.square(apart, out=apart)
    return spread
