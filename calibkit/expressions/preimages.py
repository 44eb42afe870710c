"""Steps over a function of a score, written as steps over the score itself.

A database's logarithm may differ from ours in the last digit, and a row whose value lies exactly on
a knot, as those do that a fit took its knots from, would then fall on its other side.  So a knot k
of a monotone function f is replaced by the first score at which ``f(score) >= k``, found by bisection
among all floats, with the arithmetic that `apply` uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.expressions.nodes import Node, Operand, node_of, steps

Floats = NDArray[Any]
Int64s = NDArray[np.int64]

#: A monotone function of scores, in their own dtype; its last digits may fall where it rises.
Function = Callable[[Floats], NDArray[np.float64]]

#: How many scores below the one that bisection ends at are looked at, for those last digits.
_NEAR = 256


@dataclass(frozen=True)
class Scores:
    """The scores that occur: all floats of a dtype from `low` to `high`."""

    single: bool
    low: float
    high: float

    @property
    def _kinds(self) -> tuple[type[np.floating[Any]], type[np.signedinteger[Any]]]:
        return (np.float32, np.int32) if self.single else (np.float64, np.int64)

    def keys(self, values: Sequence[float]) -> Int64s:
        """Return whole numbers in the order of floats, one up for the next float."""
        real, whole = self._kinds
        bits = np.array(values, real).view(whole).astype(np.int64)
        return np.where(bits < 0, np.iinfo(whole).min - bits, bits)

    def floats(self, keys: Int64s) -> Floats:
        """Return the floats of whole numbers."""
        real, whole = self._kinds
        found = np.abs(keys).astype(whole).view(real)
        return np.where(keys < 0, -found, found)


def first_reaching(function: Function, cuts: Sequence[float], scores: Scores) -> Floats:
    """Return for each cut the first score at which a rising function reaches it; inf: none does."""
    wanted = np.array(cuts, np.float64)
    lowest, highest = scores.keys([scores.low, scores.high])
    below, above = np.full(wanted.size, lowest - 1), np.full(wanted.size, highest + 1)
    while (above > below + 1).any():
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # their sum may not fit
        middle = np.clip(middle, lowest, highest)
        reached = function(scores.floats(middle)) >= wanted
        above = np.where(reached, np.minimum(middle, above), above)
        below = np.where(reached, below, np.maximum(middle, below))
    near = np.clip(above - np.arange(_NEAR)[:, None], lowest, highest)
    reached = function(scores.floats(near.ravel())).reshape(near.shape) >= wanted
    above = np.where(reached, near, above).min(axis=0)
    found: Floats = scores.floats(np.minimum(above, highest)).astype(np.float64)
    return np.where(above > highest, np.inf, found)


@dataclass
class Inverse:
    """A monotone function of a score, seen from the score."""

    x: Node  # the score
    function: Function
    slope: float  # its sign says whether the function rises or falls; 0: it is constant
    scores: Scores  # those that occur
    known: dict[float, float] = field(default_factory=dict)  # by knot, its score that `learn` found

    def learn(self, knots: Sequence[float]) -> None:
        """Find the scores of knots; many at once take as long as one."""
        new = [knot for knot in dict.fromkeys(knots) if knot not in self.known]
        if not new or self.slope == 0.0:
            return
        if self.slope > 0.0:
            found = first_reaching(self.function, new, self.scores)
        else:  # the last score at which it is reached, from the other end
            mirror = Scores(self.scores.single, -self.scores.high, -self.scores.low)
            found = -first_reaching(lambda scores: self.function(0.0 - scores), new, mirror)
        self.known.update(zip(new, found.tolist(), strict=True))

    def steps(self, knots: Sequence[float], values: Sequence[Operand]) -> Node:
        """Return ``values[number of knots <= function(x)]`` as steps over x, by rising knots."""
        if not knots:
            return node_of(values[0])
        if self.slope == 0.0:
            one = self.scores.floats(self.scores.keys([self.scores.low]))
            level = float(self.function(one)[0])
            return node_of(values[sum(knot <= level for knot in knots)])
        self.learn(knots)
        places = [self.known[knot] for knot in knots]
        if self.slope > 0.0:
            return steps(self.x, places, values)
        return steps(self.x, places[::-1], list(values)[::-1], strict=True)
