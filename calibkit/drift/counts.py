"""What is counted of new rows, window by window: numbers that add up whatever the cut."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.quantiles import place_between
from calibkit.methods.boundary.result.parts import Reference, threshold_value
from calibkit.numerics.sums import ExactSum, group_fractions

Floats = NDArray[Any]

#: What sums of a cell are called: a bin of the score, a range of the logit, whether selected.
CELL: Final = re.compile(r"cell (\d+) (-?\d+) ([01])")

#: Ranges of the logit of a probability in a unit of it, more than there are of all, and the least
#: probability told from 0.
_RANKS: Final = 64.0
_SPAN: Final = 4096
_LEAST: Final = 1e-9


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
        each bin of a column.  By cell what `set_cells` says.
    read, missing
        Rows, whatever they weigh: all of them, and those without a value, which count nowhere else.
    hash
        The sum of the hashes of the rows that have all values; 0 where none was asked for.
    """

    sums: dict[str, list[Fraction]] = field(default_factory=dict)
    read: int = 0
    missing: int = 0
    hash: int = 0

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

    def set_cells(
        self, probability: Floats, place: NDArray[np.int64], chance: Floats, weight: Floats
    ) -> None:
        """Set the rows, and the sums of their probabilities, of cells of rows that are alike.

        A cell is a bin of the score, a narrow range of the logit of the probability, and whether the
        boundary selects; a row that it may select counts in both, by its chance.
        """
        inner = np.clip(probability, _LEAST, 1.0 - _LEAST)
        rank = np.floor(_RANKS * np.log(inner / (1.0 - inner))).astype(np.int64)
        code = place * _SPAN + rank + _SPAN // 2
        for selected, share in ((0, weight * (1.0 - chance)), (1, weight * chance)):
            some = share > 0.0
            keys, own = np.unique(code[some], return_inverse=True)
            rows = group_fractions(share[some], own, keys.size)
            means = group_fractions(probability[some], own, keys.size, times=share[some])
            for key, *sums in zip(keys.tolist(), rows, means, strict=True):
                bin_of, low = divmod(key, _SPAN)
                self.sums[f"cell {bin_of} {low - _SPAN // 2} {selected}"] = sums

    def cells(self) -> list[tuple[int, int, int, float, float]]:
        """Return bin, range and 0 or 1 of each cell, its rows and the sum of their probabilities."""
        found = []
        for name, sums in self.sums.items():
            cell = CELL.fullmatch(name)
            if cell is not None:
                place, rank, selected = (int(part) for part in cell.groups())
                found.append((place, rank, selected, float(sums[0]), float(sums[1])))
        return sorted(found)

    def merge(self, *others: Counts) -> Counts:
        """Return what was counted of the rows of all."""
        parts = (self, *others)
        read, missing = sum(part.read for part in parts), sum(part.missing for part in parts)
        found = Counts({}, read, missing, sum(part.hash for part in parts))
        for name in dict.fromkeys(name for part in parts for name in part.sums):
            columns = [part.sums[name] for part in parts if name in part.sums]
            found.sums[name] = [sum(values, Fraction(0)) for values in zip(*columns, strict=True)]
        return found

    def value(self, name: str) -> float:
        """Return a sum over all rows."""
        return float(sum(self.sums.get(name, ())))
