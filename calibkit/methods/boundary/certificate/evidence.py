"""What the rows that certify say of the boundaries of paths: counts where rows are alike, else bets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.certificate.bets import Bets, Units, in_order, pays
from calibkit.methods.boundary.certificate.dealing import Split, betting_keys, values_of
from calibkit.methods.boundary.certificate.paths import Path, joined
from calibkit.methods.boundary.certificate.tests import (
    Binomials,
    Chain,
    Quantity,
    Test,
    TwoBinomials,
    at_base_rate,
)
from calibkit.methods.boundary.solvers.curved import Sizes
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.tally import count_rows

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """A path, and the rows of its segment: their places in the part that fits and in the other one."""

    path: Path
    fitting: Int64s
    testing: Int64s


@dataclass(frozen=True)
class Ground:
    """What is certified, and of what rows.

    Attributes
    ----------
    options
        What is asked for.
    weighted
        Whether rows count for different amounts.
    limits
        The largest weight, value and group that are assumed.
    """

    options: BoundaryOptions
    weighted: bool
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def level(self) -> float:
        """The error probability that is allowed."""
        confidence = self.options.confidence_level
        assert confidence is not None
        return (confidence.denominator - confidence.numerator) / confidence.denominator

    @cached_property
    def quantities(self) -> list[Quantity]:
        """What is certified."""
        each = self.options.target.each
        return [Quantity(one.option, one.bound) for one in each if one.bound is not None]

    def bets_on(self, name: str) -> bool:
        """Return whether a figure is tested by bets."""
        of_values = name == "recall" and self.options.value is not None
        return self.weighted or self.options.groups is not None or of_values

    def largest(self, name: str) -> float:
        """Return the most that a unit of the bets on a figure may count for."""
        found = self.limits.get("max_weight", 1.0) * self.limits.get("max_group_rows", 1.0)
        return found * (self.limits.get("max_value", 1.0) if name == "recall" else 1.0)

    @property
    def strict_first(self) -> bool:
        """Whether tests go from boundaries that select few rows to those that select many."""
        return any(one.strict_first for one in self.quantities)

    def sizes(self, rows: ScoreRows) -> Sizes:
        """Return how many rows a boundary is expected to select, given expected positives."""
        assert rows.label is not None
        bounding = [one for one in self.quantities if one.strict_first] or self.quantities
        positives, base_rate = int(rows.label.sum()), self.options.target.prevalence
        weights = 1.0, 1.0
        if base_rate is not None and 0 < positives < rows.label.size:
            share = float(base_rate)
            weights = share / positives, (1.0 - share) / (rows.label.size - positives)

        def size(hits: Floats, selected: Floats) -> float:
            caught = hits * weights[0]
            taken = caught + (selected - hits) * weights[1]
            found = min(one.size(caught, taken) for one in bounding)
            return float(selected[min(int(np.searchsorted(taken, found)), selected.size - 1)])

        return size


def chain_of(
    stretches: Sequence[Stretch], split: Split, ground: Ground, level: float
) -> tuple[Chain, Int64s]:
    """Return the tests of one path, or of one over several segments.

    Parameters
    ----------
    stretches
        The segments.
    split
        All rows.
    ground
        What is certified.
    level
        The error probability of the first tests.

    Returns
    -------
    The tests, and the place of each of their boundaries on the path of each segment.
    """
    table = joined([one.path.expected for one in stretches])
    together = _Together(stretches, split, ground, level, table)
    tests = [together.test(one) for one in ground.quantities]
    return Chain(tests, ground.strict_first, together.selected), table


@dataclass(frozen=True)
class _Together:
    """The segments that share a path; `table` has the places on theirs, -1 before the first."""

    stretches: Sequence[Stretch]
    split: Split
    ground: Ground
    level: float
    table: Int64s

    @property
    def selected(self) -> Floats:
        """How many of the rows that certify each boundary selects."""
        found: Floats = self._found[0][:, 0]
        return found

    def test(self, quantity: Quantity) -> Test:
        """Return the tests of one figure along the path."""
        if self.ground.bets_on(quantity.name):
            units = [self._units(quantity, fitting=fitting) for fitting in (True, False)]
            return Bets(units[0], units[1], self.table.shape[0], self.level)
        (expected, before), (found, totals) = self._expected, self._found
        base_rate = self.ground.options.target.prevalence
        if base_rate is not None and quantity.name in ("precision", "capacity"):
            weights, least = at_base_rate(quantity, base_rate)
            classes = (totals[1], totals[0] - totals[1])
            ratios = np.array(classes) / np.maximum([before[1], before[0] - before[1]], 1)
            return TwoBinomials(
                weights, least, _by_class(expected) * ratios, _by_class(found), classes, self.level
            )
        ratio = totals[0] / max(before[0], 1)
        return Binomials(
            quantity,
            quantity.hits_and_trials(expected, *before) * ratio,
            quantity.hits_and_trials(found, *totals).astype(np.int64),
            self.level,
        )

    def _summed(self, sums: Sequence[NDArray[np.generic]]) -> Floats:
        """Return what the boundaries of all segments select together."""
        nothing = np.zeros((1, 2))
        padded = [np.vstack((nothing, own)) for own in sums]
        found: Floats = np.sum([own[self.table[:, k] + 1] for k, own in enumerate(padded)], axis=0)
        return found

    @cached_property
    def _expected(self) -> tuple[Floats, tuple[int, int]]:
        """Rows and positives that each boundary is expected to select of the part that fits; all."""
        totals = np.sum([one.path.totals for one in self.stretches], axis=0)
        expected = self._summed([one.path.expected for one in self.stretches])
        return expected, (int(totals[0]), int(totals[1]))

    @cached_property
    def _found(self) -> tuple[Floats, tuple[int, int]]:
        """Rows and positives that each boundary selects of the rows that certify, and all of these."""
        counts, rows, positives = [], 0, 0
        for one in self.stretches:
            part = self.split.certifying
            if one.testing.size < part.score.size:
                part = part.only(one.testing)
            assert part.label is not None
            levels, workers = one.path.levels, self.ground.options.workers
            level = levels.of(part.uncertainty, part.score.size)
            tally = count_rows(part.score, level, part.label, levels.count, threads=workers)
            counts.append(one.path.counts(tally))
            rows, positives = rows + part.score.size, positives + int(np.count_nonzero(part.label))
        return self._summed(counts), (rows, positives)

    def _units(self, quantity: Quantity, *, fitting: bool) -> Units:
        """Return what the rows of a part pay, in the order of the bets."""
        part = self.split.fitting if fitting else self.split.certifying
        assert part.label is not None
        places = [one.fitting if fitting else one.testing for one in self.stretches]
        options, boundaries = self.ground.options, self.table.shape[0]
        first = np.full(part.score.size, boundaries, np.int64)
        inside = np.zeros(part.score.size, bool)
        for own, (stretch, rows) in enumerate(zip(self.stretches, places, strict=True)):
            score, spread = part.score[rows], part.uncertainty
            level = stretch.path.levels.of(None if spread is None else spread[rows], rows.size)
            at = stretch.path.first(score, level)
            first[rows] = np.searchsorted(self.table[:, own], at, side="left")
            inside[rows] = True
        amount = np.ones(part.score.size) if part.weight is None else part.weight
        if quantity.name == "recall":
            amount = amount * values_of(part, options)
        largest = self.ground.largest(quantity.name)
        kept = np.flatnonzero(inside)
        keys, groups = betting_keys(part, options)
        out, taken = pays(quantity, part.label[kept], amount[kept], largest)
        units = Units(first[kept], out, taken, np.empty(0, np.int64))
        return in_order(units, keys[kept], None if groups is None else groups[kept])


def _by_class(counts: Floats) -> Floats:
    """Return selected positive and negative rows."""
    return np.column_stack((counts[:, 1], counts[:, 0] - counts[:, 1]))
