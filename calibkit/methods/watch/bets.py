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
from typing import Final

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s
from calibkit.numerics.solve import rising_root

#: Rows by the chance that they are selected (0 or 1 but where a boundary draws) and by their weight:
#: negatives, positives.
Cells = Mapping[tuple[float, float], tuple[int, int]]

#: Promises that a rate is at least its bound; that of others is at most.
AT_LEAST: Final = ("precision", "recall")
PROMISES: Final = (*AT_LEAST, "fpr")

#: Which shares of the highest stake are bet, each with the same part of the capital.
FRACTIONS: Final[Floats] = np.exp2(-np.arange(1.0, 10.0))

#: The arguments of the exponentials that a confidence sequence mixes.
_RATES: Final[Floats] = np.exp2(2.0 - np.arange(19.0))

#: The highest logarithm of capital that is written as a number.
_HIGHEST: Final = 690.0


class Promise(Struct, frozen=True):
    """A rate of the decisions on each night's rows, and what it is promised to be."""

    name: str  # ``precision`` or ``recall`` (at least the bound), or ``fpr`` (at most)
    bound: float  # above 0 and below 1
    most: float = 1.0  # the largest weight that a row can ever have, known before any is seen
    segment: str | None = None  # the only rows that it is about (``shop:web``); None: all

    @property
    def at_least(self) -> bool:
        """Whether the rate is promised to be at least the bound."""
        return self.name in AT_LEAST

    @property
    def text(self) -> str:
        """The promise in symbols."""
        where = "" if self.segment is None else f" in {self.segment}"
        return f"{self.name} {'>=' if self.at_least else '<='} {self.bound:g}{where}"

    @property
    def stakes(self) -> Floats:
        """What is bet: shares of the stake with which one row could lose all."""
        return FRACTIONS / (self.most * (1.0 - self.bound if self.at_least else self.bound))

    def parts(self, cells: Cells) -> list[tuple[float, float, int]]:
        """Return what the rate is a weighted mean of: weight and value of rows, and how many rows.

        Values lie from 0 to 1, and weights are at most `most`.
        """
        found = []
        for (chance, weight), (out, hit) in sorted(cells.items()):
            if self.name != "precision":
                found.append((weight, chance, hit if self.name == "recall" else out))
            elif chance:
                found += [(weight * chance, 0.0, out), (weight * chance, 1.0, hit)]
        return found

    def payoffs(self, cells: Cells) -> list[tuple[float, int]]:
        """Return what rows pay for each unit of stake, and how many do: at most 0 on average.

        Each lies above -1 / (the highest stake), so that no stake loses more than there is.
        """
        sign = 1.0 if self.at_least else -1.0
        return [(sign * w * (self.bound - value), rows) for w, value, rows in self.parts(cells)]


def night_logs(promise: Promise, cells: Cells) -> Floats | None:
    """Return by how much a night multiplies the capital at each stake, as logarithms; None: by 1."""
    stakes, payoffs = promise.stakes, promise.payoffs(cells)
    if not any(rows for _, rows in payoffs):
        return None
    return np.add.reduce([rows * np.log1p(stakes * payoff) for payoff, rows in payoffs])


class Evidence(Struct, frozen=True):
    """The capital against a promise over the nights."""

    logs: Floats  # the logarithm of the e-process after each night
    #: By how much each night that says something multiplies the capital of each bet, as logarithms.
    steps: Floats
    places: Int64s  # which nights these are

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
    return mixture([night_logs(promise, cells) for cells in nights], FRACTIONS.size)


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


class Estimate(Struct, frozen=True):
    """A rate over all nights, with the ends of its confidence sequence; None of no row.

    `rows` is how many rows it is of, `low` and `high` hold at all times together.
    """

    value: float | None
    low: float | None
    high: float | None
    rows: int


def estimate(promise: Promise, nights: Sequence[Cells], alpha: float) -> Estimate:
    """Return a rate over all rows of all nights, and its confidence sequence at level 1 - alpha.

    It covers, at all times together, the weighted mean of the nights' conditional rates over these
    rows, which may move.  Of weights w <= 1 and values v in [0, 1] whose weighted mean is m,
    x = m + w (v - m) lies in [0, 1] and has the mean m.  For x of conditional mean m, exp(r x) is at
    most 1 + m (e^r - 1) on average, and the product of these is at most the power of their mean; so
    each m whose mixture over r > 0 (low) or r < 0 (high) passes 2 / alpha is out.
    """
    parts = [part for cells in nights for part in promise.parts(cells)]
    rows = sum(number for _, _, number in parts)
    if not rows:
        return Estimate(None, None, None, 0)
    whole = math.fsum(weight * number for weight, _, number in parts)
    total = math.fsum(weight * value * number for weight, value, number in parts)
    low, high = mean_sequence(total / promise.most, whole / promise.most, rows, alpha)
    return Estimate(total / whole, low, high, rows)


def mean_sequence(total: float, whole: float, rows: int, alpha: float) -> tuple[float, float]:
    """Return the ends for the weighted mean of values in [0, 1].

    `total` and `whole` are the sums of weight times value and of weights, of so many rows; no weight
    may ever exceed 1.
    """
    level, mean = math.log(2.0 / alpha), total / whole

    def excess(candidate: float, rates: Floats) -> float:
        """Return by how much the mixture passes the level at a mean."""
        grown = np.log1p(candidate * np.expm1(rates))
        gains = rates * (total + candidate * (rows - whole)) - rows * grown
        return float(np.logaddexp.reduce(gains)) - math.log(_RATES.size) - level

    low = rising_root(lambda candidate: -excess(candidate, _RATES), 0.0, mean)
    return low, rising_root(lambda candidate: excess(candidate, -_RATES), mean, 1.0)
