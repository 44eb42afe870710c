"""The rows of a fit in an order of their own, so that no result depends on that of the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.names import ScoreColumns
from calibkit.columns.weights import Unit
from calibkit.errors import DataError
from calibkit.methods.hetcal.features import Features
from calibkit.methods.hetcal.folds import Folds
from calibkit.methods.hetcal.trees import Tree
from calibkit.summaries.arrays import Arrays
from calibkit_kernels.decide import LEAST
from calibkit_kernels.vad import clipped_logits

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]

#: Rows that are worked on at a time where something is made of each; sums run over such blocks.
_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class HetcalRows:
    """Labelled rows with features, sorted by score and then by a hash of all that is used.

    Attributes
    ----------
    score
        The linear score: the logit of a probability, or the score as it is.
    label, weight
        0 or 1, and the weight in whole units.
    key
        A word for each row, from which chance decides; see `calibkit.numerics.streams`.
    mass
        How many rows each row counts as.
    features
        Of each row.
    unit
        What a unit of weight is worth.
    size
        How many rows a unit of weight stands for where rows are counted, as in the least leaf,
        shrinkage and Platt's targets: its worth, or as much as makes the mean weight one row where
        a weight says how many rows one stands for.
    total, hits
        The weight of all rows, and of the positive ones, in units.
    positives
        How many rows are positive, whatever they weigh.
    clipped
        How many probabilities were moved away from 0 or 1.
    folds
        As a column of groups or of times deals the rows; None without.
    arrays
        Makes arrays that are as long as the rows.
    options, dtype, files
        What the columns are, the type of the score's, and where the rows come from.
    read, fingerprint
        How many rows the inputs have, and the hash of those that are used.
    warnings
        What the user has to be told of the rows.
    """

    score: Floats
    label: NDArray[np.uint8]
    weight: NDArray[Any]
    key: NDArray[np.uint64]
    mass: Floats
    features: Features
    unit: Unit
    size: float
    total: int
    hits: int
    positives: int
    clipped: int
    folds: Folds | None
    arrays: Arrays
    options: ScoreColumns
    dtype: str
    files: tuple[str, ...]
    read: int
    fingerprint: str
    warnings: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows, some at a time."""
        for first in range(0, self.count, _BLOCK):
            yield slice(first, min(first + _BLOCK, self.count))

    def ends(self, tree: Tree) -> Ends:
        """Return the node without children that each row ends in."""
        return self.features.ends(tree, self.arrays.empty(self.count, np.int32))

    def leaves(self, tree: Tree) -> tuple[Ends, int]:
        """Return the leaf of each row, numbered from left to right, and how many there are."""
        numbers, leaf = tree.leaves(), self.ends(tree)
        for own in self.blocks():
            leaf[own] = numbers[leaf[own]]
        return leaf, int(numbers.max()) + 1

    def moved(self, slope: float, intercept: float, score: Floats | None = None) -> HetcalRows:
        """Return the rows with ``slope score + intercept`` for a score: their own, or another."""
        before, after = self.score if score is None else score, self.arrays.empty(self.count, float)
        for own in self.blocks():
            after[own] = slope * before[own] + intercept
        return replace(self, score=after)


def linear_scores(score: NDArray[Any], scale: str) -> tuple[Floats, int]:
    """Return scores on a linear scale, and how many were moved away from 0 or 1.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken; logits and raw scores
    stay as they are.
    """
    if scale != "probability":
        return score.astype(np.float64), 0
    logits, clipped = np.empty(score.size), np.zeros(score.size, np.uint8)
    clipped_logits(score, LEAST, logits, clipped)
    return logits, int(np.count_nonzero(clipped))


def need_both_classes(rows: HetcalRows) -> None:
    """Refuse rows of one class.

    Raises
    ------
    DataError
        Where no row, or every row, is positive.
    """
    if 0 < rows.positives < rows.count:
        return
    file, column = next(iter(rows.files), None), rows.options.label
    where, which = f"{file}: " if file else "", "no" if rows.positives == 0 else "every"
    raise DataError(
        f"{where}column {column!r}: {which} row is positive; a calibration "
        "map needs rows of both classes; name the positive class by --positive if labels are not 0/1",
        file=file,
        column=column,
        rows=rows.count,
    )
