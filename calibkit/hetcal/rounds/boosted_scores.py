"""The score of each row after the trees of each run that have grown so far."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.rounds.boosted_trees import GrownTree, grown_tree
from calibkit.hetcal.rounds.grow import Shared
from calibkit.rounds.kept import Kept
from calibkit_kernels import boosting as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Rows that one thread works on at a time.
_STRETCH: Final = 1 << 14

#: The trees of each run.
Trees = tuple[tuple[str, ...], ...]


class RunScores:
    """Finds scores, block after block of the rows in their order.

    Parameters
    ----------
    trees
        Those of each run.
    known
        How many categories each feature has, and the score.
    shared
        Threads.
    kept
        Where scores after the first of the trees may have been left, and these are left; None: nowhere.
    """

    def __init__(
        self, trees: Trees, known: tuple[int, ...], shared: Shared, kept: Kept | None
    ) -> None:
        self.trees, self.shared, self.kept = trees, shared, kept
        before: Trees = ((),) * len(trees)
        self.kept_before = kept is not None and _begins_with(trees, kept.content)
        if kept is not None and self.kept_before:
            before = kept.content
        self.known = known
        self.further = [
            [grown_tree(text, known) for text in own[len(done) :]]
            for own, done in zip(trees, before, strict=True)
        ]
        self.first = [[grown_tree(text, known) for text in own] for own in before]
        self.place = 0

    def of(self, values: Floats) -> Floats:
        """Return run x row: the scores of a block, of whose `values` the last are those before."""
        size = values.shape[1]
        found = np.empty((len(self.trees), size))
        known = self.kept_before and self.kept is not None and self.kept.read(self.place, found)
        if not known:
            found[:] = values[-1]
        todo = self.further if known else [
            [*first, *further] for first, further in zip(self.first, self.further, strict=True)
        ]  # fmt: skip
        if any(todo):
            self._move(found, values, todo)
        if self.kept is not None and (any(todo) or not known):
            self.kept.write(self.place, found)
        self.place += found.size
        return found

    def _move(self, scores: Floats, values: Floats, trees: list[list[GrownTree]]) -> None:
        starts = range(0, values.shape[1], _STRETCH)

        def work(own: Int64s) -> None:
            for place in own.tolist():
                stretch = slice(starts[place], starts[place] + _STRETCH)
                here = np.ascontiguousarray(values[:, stretch])
                for score, run in zip(scores, trees, strict=True):
                    for tree in run:
                        kernels.move_scores(score[stretch], tree.routes.ends(here), tree.steps)

        self.shared.over(len(starts), work)

    def done(self) -> None:
        """Say that all rows have been seen."""
        if self.kept is not None and self.place:
            self.kept.written(self.trees)


def _begins_with(trees: Trees, content: object) -> bool:
    """Tell whether scores are kept after the first of some trees."""
    return (
        isinstance(content, tuple)
        and len(content) == len(trees)
        and all(own[: len(done)] == done for own, done in zip(trees, content, strict=True))
    )
