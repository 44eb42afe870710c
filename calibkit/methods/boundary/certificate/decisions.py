"""The sequences of boundaries that are tested where one path is not enough.

Three-way decisions take two boundaries of a path, and segments that are to be treated alike each one
of their own.  Which ones follow each other is a function of the part that fits alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import permutations

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, distinct_values
from calibkit.numerics.distributions import normal_quantile
from calibkit_kernels.distributions import bounds as binomial_bounds

#: The name of the share that is reviewed, among the bounds of three-way decisions.
REVIEWED = "review_capacity"

#: Lowest rates of segments that are tried.
_RATES = 200
#: What is left of a gap has so many times the room that its test costs: the part that fits errs too.
_ROOM = 2.0


def pairs(selected: Floats, margins: Mapping[str, Floats]) -> Int64s:
    """Return the pairs of boundaries of a path, of block and of block with review, by falling margin.

    `selected`: how many rows each boundary of the path is expected to select. `margins`: by how
    many standard errors each boundary is expected to keep the bounds on ``precision`` (as block)
    and ``recall`` (as block with review), if they are there; of ``review_capacity``, if so many
    rows as it selects were reviewed.

    What is returned has shape (pairs, 2): places on the path, -1 for a block of nothing.  With a
    margin m the block is the laxest boundary that keeps precision by m, and review ends at the
    strictest one that keeps recall by m; where one of the two has no bound, it leaves or spends what
    can be reviewed.  From pair to pair m falls: less is reviewed, more is caught, or what is blocked
    is more precise.
    """
    bounding = [margins[name] for name in ("precision", "recall") if name in margins]
    levels = distinct_values(np.concatenate(bounding))[::-1]
    block = reach = np.zeros(levels.size, np.int64)
    kept = np.ones(levels.size, bool)
    if "precision" in margins:
        best_after = np.maximum.accumulate(margins["precision"][::-1])[::-1]
        block = np.searchsorted(-best_after, -levels, side="right") - 1
        kept &= block >= 0
    if "recall" in margins:
        reach = np.searchsorted(np.maximum.accumulate(margins["recall"]), levels, side="left")
        kept &= reach < selected.size
    levels, block, reach = levels[kept], block[kept], reach[kept]
    if len(bounding) == 1:
        places = np.searchsorted(-margins[REVIEWED], -levels, side="right") - 1
        room = np.append(selected, 0.0)[places]  # nothing where even the first place is too much
        if "recall" in margins:
            left = selected[reach] - room
            block = np.minimum(np.searchsorted(selected, left, side="left"), reach)
            block[left <= 0.0] = -1
        else:
            reach = np.searchsorted(selected, selected[block] + room, side="right") - 1
    found: Int64s = np.column_stack((block, np.maximum(block, reach)))
    new = np.append(True, (np.diff(found, axis=0) != 0).any(axis=1))[: len(found)]
    found = found[new]
    if len(bounding) == 2:  # once nothing is reviewed there is nothing left to gain
        done = np.flatnonzero(found[:, 0] == found[:, 1])
        found = found[: done[0] + 1] if done.size else found
    return found


def alike(
    free: Int64s, expected: Sequence[Floats], counted: Sequence[Floats], gaps: Gaps
) -> Int64s:
    """Return boundaries over segments again, with the rates of segments near each other.

    For each boundary these are the places nearest to its own whose rates lie in a window narrower
    than the gap, so that the test can bear it out.  Of all windows it is the one with most true
    positives less the rate at the margin of the boundary times the rows.

    Parameters
    ----------
    free
        The places of boundaries on the path of each segment, shape (boundaries, segments), from strict
        to lax, see `calibkit.methods.boundary.certificate.paths.joined`.
    expected
        Rows and positives that the boundaries of each path are expected to select.
    counted
        The share of them that the gap is about, its rate: rising along each path.
    gaps
        What will be tested; of its counts nothing is used here but the totals.
    """
    padded = [np.vstack((np.zeros((1, 2)), own)) for own in expected]
    rates = [np.append(0.0, own) for own in counted]
    whole = np.sum([own[free[:, k] + 1] for k, own in enumerate(padded)], axis=0)
    rows, hits = np.diff(whole, axis=0, prepend=0.0).T
    margin = np.minimum.accumulate(np.where(rows > 0.0, hits / np.maximum(rows, 1e-9), 1.0))
    lows = np.linspace(0.0, 1.0, _RATES + 1)
    highs = lows + np.maximum(gaps.most - _ROOM * gaps.costs(lows), 0.0)
    places, worth = [], np.zeros((free.shape[0], lows.size))
    for column, (sums, rate) in enumerate(zip(padded, rates, strict=True)):
        first = np.minimum(np.searchsorted(rate, lows, side="left"), rate.size - 1)
        last = np.maximum(np.searchsorted(rate, highs, side="right") - 1, first)
        own = np.clip(free[:, column, None] + 1, first, last)
        worth += sums[own, 1] - margin[:, None] * sums[own, 0]
        places.append(own)
    best = np.argmax(worth, axis=1)
    return np.column_stack([own[np.arange(best.size), best] - 1 for own in places])


def rates_of(hits: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Return the rates of hits that are expected, and their standard errors, which are never 0."""
    rates = np.clip(hits / trials, 0.0, 1.0)
    return rates, np.sqrt(np.maximum(rates * (1.0 - rates), 1.0 / trials) / trials)


