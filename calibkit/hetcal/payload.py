"""What trees are grown on: binned features, and for each row the integers its criterion sums."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.features import Binned, bin_features
from calibkit.hetcal.grow import CRITERIA, Rules, Subsets, grow
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.trees import Tree
from calibkit_kernels import criteria

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Growth:
    """Rows that trees are grown on.

    Attributes
    ----------
    binned, payload
        Their features and integer vectors.
    kind, unit, second
        The criterion and its units; see `Rules`.
    weight_unit
        How many rows a unit of weight stands for.
    known
        How many categories each feature has (0 for numbers).
    own
        The calibration rows, where these are what is grown on; None for other rows.
    """

    binned: Binned
    payload: Int64s
    kind: int
    unit: float
    second: float
    weight_unit: float
    known: tuple[int, ...]
    own: HetcalRows | None

    def rules(self, max_depth: int, min_leaf: int) -> Rules:
        """Return the rules of a tree; the least leaf is in rows."""
        least = math.ceil(min_leaf / self.weight_unit)
        return Rules(self.kind, max_depth, max(least, 1), self.unit, self.second)

    def tree(
        self,
        rules: Rules,
        pool: Executor | None = None,
        threads: int = 1,
        *,
        rows: NDArray[np.int64] | None = None,
        counts: Int64s | None = None,
        subsets: Subsets | None = None,
    ) -> Tree:
        """Return a tree grown on all rows, on some, or on each as often as `counts` says."""
        payload = self.payload if counts is None else self.payload * counts[:, None]
        order = None if rows is None else rows[self.payload[rows, 0] > 0].astype(np.int32)
        grown, _ = grow(
            self.binned, payload, rules, pool, threads, subsets, order, steady=subsets is None
        )
        return grown.pruned(rules.max_depth)


def growth_of(
    rows: HetcalRows, criterion: str, max_bins: int | None, threads: int, *, own: bool
) -> Growth:
    """Return what trees of a criterion are grown on."""
    binned = bin_features(rows.features, threads, max_bins)
    kind = CRITERIA[criterion]
    hits = rows.weight * rows.label
    columns = [rows.weight, hits]
    unit = second = 1.0
    if kind == criteria.AUC:
        more, unit, second = moments(rows.score, rows.label, rows.weight)
        columns += more
    return Growth(
        binned,
        np.ascontiguousarray(np.stack(columns, axis=1)),
        kind,
        unit,
        second,
        rows.size,
        tuple(len(names or ()) for names in rows.features.categories),
        rows if own else None,
    )


def moments(
    score: Floats, label: NDArray[np.uint8], weight: Int64s
) -> tuple[list[Int64s], float, float]:
    """Return score and squared score of each class as integers, and what a unit of both is worth.

    The units are powers of two, such that no sum can pass 2^62; integers add up to the same in any
    order.
    """
    largest = float(np.abs(score).max()) if score.size else 0.0
    size = max(math.frexp(largest)[1], -500) if largest > 0.0 else 0
    room = 62 - int(weight.sum()).bit_length()
    unit, second = math.ldexp(1.0, size - room), math.ldexp(1.0, 2 * size - room)
    first = np.rint(score / unit).astype(np.int64) * weight
    square = np.rint(score * score / second).astype(np.int64) * weight
    hit = label.astype(np.int64)
    return [first * hit, square * hit, first * (1 - hit), square * (1 - hit)], unit, second
