"""What precision, recall and AUC are today, from calibrated scores alone.

Without labels nothing can be known unless something stays as it was.  ``covariate``: the probability
of a positive at a score.  Then each row is positive with its calibrated probability, and rates are
those of these (confidence-based estimation).  ``prior``: how scores are distributed among positives,
and among negatives.  Then only the base rate has moved: its value of highest likelihood, which
expectation and maximisation would find (Saerens, Latinne and Decaestecker, Adjusting the outputs of a
classifier to new a priori probabilities, 2002), shifts every probability.

The intervals are those of the rates that the labels of these very rows would show.  Three things are
unsure: the labels, given their probabilities; under ``prior`` the base rate; and the probabilities.
How well a calibrator knows these depends on its rows alone: nothing that is right whatever the shape of
the truth knows a mean of them better than the mean label of calibration rows of the same kind does.
So of a row at q the variance is q (1 - q) times one plus the ratio of new rows to calibration rows
there, by the twentieths of scores that the model keeps.  All of it goes through the rates by the delta
method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.influence import Level, wilson
from calibkit.measures.result import Difference
from calibkit.numerics.solve import rising_root
from calibkit.numerics.sums import exact_sum

Floats = NDArray[np.float64]

#: What is estimated.
RATES: Final = ("precision", "recall", "auc", "base_rate")

#: How near to 0 and 1 a probability, and a base rate, may be.
_NEAR: Final = 1e-12
_LEAST: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Cells:
    """New rows that are alike, a cell an entry: how many (by weight), and their mean probability.

    `rank` is the place of the probability: cells of one rank are tied.  `selected` are those that the
    boundary selects.  `known` are the calibration rows in the twentieth of scores where the cell lies,
    and `ratio` says how many new rows there are to each.
    """

    rank: NDArray[np.int64]
    rows: Floats
    probability: Floats
    selected: NDArray[np.bool_]
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
    if not cells.rows.size:
        return dict.fromkeys(RATES, Difference(None))
    q = np.clip(cells.probability, _NEAR, 1.0 - _NEAR)
    # No calibrator is sure of a 0 or 1: as if its rows had half a positive and half a negative more.
    soft = (cells.known * q + 0.5) / (cells.known + 1.0)
    unsure = cells.rows * cells.ratio * soft * (1.0 - soft)
    moved = _Moved(cells, q, basis) if assumed == "prior" else None
    now = q if moved is None else moved.now
    found = {}
    for name, (value, slope) in _rates(cells, now).items():
        if value is None:
            found[name] = Difference(None)
            continue
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


def _rates(cells: Cells, now: Floats) -> dict[str, tuple[float | None, Floats]]:
    """Return each rate, and its derivative by the probability of a row of each cell."""
    rows, taken = cells.rows, np.where(cells.selected, cells.rows, 0.0)
    total, selected = exact_sum(rows), exact_sum(taken)
    positives, hits = exact_sum(rows, now), exact_sum(taken, now)
    nothing = np.zeros(rows.size)
    found: dict[str, tuple[float | None, Floats]] = dict.fromkeys(RATES, (None, nothing))
    chosen = cells.selected.astype(np.float64)
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


def _beside(rank: NDArray[np.int64], negatives: Floats, positives: Floats) -> tuple[Floats, Floats]:
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
        pulls: Floats = (self.ratio - 1.0) / (1.0 + rate * (self.ratio - 1.0))
        return pulls

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
