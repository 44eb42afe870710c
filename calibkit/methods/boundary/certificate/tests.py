"""The tests of a certificate: in a fixed sequence along a path, by exact binomial tails or by bets.

The hypothesis about a boundary is that it violates the bound on new data.  Given how many rows take
part (selected ones for precision, positives for recall, negatives for the false positive rate, all
for a share of rows), the number of hits among them is binomial, whatever the model and the data, so
its tail is an exact p-value.  Along a sequence that was fixed without the rows that test, one goes on
while each test rejects at level ``1 - confidence``.  Some boundary that violates the bound can be
certified only if the *first* such one is rejected, which happens with probability ``1 - confidence``
at most: no correction for the number of tests is needed.

Where rows are neither alike nor alone (weights, values, groups) a figure is a ratio of sums over units,
a unit being a row or the rows of a group: precision >= P says that ``sum w (y - P)`` over the selected
rows is at least 0 on average.  What a unit adds to that sum is bounded only if weights, values and
groups are, and that is an assumption; the rest is a bet on each unit, see
`calibkit_kernels.distributions`. What is staked at a boundary comes from the part that fits.  The units
follow each other at random, by hashes that depend on the seed: rows may come in any order.

Source: A. N. Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan, L. Lei, "Learn then test:
calibrating predictive algorithms to achieve risk control", section on fixed sequence testing;
P. Bauer, "Multiple testing in clinical trials", Statistics in Medicine 10 (1991).
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from functools import cached_property
from math import ceil, log, sqrt
from typing import Self

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, UInt8s, UInt64s
from calibkit.methods.boundary.certificate.decisions import Gaps, rates_of
from calibkit.numerics.bounds import Bound
from calibkit.numerics.distributions import normal_quantile
from calibkit_kernels.distributions import bound as binomial_bound
from calibkit_kernels.distributions import lower_tail, normal_cdf, units_to_reach, upper_tail

#: Trials without a signal that are added: what few rows promise is not believed.
_CAUTION = 10.0
#: The power that the advice on more rows aims at.
_POWER = 0.9
#: Shares of the error probability that may go to the recall where two binomials decide.
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
#: Boundaries whose margins are within so many standard errors of the best one are as good to begin at:
#: the part that fits does not tell them apart, and the fewer are tested the fewer fail by chance.
_ALIKE = 0.1
#: The highest share of the capital that one unit of a bet may lose.
_MOST = 0.9
#: The signal at which a bet is as likely to be won as not, in units of ``sqrt(2 log(1 / level))``: that
#: of a Brownian motion whose stake suits this drift.
_EVEN = 0.81


class Quantity(Struct, frozen=True):
    """A figure (``precision``, ``recall``, ``fpr``, ``capacity``) that is certified against a bound."""

    name: str
    bound: Bound

    @property
    def at_least(self) -> bool:
        """Whether the figure is bounded from below."""
        return self.name in ("precision", "recall")

    @property
    def strict_first(self) -> bool:
        """Whether tests go from boundaries that select few rows to those that select many."""
        return self.name != "recall"

    @property
    def impossible(self) -> bool:
        """Whether no number of rows can show that the bound is met."""
        return self.bound.numerator == (self.bound.denominator if self.at_least else 0)

    def hits_and_trials(self, counts: Floats, rows: float, positives: float) -> Floats:
        """Return hits and trials, shape (boundaries, 2), of selected rows and positives."""
        selected, hits = counts[:, 0], counts[:, 1]
        known = {"precision": (hits, selected), "recall": (hits, positives)}
        known["fpr"] = selected - hits, rows - positives
        part, whole = known.get(self.name, (selected, rows))
        return np.column_stack((part, np.full_like(part, whole)))

    def size(self, hits: Floats, rows: Floats) -> float:
        """Return how many rows a boundary is expected to select, given expected positives."""
        found = self.hits_and_trials(np.column_stack((rows, hits)), rows[-1], hits[-1])
        slack = found[:, 0] - float(self.bound) * found[:, 1]
        met = np.flatnonzero(slack >= 0.0 if self.at_least else slack <= 0.0)
        if met.size == 0:
            return 0.0
        return float(rows[met[-1] if self.strict_first else met[0]])

    def p_value(self, hits: int, trials: int) -> float:
        """Return the largest probability, over all violations, of so good a count."""
        rest = (self.bound.denominator - self.bound.numerator) / self.bound.denominator
        tail = upper_tail if self.at_least else lower_tail
        return float(tail(hits, trials, float(self.bound), rest))


class Binomials(Struct, frozen=True, dict=True):
    """Exact binomial tests of one figure.

    Hits and trials of each boundary are those that the fitting part lets one expect, and those that
    are found among the rows that test; `level` is the error probability of the first tests.
    """

    quantity: Quantity
    expected: Floats
    found: Int64s
    level: float

    @classmethod
    def hoped(
        cls, quantity: Quantity, counts: Floats, fitted: Several[int], rows: int, level: float
    ) -> Self:
        """Return the tests before anything is found, for their power.

        `counts` are rows and positives that each boundary is expected to select of the part that fits,
        which has as many as `fitted` says; `rows` test.
        """
        expected = quantity.hits_and_trials(counts, *fitted) * (rows / max(fitted[0], 1))
        return cls(quantity, expected, np.zeros(expected.shape, np.int64), level)

    @cached_property
    def hopes(self) -> tuple[Floats, Floats]:
        """See `Test`."""
        bound = float(self.quantity.bound)
        hits, trials = self.expected[:, 0], self.expected[:, 1]
        spread = np.sqrt(max(bound * (1.0 - bound), 1e-12) * (trials + _CAUTION))
        found: Floats = (hits - bound * trials) / spread
        wanted = np.full(found.size, -normal_quantile(self.level))
        return found if self.quantity.at_least else -found, wanted

    @property
    def limits(self) -> Floats:
        """The bound that a first test of each boundary is as likely to certify as not."""
        trials = np.maximum(self.expected[:, 1], 1.0)
        rate, error = rates_of(self.expected[:, 0], trials)
        reach = self.hopes[1] * error
        return np.clip(rate - reach if self.quantity.at_least else rate + reach, 0.0, 1.0)

    def rejects(self, place: int, level: float) -> bool:
        """Return whether the violation of the bound is rejected for a boundary."""
        hits, trials = self.found[place].tolist()
        return self.quantity.p_value(hits, trials) <= level


class TwoBinomials(Struct, frozen=True, dict=True):
    """Tests of a figure at another base rate: ``a recall + b false positive rate >= c``.

    Given the numbers of positive and of negative rows, the selected ones of either class are
    independent binomials.  One end of each rate's interval is put in its place; the error probability
    is shared between the two in the way that the fitting part lets expect most of.
    """

    #: `weights, least`: a and b, of different signs or both negative; and c.
    weights: tuple[float, float]
    least: float
    #: `expected, found`: shape (boundaries, 2): selected positive and negative rows, as in
    #: `Binomials`.
    expected: Floats
    found: Floats
    totals: tuple[int, int]  # positive and negative rows that test
    level: float  # the error probability of the first tests

    @cached_property
    def _shared(self) -> tuple[Floats, Floats, Int64s]:
        """The hopes, and the share of the error probability that costs each boundary least."""
        trials = np.maximum(np.array(self.totals, np.float64), 1.0)
        rates, errors = rates_of(self.expected, trials)
        errors = np.abs(self.weights) * errors  # of the two terms
        spread = np.hypot(errors[:, 0], errors[:, 1])
        signals = (rates @ np.array(self.weights) - self.least) / spread
        pairs = [[share * self.level, (1.0 - share) * self.level] for share in _SHARES]
        quantiles = -np.array([[normal_quantile(one) for one in pair] for pair in pairs])
        costs = (errors / spread[:, None]) @ quantiles.T
        return signals, costs.min(axis=1), np.argmin(costs, axis=1)

    @property
    def hopes(self) -> tuple[Floats, Floats]:
        """See `Test`."""
        return self._shared[:2]

    def rejects(self, place: int, level: float) -> bool:
        """Return whether the violation of the bound is rejected for a boundary."""
        if not min(self.totals):
            return False
        share, reached = _SHARES[int(self._shared[2][place])], 0.0
        levels = share * level, (1.0 - share) * level
        for hits, total, own, weight in zip(
            self.found[place], self.totals, levels, self.weights, strict=True
        ):
            reached += weight * binomial_bound(int(hits), total, own, weight < 0.0)
        return reached >= self.least


def at_base_rate(quantity: Quantity, base_rate: Bound) -> tuple[tuple[float, float], float]:
    """Return `TwoBinomials.weights` and `TwoBinomials.least` of precision or capacity at a base rate.

    With base rate q and precision P, ``q TPR / (q TPR + (1 - q) FPR) >= P`` is
    ``q (1 - P) TPR - (1 - q) P FPR >= 0``; the share selected is ``q TPR + (1 - q) FPR``.
    """
    q, bound = float(base_rate), float(quantity.bound)
    if quantity.name == "precision":
        return (q * (1.0 - bound), -(1.0 - q) * bound), 0.0
    return (-q, q - 1.0), -bound


# ---------------------------------------------------------------- bets


class Units(Struct, frozen=True):
    """What rows pay, in the order of the bets."""

    first: Int64s  # the first boundary of the path that selects each row
    #: `outside, inside`: what a row pays while it is not selected, and when it is, in units of the
    #: largest loss.
    outside: Floats
    inside: Floats
    starts: Int64s  # where each unit begins, and the number of rows

    def moments(self, places: int) -> tuple[Floats, Floats]:
        """Return the sums over the units of what each boundary pays, and of its squares."""
        unit = np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))
        order = np.lexsort((self.first, unit))
        change = (self.inside - self.outside)[order]
        base = np.bincount(unit, self.outside, self.starts.size - 1)
        run = np.cumsum(change)
        start = np.append(0.0, run)[self.starts[:-1]]
        after = run + (base - start)[unit]
        found = np.zeros((2, places + 1))
        np.add.at(found[0], self.first[order], change)
        np.add.at(found[1], self.first[order], after**2 - (after - change) ** 2)
        found = np.cumsum(found, axis=1)[:, :places]
        return found[0] + base.sum(), found[1] + float(base @ base)

    def in_order(self, keys: UInt64s, groups: UInt64s | None) -> Units:
        """Return the rows in the order of random keys, those of a group together as one unit."""
        starts = np.arange(keys.size + 1)
        if groups is None:
            order = np.argsort(keys, kind="stable")
        else:
            order = np.lexsort((keys, groups))
            ordered = groups[order]
            new = np.append(True, ordered[1:] != ordered[:-1])
            starts = np.append(np.flatnonzero(new), keys.size)
        starts = starts.astype(np.int64)
        return Units(self.first[order], self.outside[order], self.inside[order], starts)


def pays(
    quantity: Quantity, label: UInt8s, amount: Floats, largest: float
) -> tuple[Floats, Floats]:
    """Return what rows pay outside and inside a selection, in units of the largest loss.

    `amount` is how much each row counts: its weight, for a recall of values times its value; and
    `largest` the most that the rows of a unit may count for together.
    """
    bound = float(quantity.bound)
    sign, loss = (1.0, bound) if quantity.at_least else (-1.0, 1.0 - bound)
    amount = amount / (largest * (loss or 1.0))
    if quantity.name == "precision":
        return np.zeros(amount.size), amount * (label - bound)
    if quantity.name == "recall":
        amount = amount * label
    elif quantity.name == "fpr":
        amount = amount * (1 - label)
    return -sign * amount * bound, sign * amount * (1.0 - bound)


class Bets(Struct, frozen=True, dict=True):
    """Tests of one figure by betting, on the units of the part that tests.

    `places` is how many boundaries the path has, `level` the error probability of the first tests.
    """

    fitting: Units
    testing: Units
    places: int
    level: float

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """What each boundary is expected to pay a unit, and the expected square of that."""
        sums, squares = self.fitting.moments(self.places)
        units = max(self.fitting.starts.size - 1, 1)
        largest = max(np.abs(self.fitting.inside).max(initial=0.0), 1e-12)
        return sums / units, (squares + largest**2) / units

    @cached_property
    def hopes(self) -> tuple[Floats, Floats]:
        """See `Test`."""
        mean, square = self._moments
        wanted = np.full(self.places, _EVEN * sqrt(-2.0 * log(self.level)))
        return mean * np.sqrt((self.testing.starts.size - 1) / square), wanted

    @cached_property
    def stakes(self) -> Floats:
        """What is staked: enough to win soon where a boundary pays, else just by the last unit."""
        mean, square = self._moments
        least = np.sqrt(-2.0 * log(self.level) / (square * max(self.testing.starts.size - 1, 1)))
        return np.clip(np.maximum(mean / square, least), 0.0, _MOST)

    def rejects(self, place: int, level: float) -> bool:
        """Return whether the violation of the bound is rejected for a boundary."""
        units = self.testing
        arrays = units.first, units.outside, units.inside, units.starts
        return units_to_reach(*arrays, place, float(self.stakes[place]), -log(level)) > 0


# ---------------------------------------------------------------- sequences

#: What tests the boundaries of a path against one bound, made for the level of the first tests: its
#: `hopes` are by how many standard errors each boundary is expected to keep the bound, and at how many
#: such a test is as likely to reject as not; what is rejected at a level is at every larger one.
Test = Binomials | TwoBinomials | Bets | Gaps


class Chain(Struct, dict=True):
    """Boundaries of one path in the order of their tests: each only if the one before is rejected.

    A test of several bounds rejects where those of all of them do: a boundary that violates one of
    them is then certified no more often than if this were the only one.
    """

    tests: Several[Test]  # one for each bound
    #: Whether tests go from boundaries that select few rows to those that select many.
    strict_first: bool
    selected: Floats  # how many of the rows that test each boundary selects
    place: int = -1  # the last boundary that was rejected, -1 before any
    _next: int = 0

    @cached_property
    def margins(self) -> Floats:
        """By how many standard errors a first test of each boundary is expected to reject."""
        return np.minimum.reduce([np.subtract(*one.hopes) for one in self.tests])

    @cached_property
    def places(self) -> Int64s:
        """The boundaries in the order of their tests: first the last one of about the most power."""
        near = np.flatnonzero(self.margins >= self.margins.max() - _ALIKE)
        if self.strict_first:
            return np.arange(near[-1], self.margins.size)
        return np.arange(near[0], -1, -1)

    @property
    def power(self) -> float:
        """The highest probability with which a first test is expected to reject."""
        return normal_cdf(float(self.margins.max()))

    @property
    def certifies(self) -> bool:
        """Whether a boundary is certified that selects some row."""
        return self.place >= 0 and bool(self.selected[self.place] > 0)

    @property
    def done(self) -> bool:
        """Whether every boundary was rejected."""
        return self._next == self.places.size

    def walk(self, level: float) -> None:
        """Go on until a test at a level does not reject."""
        while not self.done:
            place = int(self.places[self._next])
            if not all(one.rejects(place, level) for one in self.tests):
                return
            self.place, self._next = place, self._next + 1

    def rows_needed(self, rows: int) -> int | None:
        """Return about how many rows the best test would need, nine times in ten; None: none do."""
        needed, best = [], int(np.argmax(self.margins))
        for one in self.tests:
            signal, wanted = (float(own[best]) for own in one.hopes)
            if signal <= 0.0:
                return None
            needed.append(ceil(rows * ((wanted + normal_quantile(_POWER)) / signal) ** 2))
        return max(needed)


def walk_all(chains: Several[Chain], level: float) -> None:
    """Test the boundaries of several chains, so that all that is rejected holds together.

    Each chain begins with an equal share of the error probability.  One that has come to its end
    passes its share on to those that have not, in equal parts, and these go on from where they stood.

    Source: F. Bretz, W. Maurer, W. Brannath, M. Posch, "A graphical approach to sequentially rejective
    multiple test procedures", Statistics in Medicine 28 (2009), algorithm 1.
    """
    waiting = list(chains)
    while waiting:
        for chain in waiting:
            chain.walk(level / len(waiting))
        left = [chain for chain in waiting if not chain.done]
        if len(left) == len(waiting):
            return
        waiting = left
