"""The methods of finding a boundary, by name: what each can optimise and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.boundary import classic, exact
from calibkit.boundary.goals import Goal
from calibkit.errors import UsageError, nearest
from calibkit.tally import Points, Tally

Int64s = NDArray[np.int64]
Find = Callable[[Points, Goal], Int64s]


@dataclass(frozen=True)
class Method:
    """A way to choose one prefix in each level.

    Attributes
    ----------
    name, summary
        What it is called, and what it does in a few words.
    bounds
        The bounded figures it can take: keys of `calibkit.boundary.goals.GOALS`.
    find
        Returns the point of each level, -1 for none.
    score_bins
        Its default number of score bins; 0 tries every distinct score.
    """

    name: str
    summary: str
    bounds: tuple[str, ...]
    find: Find
    score_bins: int = 0


def _exact(points: Points, goal: Goal) -> Int64s:
    return exact.solve(points, goal).choice


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("exact", "the optimum, with proof", ("precision", "recall"), _exact),
        Method("st", "a single threshold", ("precision", "recall"), classic.single_threshold),
        Method("gmt", "each level on its own (greedy)", ("precision",), classic.greedy),
        Method("mist", "isotonic blocks above one rate", ("precision",), classic.isotonic),
    )
}


def method(name: str, bounded: str) -> Method:
    """Return a method that can take a bound.

    Raises
    ------
    UsageError
        An unknown method, or a pair of method and objective that does not exist; the message lists
        those that do.
    """
    if name not in METHODS:
        raise UsageError(
            f"there is no method {name!r}{nearest(name, METHODS)}; methods: {', '.join(METHODS)}"
        )
    found = METHODS[name]
    if bounded not in found.bounds:
        able = ", ".join(other.name for other in METHODS.values() if bounded in other.bounds)
        raise UsageError(
            f"--method {name} does not take --{bounded}, only "
            f"{', '.join('--' + bound for bound in found.bounds)}; methods for --{bounded}: {able}"
        )
    return found


def thresholds(tally: Tally, points: Points, choice: Int64s) -> NDArray[np.float64]:
    """Return the lowest selected score of each level of the tally, NaN where nothing is selected.

    A choice over all levels together gives every level the same threshold.
    """
    lowest = np.full(choice.size, np.nan)
    taken = choice >= 0
    lowest[taken] = tally.score[points.entry[choice[taken]]]
    return np.broadcast_to(lowest, tally.levels).copy() if choice.size == 1 else lowest
