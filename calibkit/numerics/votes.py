"""Losses of predictions of what several raters say, plugin and debiased, from exact sums by bin.

T. Mimori, K. Sasada, H. Matsui, I. Sato, "Diagnostic uncertainty calibration: towards reliable
machine predictions in medical domain", sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import fsum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from calibkit.arrays import Floats, Int64s, Numbers, blocks
from calibkit_kernels.classes import UNITS_PER_ONE, add_bin_sums

#: How many equal bins of [0, 1] a calibration loss has.
BINS = 15

#: Numbers of a target matrix that are worked on at a time.
_BLOCK_CELLS = 2**18


class Targets(Struct, frozen=True):
    """Predicted probabilities of events, beside the shares of raters for whom they happened."""

    #: `prediction, label`: rows x targets.
    prediction: Floats
    label: Floats
    #: By how much the square of `label` exceeds, on average, the square of what it estimates: label
    #: (1 - label) / (votes - 1); 0 where that is not known.
    excess: Floats

    def rows(self, kept: Int64s | slice) -> Targets:
        """Return some of the rows."""
        return Targets(self.prediction[kept], self.label[kept], self.excess[kept])

    def columns(self, first: int, last: int | None) -> Targets:
        """Return some of the targets."""
        parts = (self.prediction, self.label, self.excess)
        return Targets(*(np.ascontiguousarray(part[:, first:last]) for part in parts))

    def blocks(self) -> Iterator[Targets]:
        """Return blocks of rows, one after the other."""
        return map(self.rows, _blocks(self.prediction))


def _blocks(matrix: Numbers) -> Iterator[slice]:
    """Yield rows of a matrix that stay in the cache while they are worked on."""
    return blocks(matrix.shape[0], max(1, _BLOCK_CELLS // max(1, matrix.shape[1])))


class BinSums(Struct, frozen=True):
    """Exact sums of targets by bin; every attribute is targets x bins, of Python integers.

    The sums are in units of 2^-60.
    """

    rows: NDArray[np.object_]
    label: NDArray[np.object_]
    prediction: NDArray[np.object_]
    squared_label: NDArray[np.object_]
    squared_difference: NDArray[np.object_]
    excess: NDArray[np.object_]


#: One, in the units of the sums.
ONE = int(UNITS_PER_ONE)


#: The lower edges of the bins.
EDGES: Final = np.array([place / BINS for place in range(BINS)])


def bin_sums(targets: Targets) -> BinSums:
    """Return the sums of targets in each bin of their predictions."""
    return added_bin_sums(targets.blocks(), targets.prediction.shape[1])


def added_bin_sums(blocks: Iterable[Targets], targets: int) -> BinSums:
    """Return the sums of so many targets over blocks of rows."""
    sums = np.zeros((targets, BINS, 11), np.int64)
    for block in blocks:
        whole = block.columns(0, None)
        add_bin_sums(whole.prediction, whole.label, whole.excess, EDGES, sums)
    wide = sums.astype(object)
    rows, limbs = wide[:, :, 0], wide[:, :, 1:]
    return BinSums(rows, *(limbs[:, :, 2 * q] * 2**32 + limbs[:, :, 2 * q + 1] for q in range(5)))


def class_targets(probabilities: Floats, counts: Int64s) -> Targets:
    """Return the targets of order 1: the share of raters who chose each class."""
    votes = counts.sum(axis=1)[:, None]
    label = counts / votes
    excess = label * (1.0 - label) / np.maximum(votes - 1, 1)
    return Targets(probabilities, label, np.where(votes < 2, 0.0, excess))


def disagreement_shares(counts: Int64s) -> Floats:
    """Return, for each row, the share of pairs of raters who differ: at all, then about each class.

    Rows need at least two votes.
    """
    shares = np.empty((counts.shape[0], counts.shape[1] + 1))
    for part in _blocks(counts):
        own, out = counts[part], shares[part]
        votes = own.sum(axis=1)
        pairs = (votes * (votes - 1)).astype(np.float64)
        out[:, 0] = 1.0 - (own * (own - 1)).sum(axis=1) / pairs
        out[:, 1:] = 2 * own * (votes[:, None] - own) / pairs[:, None]
    return shares


def predicted_disagreement(probabilities: Floats, alpha0: Floats | None = None) -> Floats:
    """Return the probability that two raters differ: at all, then about each class.

    `probabilities` are rows x classes, `alpha0` the strength of each row's Dirichlet distribution;
    None: raters draw from `probabilities` itself (an infinite strength).  Mimori et al., "Diagnostic
    uncertainty calibration", equations 49 and 50.
    """
    phi = np.empty((probabilities.shape[0], probabilities.shape[1] + 1))
    for part in _blocks(probabilities):
        own, out = probabilities[part], phi[part]
        out[:, 0] = 1.0 - np.cumsum(own * own, axis=1)[:, -1]
        out[:, 1:] = 2.0 * own * (1.0 - own)
        if alpha0 is not None:
            strength = alpha0[part]
            out *= np.where(np.isinf(strength), 1.0, strength / (strength + 1.0))[:, None]
        np.clip(out, 0.0, 1.0, out=out)
    return phi


def disagreement_targets(phi: Floats, counts: Int64s) -> Targets:
    """Return the targets of order 2: predictions beside the shares of pairs who differ."""
    return Targets(phi, disagreement_shares(counts), np.zeros_like(phi))


class Losses(Struct, frozen=True):
    """The losses of each target, one number a target; sums over classes are sums over targets.

    What is left of the epistemic loss without that of calibration is the dispersion loss.
    """

    #: Mean squared difference of prediction and a single rater's say; unbiased.
    squared: Floats
    #: Mean squared difference of prediction and what raters say on average: unbiased (it may be
    #: negative), and with the observed share in its place.
    epistemic: Floats
    epistemic_plugin: Floats
    #: The part of it that bins of equal prediction show: debiased for the scatter of the bins' mean
    #: labels (a bin with one row counts 0), and not.
    calibration: Floats
    calibration_plugin: Floats
    gaps: Floats  # targets x bins: mean label minus mean prediction, 0 in empty bins


def losses(sums: BinSums) -> Losses:
    """Return the losses that sums by bin stand for.

    Bins of equal width; see `bin_sums`.  Sums are exact, so the result is
    a function of the set of rows.
    """

    def floats(numbers: NDArray[np.object_]) -> Floats:
        return numbers.astype(np.float64)

    rows, label, squares = sums.rows, sums.label, sums.squared_label
    total, held = rows.sum(axis=1), np.maximum(rows, 1)
    apart, scale = sums.squared_difference.sum(axis=1), total * ONE
    share = floats(rows / total[:, None])
    gaps = floats((label - sums.prediction) / (held * ONE))
    plugin = share * (gaps * gaps)
    # The variance from exact sums: nothing cancels, whatever the mean.
    variance = floats((rows * squares * ONE - label * label) / (held * held * ONE * ONE))
    noise = share * variance / floats(np.maximum(rows - 1, 1))
    debiased = np.where(rows > 1, plugin - noise, 0.0)
    return Losses(
        squared=floats((apart + (label - squares).sum(axis=1)) / scale),
        epistemic=floats((apart - sums.excess.sum(axis=1)) / scale),
        epistemic_plugin=floats(apart / scale),
        calibration=np.array([fsum(bins) for bins in debiased]),
        calibration_plugin=np.array([fsum(bins) for bins in plugin]),
        gaps=gaps,
    )
