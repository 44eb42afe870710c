"""Targets of label histograms, and their exact sums by bin of the prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels.raters import UNITS_PER_ONE, add_bin_sums

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: How many equal bins of [0, 1] a calibration loss has.
BINS = 15

#: Numbers of a target matrix that are worked on at a time.
_BLOCK_CELLS = 2**18


@dataclass(frozen=True)
class Targets:
    """Predicted probabilities of events, beside the shares of raters for whom they happened.

    Attributes
    ----------
    prediction, label
        Rows x targets.
    excess
        By how much the square of `label` exceeds, on average, the square of what it estimates:
        label (1 - label) / (votes - 1); 0 where that is not known.
    """

    prediction: Floats
    label: Floats
    excess: Floats

    def rows(self, kept: NDArray[np.int64]) -> Targets:
        """Return some of the rows."""
        return Targets(self.prediction[kept], self.label[kept], self.excess[kept])

    def blocks(self) -> Iterator[Targets]:
        """Yield blocks of rows."""
        rows = max(1, _BLOCK_CELLS // max(1, self.prediction.shape[1]))
        for start in range(0, self.prediction.shape[0], rows):
            part = slice(start, start + rows)
            yield Targets(self.prediction[part], self.label[part], self.excess[part])


@dataclass(frozen=True)
class BinSums:
    """Exact sums of targets by bin; every attribute is targets x bins, of Python integers.

    The sums are in units of 2^-60.  Two of them add up to that of all rows.
    """

    rows: NDArray[np.object_]
    label: NDArray[np.object_]
    prediction: NDArray[np.object_]
    squared_label: NDArray[np.object_]
    squared_difference: NDArray[np.object_]
    excess: NDArray[np.object_]


#: One, in the units of the sums.
ONE = int(UNITS_PER_ONE)


def bin_edges(bins: int) -> Floats:
    """Return the lower edges of equal bins of [0, 1]."""
    return np.array([place / bins for place in range(bins)])


def bin_sums(targets: Targets, bins: int = BINS) -> BinSums:
    """Return the sums of targets in each bin of their predictions."""
    edges = bin_edges(bins)
    sums = np.zeros((targets.prediction.shape[1], bins, 11), np.int64)
    for block in targets.blocks():
        add_bin_sums(
            np.ascontiguousarray(block.prediction),
            np.ascontiguousarray(block.label),
            np.ascontiguousarray(block.excess),
            edges,
            sums,
        )
    wide = sums.astype(object)
    rows, limbs = wide[:, :, 0], wide[:, :, 1:]
    return BinSums(rows, *(limbs[:, :, 2 * q] * 2**32 + limbs[:, :, 2 * q + 1] for q in range(5)))


def class_targets(probabilities: Floats, counts: Counts) -> Targets:
    """Return the targets of order 1: the share of raters who chose each class."""
    votes = counts.sum(axis=1)
    label = counts / votes[:, None]
    excess = label * (1.0 - label) / np.maximum(votes - 1, 1)[:, None]
    excess[votes < 2] = 0.0
    return Targets(probabilities, label, excess)


def disagreement_shares(counts: Counts) -> Floats:
    """Return, for each row, the share of pairs of raters who differ: at all, then about each class.

    Rows need at least two votes.
    """
    votes = counts.sum(axis=1)
    pairs = (votes * (votes - 1)).astype(np.float64)
    agree = (counts * (counts - 1)).sum(axis=1)
    about = 2 * counts * (votes[:, None] - counts)
    return np.column_stack([1.0 - agree / pairs, about / pairs[:, None]])


def predicted_disagreement(probabilities: Floats, alpha0: Floats | None = None) -> Floats:
    """Return the probability that two raters differ: at all, then about each class.

    Parameters
    ----------
    probabilities
        Rows x classes.
    alpha0
        The strength of each row's Dirichlet distribution; None: raters draw from
        `probabilities` itself (an infinite strength).

    Notes
    -----
    Mimori et al., "Diagnostic uncertainty calibration", equations 49 and 50.
    """
    same = np.zeros(probabilities.shape[0])
    for place in range(probabilities.shape[1]):
        same += probabilities[:, place] * probabilities[:, place]
    phi = np.column_stack([1.0 - same, 2.0 * probabilities * (1.0 - probabilities)])
    if alpha0 is not None:
        phi *= np.where(np.isinf(alpha0), 1.0, alpha0 / (alpha0 + 1.0))[:, None]
    return np.clip(phi, 0.0, 1.0)


def disagreement_targets(phi: Floats, counts: Counts) -> Targets:
    """Return the targets of order 2: predictions beside the shares of pairs who differ."""
    return Targets(phi, disagreement_shares(counts), np.zeros_like(phi))
