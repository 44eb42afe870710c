"""Tests by betting: valid whenever one looks, however often.

A promise is tested night by night.  Whoever doubts it bets on each labelled row; a bet pays more than
its stake only where the promise is broken, so that under the promise the capital is a nonnegative
supermartingale and passes 1 / alpha in the whole of time with probability alpha at most (Ville, Étude
critique de la notion de collectif, 1939; Waudby-Smith and Ramdas, Estimating means of bounded random
variables by betting, 2024).  The stakes are fixed before any row is seen: a mixture over fractions of
the highest stake, and over the night from which one bets, with weights 1 / (s (s + 1)).  So a good past
does not hide a fall: what is lost by waiting for it is logarithmic in the number of nights (Shin,
Ramdas and Rinaldo, E-detectors, 2024).

All that is kept of a night are counts of rows that look alike (`Cells`), which add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.roots import rising_root

Floats = NDArray[np.float64]

#: Rows by the chance that they are selected (0 or 1 but where a boundary draws): negatives, positives.
Cells = Mapping[float, tuple[int, int]]

#: Promises that a rate is at least its bound; that of others is at most.
AT_LEAST: Final = ("precision", "recall")
PROMISES: Final = (*AT_LEAST, "fpr")

#: Which shares of the highest stake are bet, each with the same part of the capital.
FRACTIONS: Final[Floats] = np.exp2(-np.arange(1.0, 10.0))

#: The arguments of the exponentials that a confidence sequence mixes.
_RATES: Final[Floats] = np.exp2(2.0 - np.arange(19.0))

#: The highest logarithm of capital that is written as a number.
_HIGHEST: Final = 690.0


@dataclass(frozen=True)
class Promise:
    """A rate of the decisions on each night's rows, and what it is promised to be.

    Attributes
    ----------
    name
        ``precision`` or ``recall`` (at least the bound), or ``fpr`` (at most).
    bound
        Above 0 and below 1.
    """

    name: str
    bound: float

    @property
    def at_least(self) -> bool:
        """Whether the rate is promised to be at least the bound."""
        return self.name in AT_LEAST

    @property
    def text(self) -> str:
        """The promise in symbols."""
        return f"{self.name} {'>=' if self.at_least else '<='} {self.bound:g}"

    @property
    def stakes(self) -> Floats:
        """What is bet: shares of the stake with which one row could lose all."""
        stakes: Floats = FRACTIONS / (1.0 - self.bound if self.at_least else self.bound)
        return stakes

    def counted(self, cells: Cells) -> list[tuple[float, int, int]]:
        """Return the cells of the rate: the share of a row that counts, other rows, and hits.

        The rate is the sum of the shares of hits over that of all these rows.
        """
        if self.name == "precision":
            return [(chance, out, hit) for chance, (out, hit) in sorted(cells.items()) if chance]
        found = []
        for chance, (negatives, positives) in sorted(cells.items()):
            found.append((chance, 0, positives if self.name == "recall" else negatives))
        return found

    def payoffs(self, cells: Cells) -> list[tuple[float, int]]:
        """Return what rows pay for each unit of stake, and how many do: at most 0 on average.

        Each lies above -1 / (the highest stake), so that no stake loses more than there is.
        """
        if self.name == "precision":
            return [
                pair
                for chance, out, hit in self.counted(cells)
                for pair in ((chance * self.bound, out), (chance * (self.bound - 1.0), hit))
            ]
        sign = 1.0 if self.at_least else -1.0
        return [(sign * (self.bound - chance), rows) for chance, _, rows in self.counted(cells)]


def night_logs(promise: Promise, cells: Cells) -> Floats:
    """Return by how much a night multiplies the capital at each stake, as logarithms."""
    stakes = promise.stakes
    found = np.zeros(stakes.size)
    for payoff, rows in promise.payoffs(cells):
        found += rows * np.log1p(stakes * payoff)
    return found


@dataclass(frozen=True)
class Evidence:
    """The capital against a promise over the nights.

    Attributes
    ----------
    logs
        The logarithm of the e-process after each night.
    steps
        By how much each night that says something multiplies the capital of each bet, as logarithms.
    places
        Which nights these are.
    """

    logs: Floats
    steps: Floats
    places: NDArray[np.int64]

    def since(self, place: int) -> int:
        """Return the night from which betting pays most, as seen from a later one."""
        until = int(np.searchsorted(self.places, place, side="right"))
        from_each = np.cumsum(self.steps[:until][::-1], axis=0)[::-1]
        return int(self.places[np.argmax(from_each.max(axis=1))])

    def growth(self, recent: int = 7) -> float:
        """Return how much the logarithm grew a night of late, at the bet that does best there."""
        return float(np.mean(self.steps[-recent:], axis=0).max()) if self.places.size else 0.0

    @property
    def e_value(self) -> float:
        """The capital after the last night: 1 before any."""
        return capital(self.logs[-1] if self.logs.size else 0.0)

    @property
    def highest(self) -> float:
        """The highest capital after any night."""
        return capital(max(0.0, float(self.logs.max(initial=0.0))))

    def passed(self, threshold: float) -> int | None:
        """Return the place of the first night after which the capital reached a threshold."""
        places = np.flatnonzero(self.logs >= math.log(threshold))
        return int(places[0]) if places.size else None


def capital(log: float) -> float:
    """Return a capital by its logarithm; beyond e^690, which JSON can still write, that."""
    return math.exp(min(float(log), _HIGHEST))


def evidence(promise: Promise, nights: Sequence[Cells]) -> Evidence:
    """Return the evidence against a promise after each of some nights, in their order."""
    told = [any(rows for _, rows in promise.payoffs(cells)) for cells in nights]
    steps = [
        night_logs(promise, cells) if some else None
        for cells, some in zip(nights, told, strict=True)
    ]
    return mixture(steps, FRACTIONS.size)


def mixture(steps: Sequence[Floats | None], bets: int) -> Evidence:
    """Return the capital of a mixture of bets after each night.

    Nights whose rows say nothing of the promise (None) leave it where it was.  With M(s, t) the product
    of the nights s to t at one bet, the e-process after night t is the mean over bets of
    sum_{s <= t} M(s, t) / (s (s + 1)), and 1 / (t + 1) for what waits for later nights.
    """
    capitals = np.full(bets, -math.inf)
    found, said, places = list[float](), list[Floats](), list[int]()
    for place, step in enumerate(steps):
        if step is not None:
            night = len(said) + 1
            capitals = np.logaddexp(capitals, -math.log(night * (night + 1.0))) + step
            said.append(step)
            places.append(place)
        waiting = -math.log(len(said) + 1.0)
        mean = float(np.logaddexp.reduce(capitals)) - math.log(bets)
        found.append(float(np.logaddexp(mean, waiting)))
    return Evidence(np.array(found), np.array(said).reshape(-1, bets), np.array(places, np.int64))


@dataclass(frozen=True)
class Estimate:
    """A rate over all nights, with the ends of its confidence sequence; None of no row.

    `rows` is how many rows it is of, `low` and `high` hold at all times together.
    """

    value: float | None
    low: float | None
    high: float | None
    rows: int


def estimate(promise: Promise, nights: Sequence[Cells], alpha: float) -> Estimate:
    """Return a rate over all rows of all nights, and its confidence sequence at level 1 - alpha.

    It covers, at all times together, the mean of the nights' conditional rates over these rows, which
    may move.  For x in [0, 1] of conditional mean m, exp(r x) is at most 1 + m (e^r - 1) on average,
    and the product of these is at most the power of their mean; so each value whose mixture over
    r > 0 (low) or r < 0 (high) passes 2 / alpha is out.
    """
    total = whole = 0.0
    rows = 0
    for cells in nights:
        for share, out, hit in promise.counted(cells):
            if promise.name == "precision":
                whole += share * (out + hit)
            else:
                whole += hit
            total += share * hit
            rows += out + hit
    if not rows or not whole:
        return Estimate(None, None, None, rows)
    low, high = mean_sequence(total, rows, alpha)
    scale = rows / whole
    return Estimate(total / whole, max(0.0, low * scale), min(1.0, high * scale), rows)


def mean_sequence(total: float, rows: int, alpha: float) -> tuple[float, float]:
    """Return the ends for the mean of values in [0, 1], of which there are `rows` with a sum."""
    level = math.log(2.0 / alpha)
    low = _end(_RATES * total, rows, total / rows, level, upper=False)
    return low, _end(-_RATES * total, rows, total / rows, level, upper=True)


def _end(logs: Floats, rows: int, mean: float, level: float, *, upper: bool) -> float:
    """Return the mean, on one side of that seen, at which the mixture passes a level."""
    grown = np.expm1(-_RATES if upper else _RATES)

    def excess(candidate: float) -> float:
        gains = logs - rows * np.log1p(candidate * grown)
        found = float(np.logaddexp.reduce(gains)) - math.log(_RATES.size) - level
        return found if upper else -found

    return rising_root(excess, mean, 1.0) if upper else rising_root(excess, 0.0, mean)
