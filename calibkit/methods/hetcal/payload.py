"""What trees are grown on: binned features, and for each row the integers its criterion sums."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import Unit
from calibkit.methods.hetcal.grow import CRITERIA, Room, Rules, Subsets, grow
from calibkit.methods.hetcal.model import TreeNode
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.methods.hetcal.trees import Tree, described_tree
from calibkit.options.hetcal import HetcalOptions
from calibkit_kernels import criteria

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Sums of scores stay below this power of two, so that some rows may be drawn more than once.
_SUM_BITS: Final = 60

#: Weights below this power of two fit into 32 bits however often a row is drawn.
_SMALL_BITS: Final = 26

#: Rounded weights stay below this power of two; see `calibkit.columns.weights.in_units`.
_ROUNDED_BITS: Final = 62

#: The least variance that counts is that of so many rows, where there are fewer: a number has 53 bits.
_FEWEST: Final = 512


@dataclass(frozen=True)
class Vectors:
    """How rows become the integer vectors whose sums a criterion compares.

    For the AUC these are scores and their squares.  It does not depend on where scores begin nor on
    what they are measured in, so they are counted from the middle of their range and in (about)
    halves of it: large scores that are close together keep their digits.

    Attributes
    ----------
    kind
        The criterion, one of `calibkit_kernels.criteria`.
    low, high
        Scores lie in between.
    room
        A score at an end of the range counts as about 2^`room` for each unit of weight.
    least
        Variances up to this one are due to rounding.
    """

    kind: int
    low: float = 0.0
    high: float = 0.0
    room: int = 0
    least: float = 1.0

    def rules(self, max_depth: int, min_leaf: int) -> Rules:
        """Return the rules of a tree; the least leaf is in units of weight."""
        return Rules(self.kind, max_depth, min_leaf, math.ldexp(1.0, -self.room), self.least)

    def of(self, score: Floats, label: NDArray[np.uint8], weight: Int64s) -> Int64s:
        """Return the vector of each row.

        Weight and that of a positive; for the AUC also score and squared score of a positive, and
        of a negative, each times the weight.
        """
        columns = [weight, weight * label]
        if self.kind == criteria.AUC:
            middle = 0.5 * self.low + 0.5 * self.high
            away = np.clip(score, self.low, self.high) - middle
            away = np.ldexp(away, -math.frexp(max(self.high - middle, middle - self.low))[1])
            sums = [
                np.rint(np.ldexp(weight * power, self.room)).astype(np.int64)
                for power in (away, away * away)
            ]
            hit = label.astype(np.int64)
            columns += [one * own for own in (hit, 1 - hit) for one in sums]
        return np.stack(columns, axis=1)


def vectors_of(
    criterion: str, low: float, high: float, rows: int, weight: int, unit: Unit
) -> Vectors:
    """Return how rows become vectors.

    Parameters
    ----------
    criterion
        One of `CRITERIA`.
    low, high
        Scores lie in between.
    rows, weight, unit
        How many rows there are, their weight in units, and what a unit is worth.

    Notes
    -----
    The weight of all rows times 2^`room` is at most 2^60, and in general at least 2^58.  Squares are
    rounded by half at most, so their mean is off by up to 2^-59 a row; four times as much counts as
    no variance.  What rounded weights come to is not known before they are added up, only between
    which powers of two.
    """
    bits = weight.bit_length() if unit.exact else _ROUNDED_BITS
    least = math.ldexp(max(rows, _FEWEST), 3 - _SUM_BITS)
    return Vectors(CRITERIA[criterion], low, high, _SUM_BITS - bits, least)


@dataclass(frozen=True)
class Growth:
    """Rows that trees are grown on.

    Attributes
    ----------
    rows
        The rows, by code.
    payload
        Their integer vectors.
    vectors
        What `payload` holds.
    own
        Whether these are the rows that are calibrated.
    """

    rows: HetcalRows
    payload: NDArray[Any]
    vectors: Vectors
    own: bool

    def tree(
        self,
        max_depth: int,
        min_leaf: int,
        pool: Executor | None = None,
        threads: int = 1,
        *,
        used: NDArray[np.bool_] | None = None,
        subsets: Subsets | None = None,
        counts: NDArray[np.uint8] | None = None,
    ) -> Tree:
        """Return a tree grown on all rows, on some, or on each as often as `counts` says.

        The least leaf is in rows.
        """
        rules = self.vectors.rules(max_depth, max(math.ceil(min_leaf / self.rows.size), 1))
        payload = self.payload
        if counts is not None:
            payload = self.rows.arrays.empty(payload.shape, payload.dtype)
            for own in self.rows.blocks():
                np.multiply(self.payload[own], counts[own, None], out=payload[own])
        room = Room.of(self.rows.arrays, payload)
        weighs = payload[:, 0] > 0
        room.fill(weighs if used is None else weighs & used)
        steady = subsets is None
        grown, _ = grow(
            self.rows.features, payload, rules, pool, threads, subsets, room, steady=steady
        )
        return grown.pruned(max_depth)

    def described(self, tree: Tree) -> list[TreeNode]:
        """Return the nodes of a tree as a model holds them."""
        features = self.rows.features
        return described_tree(tree, features.columns, features.categories, self.rows.size)


def growth_of(rows: HetcalRows, options: HetcalOptions, *, own: bool) -> Growth:
    """Return what trees are grown on; `own`: whether these are the rows that are calibrated."""
    low, high = float(rows.score[0]), float(rows.score[-1])
    vectors = vectors_of(options.criterion, low, high, rows.count, rows.totals.total, rows.unit)
    auc = vectors.kind == criteria.AUC
    small = not auc and rows.totals.total.bit_length() <= _SMALL_BITS
    shape = rows.count, 6 if auc else 2
    payload = rows.arrays.empty(shape, np.int32 if small else np.int64)
    for part in rows.blocks():
        weight = rows.weight[part].astype(np.int64)
        payload[part] = vectors.of(rows.score[part], rows.label[part], weight)
    return Growth(rows, payload, vectors, own)
