"""How calibration rows are dealt for cross-validation: at random, by groups, or forward in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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

    @cached_property
    def present(self) -> list[int]:
        """The parts that hold rows."""
        return np.flatnonzero(np.bincount(self.part)).tolist()

    def judged(self) -> list[int]:
        """Return the parts that are judged: those that hold rows."""
        return [part for part in self.present if part > 0 or not self.forward]

    def held(self, part: int) -> Rows:
        """Return which rows are in a part."""
        return np.equal(self.part, part)

    def used(self, part: int) -> Rows:
        """Return which rows may be learnt from where a part is judged."""
        return np.less(self.part, part) if self.forward else np.not_equal(self.part, part)

    def among(self, parts: Sequence[int]) -> Rows:
        """Return which rows are in some of the parts."""
        return np.isin(np.arange(256), parts)[self.part]
