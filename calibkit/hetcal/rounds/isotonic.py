"""Isotonic maps of the leaves in rounds: the very blocks that they have in memory.

The blocks lie between the corners of the least concave majorant of a leaf's points (rows, positive
rows), one for each score, of all rows from it upwards (see `calibkit_kernels.isotonic`).  Where the
rows of a stretch of scores lie in it is unknown, but no point inside it can rise above the one where
all its positives come before its negatives.  As long as that one would rise above the majorant of what
is known the stretch is cut finer, round after round; else no block begins inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.rounds.ends import mapped_end_of
from calibkit.hetcal.rounds.grow import MOST_CELLS, Shared
from calibkit.hetcal.rounds.known import Edges, Known
from calibkit.hetcal.rounds.protocol import Mapped
from calibkit.hetcal.rounds.reading import stretches_fit
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.rounds.sought import Stretches
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of, values_of
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels.isotonic import concave_hull

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

#: Parts of stretches that a round tells, at most; each has four numbers.
_MOST_PARTS: Final = MOST_CELLS >> 2

#: What is told of a greatest key where there is none: no score has this key.
_NONE: Final = -(1 << 63)


def first_stretches(end: Mapped) -> list[Stretches]:
    """Return all scores of each leaf as one stretch; none of a leaf without rows."""
    found = []
    for leaf in end.each_leaf():
        if leaf is None:
            found.append(Stretches())
            continue
        lows, highs = keys_of(np.array([[leaf.low], [leaf.high]]))
        found.append(_settled(lows, highs, np.array([leaf.rows]), np.array([leaf.hits])))
    return found


def _settled(lows: Int64s, highs: Int64s, rows: Int64s, hits: Int64s) -> Stretches:
    """Return stretches, which rise, with those made one between which no block can begin."""
    # The majorant begins at the highest score.
    lows, highs, rows, hits = (values[::-1] for values in (lows, highs, rows, hits))
    x, y = np.cumsum(rows), np.cumsum(hits)
    corners = np.empty(x.size, np.int64)
    corners = corners[: concave_hull(x, y, corners)]
    still = np.flatnonzero(lows < highs)
    still = still[_may_hold_corner(x, y, rows[still], hits[still], corners, still)]
    alone = np.zeros(x.size + 1, np.bool_)
    alone[still] = alone[still + 1] = alone[corners + 1] = alone[0] = True
    starts = np.flatnonzero(alone[:-1])
    ends = np.append(starts[1:], x.size) - 1
    tops = lows[ends]
    tops[np.isin(ends, still)] = highs[still]
    return Stretches(
        lows[ends][::-1].tolist(),
        tops[::-1].tolist(),
        np.add.reduceat(rows, starts)[::-1].tolist(),
        np.add.reduceat(hits, starts)[::-1].tolist(),
    )


def _may_hold_corner(
    x: Int64s, y: Int64s, rows: Int64s, hits: Int64s, corners: Int64s, places: Int64s
) -> Bools:
    """Tell which stretches may hold a corner of the majorant that is not at their ends.

    Parameters
    ----------
    x, y
        Rows and positives down to the lower end of each stretch.
    rows, hits, places
        Of the stretches in question, and which these are.
    corners
        Those of the majorant of the points (x, y).
    """
    after = np.searchsorted(corners, places)
    x_after, y_after = x[corners[after]], y[corners[after]]
    x_before, y_before = (np.append(0, ends[corners])[after] for ends in (x, y))
    best_x = x[places] - rows + hits - x_before
    best_y = y[places] - y_before
    # Python's integers: products of weights in units pass 64 bits.
    left, right = (
        one.astype(object) * other.astype(object)
        for one, other in ((best_y, x_after - x_before), (y_after - y_before, best_x))
    )
    return np.asarray(left > right, np.bool_)


@dataclass(frozen=True)
class Cuts:
    """The parts of the stretches of a leaf that a round tells.

    Attributes
    ----------
    places
        Which stretches are cut.
    lows, highs
        Their least and greatest keys.
    shifts
        How many bits of what a key is above the least one are not told.
    starts
        Where the parts of each begin among those of all leaves, and where they end.
    """

    places: Int64s
    lows: Int64s
    highs: Int64s
    shifts: Keys
    starts: Int64s

    def parts(self, keys: Int64s) -> tuple[Bools, Int64s]:
        """Return which keys are in parts that are told, and in which these are."""
        place = np.searchsorted(self.lows, keys, "right") - 1
        inside = (place >= 0) & (keys <= self.highs[place])
        place, keys = place[inside], keys[inside]
        fine = _above(keys, self.lows[place]) >> self.shifts[place]
        return inside, self.starts[place] + fine.astype(np.int64)


def _above(keys: Int64s, lows: Int64s) -> Keys:
    """Return how far keys are above others; the difference of two may pass 63 bits."""
    return keys.view(np.uint64) - lows.view(np.uint64)


def cuts_of(leaves: Sequence[Stretches]) -> list[Cuts]:
    """Return the parts that the next round tells: of as many stretches as there is room for."""
    lows = [np.array(one.lows, np.int64) for one in leaves]
    highs = [np.array(one.highs, np.int64) for one in leaves]
    places = [np.flatnonzero(low < high) for low, high in zip(lows, highs, strict=True)]
    count = min(sum(own.size for own in places), _MOST_PARTS >> 1)
    bits = (_MOST_PARTS // max(count, 1)).bit_length() - 1
    found, start = list[Cuts](), 0
    for own, low, high in zip(places, lows, highs, strict=True):
        own = own[:count]
        count -= own.size
        widths = _above(high[own], low[own])
        shifts = [max(0, width.bit_length() - bits) for width in widths.tolist()]
        sizes = (widths >> np.array(shifts, np.uint64)).astype(np.int64) + 1
        starts = start + np.append(0, np.cumsum(sizes))
        start = int(starts[-1])
        found.append(Cuts(own, low[own], high[own], np.array(shifts, np.uint64), starts))
    return found


def cut_stretches(leaves: Sequence[Stretches], table: pl.DataFrame) -> list[Stretches]:
    """Return the stretches after a round that told their parts.

    Raises
    ------
    ModelError
        For parts that are none of these stretches.
    """
    asked = cuts_of(leaves)
    size = int(asked[-1].starts[-1])
    told = np.stack(
        [
            -array_of(table, What.LOW, size),
            array_of(table, What.HIGH, size),
            array_of(table, What.ROWS, size),
            array_of(table, What.HITS, size),
        ]
    )
    found = []
    for one, cuts in zip(leaves, asked, strict=True):
        fresh = told[:, cuts.starts[0] : cuts.starts[-1]]
        known = np.array([one.lows, one.highs, one.rows, one.hits], np.int64)
        together = np.hstack([np.delete(known, cuts.places, 1), fresh[:, fresh[2] > 0]])
        together = together[:, np.argsort(together[0])]
        if not stretches_fit(Stretches(*together.tolist())):
            raise ModelError("a damaged state: its stretches of scores are not those of the plan")
        found.append(_settled(*together) if together.size else one)
    return found


class PoolCounter:
    """Sums the rows and the positives in parts of the stretches that may hold a corner."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.end, self.shared = mapped_end_of(known, problem), shared
        self.end.need(len(known.stretches))
        self.cuts = cuts_of(known.stretches)
        self.open = np.flatnonzero([cuts.places.size for cuts in self.cuts])
        self.sums = np.zeros((int(self.cuts[-1].starts[-1]), 2), np.int64)
        self.ends = np.full(self.sums.shape, _NONE)

    def add(self, block: Block) -> None:
        """Add some rows."""
        keys = keys_of(self.end.first(block.score))
        spans, rows = self.end.rows_by_leaf(block)
        payload = np.stack([block.weight, block.weight * block.label], axis=1)

        def work(part: Int64s) -> None:
            for leaf in self.open[part].tolist():
                own = rows[slice(*spans[leaf])]
                own = own[block.weight[own] > 0]
                inside, parts = self.cuts[leaf].parts(keys[own])
                own = own[inside]
                np.add.at(self.sums, parts, payload[own])
                np.maximum.at(self.ends, parts, np.stack([-keys[own], keys[own]], axis=1))

        self.shared.over(self.open.size, work)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums, and the least and the greatest key of each part."""
        numbers.add_all(What.ROWS, self.sums[:, 0])
        numbers.add_all(What.HITS, self.sums[:, 1])
        used = np.flatnonzero(self.sums[:, 0])
        for what, ends in zip((What.LOW, What.HIGH), self.ends[used].T, strict=True):
            numbers.add(what, used, ends)
        return {}


def blocks_of(leaves: Sequence[Stretches]) -> tuple[list[Edges], list[list[float]]]:
    """Return the lowest scores and the positive rates of the blocks, once stretches are these."""
    cuts, rates = list[Edges](), list[list[float]]()
    for one in leaves:
        rows, hits = np.array(one.rows, np.int64), np.array(one.hits, np.int64)
        lows = values_of(np.array(one.lows, np.int64)).tolist()
        # A leaf without rows has the map of all rows.
        cuts.append(Edges(sum(one.rows), lows or [0.0]))
        rates.append((hits / rows).tolist() or [0.0])
    return cuts, rates
