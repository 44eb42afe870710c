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
from calibkit.numerics.sums import LEAST_PRODUCT, ExactSum, bins_total, nearest_float
from calibkit.options.vad import VadOptions
from calibkit_kernels import sums, vad
from calibkit_kernels.decide import LEAST
from calibkit_kernels.reliability import expit
from calibkit_kernels.vad import clipped_logits

Floats = NDArray[Any]

#: Rows on the scale of the link at a time, few enough for them to stay in the cache.
_BLOCK = 8192

#: A product of two float64 lies below 2^2048; the bins begin at the smallest one.
_WIDTH = 2048 - LEAST_PRODUCT

_UNIT = 1 << -LEAST_PRODUCT

#: Numbers beyond this have squares that float64 does not hold.
LARGEST: Final = 1e150


def to_link(
    values: Floats,
    scale: str,
    link: str,
    out: NDArray[np.float64],
    clipped: NDArray[np.uint8],
) -> None:
    """Write values of a scale on the scale of a link.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken, and
    `clipped` is set to 1 there.  Logits and raw numbers are never clipped.
    """
    if link == "logit" and scale == "probability":
        clipped_logits(values, LEAST, out, clipped)
    elif link == "identity" and scale == "logit":
        expit(values, out)
    else:
        out[:] = values


def from_link(values: NDArray[np.float64], scale: str, link: str) -> NDArray[np.float64]:
    """Return values on the scale of a link as probabilities; raw numbers stay what they are."""
    if link == "logit":
        found = np.empty_like(values)
        expit(values, found)
        return found
    return values if scale == "raw" else np.clip(values, 0.0, 1.0)


@dataclass(frozen=True)
class Columns:
    """Predictions, row by row.

    Attributes
    ----------
    members
        The replicates, first the one in service.
    extra
        A further prediction, calibrated probabilities, of which only the mean is wanted; or None.
    weight
        Non-negative, or None.
    """

    members: Sequence[Floats]
    extra: Floats | None = None
    weight: NDArray[np.float64] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.members[0].size)

    def take(self, rows: NDArray[np.int64] | slice) -> Columns:
        """Return some of the rows."""
        return Columns(
            [column[rows] for column in self.members],
            None if self.extra is None else self.extra[rows],
            None if self.weight is None else self.weight[rows],
        )


@dataclass(frozen=True)
class Moments:
    """Sums over rows, without rounding: of parts of the rows, they merge into those of the whole.

    Attributes
    ----------
    members, first
        How many replicates there are, and the first that enters the conditional variance.
    sums
        In units of 2^-2148: the weights (1 a row without any), those of rows with a clipped value,
        each prediction, the squares of the first member, the squares about each row's mean.
    """

    members: int
    first: int
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


def sum_moments(columns: Columns, options: VadOptions) -> Moments:
    """Return the sums over all rows, on the scale of the link."""
    sums = _Sums(columns, options)
    for start in range(0, columns.rows, _BLOCK):
        sums.add(columns.take(slice(start, start + _BLOCK)))
    return sums.finish()


class _Sums:
    """The summary of predictions: room for one block of links, and the sums over all so far."""

    def __init__(self, like: Columns, options: VadOptions) -> None:
        self.options, self.first = options, first_of(options)
        self.members = len(like.members)
        self.columns = self.members + (like.extra is not None)
        self.links = np.empty((self.columns, _BLOCK))
        # Square, its rounding, spread; the means of rows are of no use.
        self.derived = np.empty((4, _BLOCK))
        self.bins = np.zeros((self.columns + 2, _WIDTH, 2), np.int64)
        self.weight, self.clipped = ExactSum(), ExactSum()

    def add(self, block: Columns) -> None:
        """Add a block of rows."""
        size, options = block.rows, self.options
        # Contiguous for every size: a kernel is compiled for each layout.
        links = self.links.reshape(-1)[: self.columns * size].reshape(self.columns, size)
        square, rest, spread, mean = self.derived[:, :size]
        clipped = np.zeros(size, np.uint8)
        predictions = [*block.members, *([] if block.extra is None else [block.extra])]
        for place, values in enumerate(predictions):
            scale = measure(options.scale) if place < self.members else "probability"
            to_link(values, scale, options.link, links[place], clipped)
        vad.squares(links[0], square, rest)
        vad.row_spreads(links, self.first, self.members, mean, spread)
        weight = block.weight
        for place, values in enumerate(links):
            self._sum(values, weight, place)
        self._sum(square, weight, self.columns)
        self._sum(rest, weight, self.columns)
        self._sum(spread, weight, self.columns + 1)
        if weight is None:
            self.weight.units += size * _UNIT
            self.clipped.units += int(np.count_nonzero(clipped)) * _UNIT
        else:
            self.weight.add(weight)
            self.clipped.add(weight[clipped > 0])

    def _sum(
        self, values: NDArray[np.float64], weight: NDArray[np.float64] | None, place: int
    ) -> None:
        bits, bins = values.view(np.int64), self.bins[place]
        if weight is None:
            sums.sum_floats(bits, LEAST_PRODUCT, bins)
        else:
            sums.sum_products(bits, weight.view(np.int64), LEAST_PRODUCT, bins)

    def finish(self) -> Moments:
        """Return the sums so far."""
        totals = (bins_total(part) for part in self.bins)
        sums = (self.weight.units, self.clipped.units, *totals)
        return Moments(self.members, self.first, sums)
