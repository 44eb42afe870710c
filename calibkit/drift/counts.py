"""What is counted of new rows, window by window: numbers that add up whatever the cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.quantiles import place_between
from calibkit.methods.boundary.result.parts import Reference, threshold_value
from calibkit.numerics.sums import ExactSum, group_fractions

Floats = NDArray[Any]


@dataclass(frozen=True)
class Outline:
    """A column of the fitting rows, as the model knows it.

    Attributes
    ----------
    quantiles
        The smallest value and the inner edges of the bins; see `place_between`.
    counts
        The fitting rows of each bin.
    largest
        The largest value.
    """

    quantiles: NDArray[np.float64]
    counts: tuple[float, ...]
    largest: float

    def bins(self, values: Floats) -> NDArray[np.int64]:
        """Return the bin of each value."""
        return place_between(values, self.quantiles).astype(np.int64)

    def outside(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values lie outside the range of the fitting rows."""
        found: NDArray[np.bool_] = (values < self.quantiles[0]) | (values > self.largest)
        return found


def outlines(reference: Reference, *, uncertain: bool) -> dict[str, Outline]:
    """Return the outlines of the columns that a boundary reads, by role."""
    found = {}
    for role in ("score", "uncertainty") if uncertain else ("score",):
        quantiles, counts, largest = (
            getattr(reference, f"{role}_{part}") for part in ("quantiles", "counts", "max")
        )
        if quantiles is not None and counts is not None:
            ends = np.array([threshold_value(value) for value in quantiles])
            found[role] = Outline(ends, tuple(counts), threshold_value(largest))
    return found


@dataclass
class Counts:
    """Sums over rows; each row counts as its weight.

    Attributes
    ----------
    sums
        By name: ``rows`` (of weight), ``squares`` (of weights), ``selected``, ``outside``; with labels
        also ``labelled``, ``positives``, ``labelled_selected`` and ``hits``.  By role the rows in
        each bin of a column.
    read, missing
        Rows, whatever they weigh: all of them, and those without a value, which count nowhere else.
    """

    sums: dict[str, list[Fraction]] = field(default_factory=dict)
    read: int = 0
    missing: int = 0

    def set(self, name: str, values: NDArray[np.float64]) -> None:
        """Set a sum to that of a column."""
        total = ExactSum()
        total.add(values)
        self.sums[name] = [total.fraction]

    def set_bins(
        self, role: str, place: NDArray[np.int64], bins: int, weight: Floats | None
    ) -> None:
        """Set the rows in each bin of a column."""
        if weight is None:
            self.sums[role] = [Fraction(int(n)) for n in np.bincount(place, minlength=bins)]
        else:
            self.sums[role] = group_fractions(weight, place, bins)

    def merge(self, *others: Counts) -> Counts:
        """Return what was counted of the rows of all."""
        parts = (self, *others)
        found = Counts({}, sum(part.read for part in parts), sum(part.missing for part in parts))
        for name in dict.fromkeys(name for part in parts for name in part.sums):
            columns = [part.sums[name] for part in parts if name in part.sums]
            found.sums[name] = [sum(values, Fraction(0)) for values in zip(*columns, strict=True)]
        return found

    def value(self, name: str) -> float:
        """Return a sum over all rows."""
        return float(sum(self.sums.get(name, ())))