class Gaps(Struct, frozen=True, dict=True):
    """Tests that the rates of segments lie no further apart than a gap.

    Of every ordered pair of segments it is tested at the whole level that the rate of the one exceeds
    that of the other by more than the gap, and all tests have to reject: where the gap is violated, one
    of the hypotheses is true.  Given how many rows of the class each segment has, the selected ones are
    independent binomials; of a pair either has half of the error probability.

    Source: R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24
    (1982), theorem 1 (of intersections of rejections).
    """

    most: float  # the gap
    #: `expected, found`: shape (boundaries, segments): selected rows of the class, as in
    #: `tests.Binomials`.
    expected: Floats
    found: Int64s
    totals: Int64s  # rows of the class in each segment, among those that test
    level: float  # the error probability of the first tests

    @property
    def _each(self) -> float:
        """What either segment of a pair costs, in its standard errors."""
        return -normal_quantile(self.level / 2.0)

    def costs(self, rates: Floats) -> Floats:
        """Return what a first test of the two smallest segments costs where their rates are alike."""
        smallest = np.sort(np.maximum(self.totals, 1))[:2]
        spread: Floats = np.sqrt(np.maximum(rates * (1.0 - rates), 1.0 / smallest[0]))
        return self._each * float(np.add.reduce(1.0 / np.sqrt(smallest))) * spread

    @cached_property
    def hopes(self) -> tuple[Floats, Floats]:
        """See `tests.Test`: of the pair of segments that is worst for each boundary."""
        trials = np.maximum(self.totals, 1).astype(np.float64)
        rates, errors = rates_of(self.expected, trials)
        signal = np.full(rates.shape[0], np.inf)
        wanted = np.zeros(rates.shape[0])
        for high, low in permutations(range(trials.size), 2):
            spread = np.hypot(errors[:, high], errors[:, low])
            own = (self.most - rates[:, high] + rates[:, low]) / spread
            needs = self._each * (errors[:, high] + errors[:, low]) / spread
            worse = own - needs < signal - wanted
            signal[worse], wanted[worse] = own[worse], needs[worse]
        return signal, wanted

    def rejects(self, place: int, level: float) -> bool:
        """Return whether the violation of the gap is rejected for a boundary."""
        if not self.totals.all():
            return False
        low, high = np.empty((2, self.totals.size))
        for upper, ends in ((False, low), (True, high)):
            binomial_bounds(self.found[place], self.totals, level / 2.0, upper, ends)
        apart = np.subtract.outer(high, low)
        np.fill_diagonal(apart, -np.inf)
        return bool(apart.max() <= self.most)
