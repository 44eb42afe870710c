"""Candidates at the bound: their cuts moved until the rows that their fits left out meet it.

Every boundary orders rows by their *margin*: by how much the score, in log-odds where scores are
probabilities, exceeds the threshold of the row's level; of a surface, by how much its value exceeds
the cut.  Each row is measured against the boundary that was fitted without its fold.  To select the
rows above one margin, the same for all folds, is the boundary with its cut moved, and the margin is
taken at which the bound just holds.  Levels of which a boundary selects nothing stay without.

Margins are told apart by bins, of which the first selected one begins at the cut as it was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal
from calibkit.methods.boundary.result.figures import Validation
from calibkit.summaries.tally import Tally

#: Bins of the margin on either side of the cut, and how many interquartile ranges they reach.
_BINS, _REACH = 4096, 4.0
#: The bin of rows that no cut selects.
_NEVER = -_BINS - 1
#: Entries that are placed together.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Margins:
    """Where the rows of a deal lie beside the boundaries fitted without their folds."""

    bins: NDArray[np.int16]  # of each entry of the dealt tally; 0 and more where it is selected
    above: NDArray[np.int64]  # rows and positives from each bin up, shape (2, parts, 2 `_BINS`)

    def taken(self, cut: int | None) -> NDArray[np.bool_]:
        """Return which entries are selected from a bin up; none for None."""
        return self.bins >= (_BINS if cut is None else cut)

    def move(self, goal: CountGoal) -> tuple[NDArray[np.float64], int | None]:
        """Return what each part holds above the margin at which a goal's bound just holds.

        That is a share of one bin's rows, as many as meet the bound with equality; tied rows are not
        parted otherwise.  Returned are rows and positive rows, shape (2, parts), and the lowest bin of
        which half is selected; nothing and None where no margin meets the bound.
        """
        rows, hits = np.append([[0], [0]], self.above.sum(axis=1)[:, ::-1], axis=1)
        ends = np.append(0, np.flatnonzero(np.diff(rows)) + 1)
        if goal.met(int(rows[-1]), int(hits[-1])) or goal.maximised == "recall":
            taken, share = goal.mix(rows[ends], hits[ends])
        else:  # levels without a threshold hold the positives that are missing
            taken, share = 0, Fraction(0)
        if not taken and not share:
            return np.zeros(self.above.shape[:2]), None
        above = np.append(self.above, np.zeros_like(self.above[:, :, :1]), axis=2)
        before, after = (
            above[:, :, 2 * _BINS - ends[min(k, ends.size - 1)]] for k in (taken, taken + 1)
        )
        last = ends[taken + 1] if share >= Fraction(1, 2) else ends[taken]
        return before + float(share) * (after - before), int(_BINS - last)


def margins(dealt: Tally, checked: Validation, *, probability: bool) -> Margins:
    """Return the margins of the rows of a dealt tally in a cross-validation on it.

    `probability`: whether scores are probabilities, whose margins are differences of log-odds.
    """
    parts = max(*checked.found, int(dealt.part.max(initial=0))) + 1
    limits = np.full((parts, dealt.levels), np.nan)
    slopes = np.ones_like(limits)
    for fold, found in checked.found.items():
        limits[fold] = found.thresholds
        if found.surface is not None:
            slopes[fold] = found.surface.lines()[:, 1]
    score = dealt.score
    regressor = dealt.logits[0] if probability else score.astype(np.float64)
    # The lowest score that a threshold selects has a margin of exactly 0.
    place = np.searchsorted(-score, -limits.astype(score.dtype), side="right") - 1
    starts = np.where(np.isneginf(limits), -np.inf, regressor[np.maximum(place, 0)])
    width = _REACH * _spread(dealt, regressor) / _BINS
    bins = np.empty(score.size, np.int16)
    held = np.zeros((2, parts * (2 * _BINS + 1)))
    for start in range(0, score.size, _BLOCK):
        own = slice(start, start + _BLOCK)
        at = dealt.part[own], dealt.level[own]
        with np.errstate(invalid="ignore", over="ignore"):
            margin = (regressor[own] - starts[at]) * (slopes[at] / width)
            taken = score[own] >= limits[at]
        placed = np.clip(np.floor(np.nan_to_num(margin)), -_BINS, _BINS - 1).astype(np.int16)
        placed = np.where(taken, np.maximum(placed, 0), np.minimum(placed, -1)).astype(np.int16)
        placed[np.isnan(limits[at])] = _NEVER
        bins[own] = placed
        cell = at[0] * np.int64(2 * _BINS + 1) + (placed.astype(np.int64) - _NEVER)
        for kind, units in enumerate((dealt.count, dealt.positive)):
            held[kind] += np.bincount(cell, units[own], held.shape[1])
    falling = held.reshape(2, parts, -1)[:, :, :0:-1]  # without the bin of no cut
    return Margins(bins, np.cumsum(falling, axis=2)[:, :, ::-1].astype(np.int64))


def _spread(tally: Tally, regressor: NDArray[np.float64]) -> float:
    """Return the range of the middle half of all rows; 1 where it is no positive number."""
    reached = np.cumsum(tally.count.astype(np.float64))
    middle = np.searchsorted(reached, reached[-1] * np.array([0.25, 0.75]))
    high, low = regressor[np.minimum(middle, regressor.size - 1)]
    found = float(high - low) if np.isfinite(high) and np.isfinite(low) else 0.0
    return found if found > 0.0 else 1.0
