"""How calibration rows are dealt for cross-validation: at random, by groups, or forward in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.simulate.streams import stream

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Folds:
    """The parts that rows are in.

    Attributes
    ----------
    part
        The part of each row, from 0.
    count
        How many parts are judged.
    forward
        Whether parts follow each other in time: there is one more, the first is judged by nothing,
        and each other one by what came before it.
    """

    part: NDArray[np.uint8]
    count: int
    forward: bool = False

    def judged(self) -> range:
        """Return the parts that are judged."""
        return range(1, self.count + 1) if self.forward else range(self.count)

    def held(self, part: int) -> Rows:
        """Return which rows are in a part."""
        return np.equal(self.part, part)

    def used(self, part: int) -> Rows:
        """Return which rows may be learnt from where a part is judged."""
        return np.less(self.part, part) if self.forward else np.not_equal(self.part, part)

    def among(self, parts: range) -> Rows:
        """Return which rows are in some of the parts."""
        return np.isin(self.part, list(parts))


def random_folds(rows: int, count: int, seed: int) -> Folds:
    """Return equal shares of the rows, drawn at random."""
    dealt = np.arange(rows) % count
    return Folds(dealt[stream(seed, 0, 0).permutation(rows)].astype(np.uint8), count)
