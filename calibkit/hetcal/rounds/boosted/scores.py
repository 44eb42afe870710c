"""The score of each row after the trees of each run that have grown so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.rounds.boosted.runs import Binned, Boosting
from calibkit.hetcal.rounds.grow import Shared
from calibkit.rounds.kept import Kept
from calibkit_kernels import boosting as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Rows that one thread works on at a time.
_STRETCH: Final = 1 << 14

#: What the file of scores is called.
_FILE: Final = "scores"

#: The trees of each run.
Trees = tuple[tuple[str, ...], ...]


class RunScores:
    """Finds scores, block after block of the rows in their order.

    Parameters
    ----------
    trees
        Those of each run.
    shared, threads
        What all runs share; what shares the rows.
    kept
        Where scores after the first of the trees may have been left, and these are left; None: nowhere.
    """

    def __init__(self, trees: Trees, shared: Boosting, threads: Shared, kept: Kept | None) -> None:
        self.trees, self.shared, self.threads, self.kept = trees, shared, threads, kept
        self.place = 0
        done = None if kept is None else kept.content.get(_FILE)
        self.known: Trees = ((),) * len(trees)
        self.is_known = done is not None and _begins_with(trees, done)
        if done is not None and self.is_known:
            self.known = done
        self.further = self._after(self.known)

    def _after(self, known: Trees) -> list[list[Binned]]:
        """Return the trees that come after those that are known."""
        return [
            [self.shared.binned(text) for text in own[len(first) :]]
            for own, first in zip(self.trees, known, strict=True)
        ]

    def of(self, bins: Floats, first: Floats) -> Floats:
        """Return run x row: the scores of a block.

        Parameters
        ----------
        bins
            The bin of each feature of each row, NaN for missing values.
        first
            The scores before the first tree.
        """
        found = np.empty((len(self.trees), first.size))
        if self.is_known and not (self.kept and self.kept.read(_FILE, self.place, found)):
            self.is_known, self.further = False, self._after(((),) * len(self.trees))
        if not self.is_known:
            found[:] = first
        if any(self.further):
            move_scores(found, bins, self.further, self.threads)
        if self.kept is not None and (any(self.further) or not self.is_known):
            self.kept.write(_FILE, self.place, found)
        self.place += found.nbytes
        return found

    def end(self) -> None:
        """Say that all rows have been seen."""
        if self.kept is not None:
            self.kept.whole(_FILE, self.trees)


def move_scores(
    scores: Floats, values: Floats, trees: Sequence[Sequence[Binned]], threads: Shared
) -> None:
    """Move run x row scores by the trees of each run, whose routes are by some values of the rows."""
    starts = range(0, values.shape[1], _STRETCH)

    def work(own: Int64s) -> None:
        for place in own.tolist():
            stretch = slice(starts[place], starts[place] + _STRETCH)
            here = np.ascontiguousarray(values[:, stretch])
            for score, run in zip(scores, trees, strict=True):
                for routes, steps in run:
                    kernels.move_scores(score[stretch], routes.ends(here), steps)

    threads.over(len(starts), work)


def _begins_with(trees: Trees, done: Trees) -> bool:
    """Tell whether some trees are the first ones of others, run by run."""
    return len(done) == len(trees) and all(
        own[: len(first)] == first for own, first in zip(trees, done, strict=True)
    )
