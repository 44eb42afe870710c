"""Whether a calibration by parts is right in each part: cells of a leaf and a tenth of probability."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.model import CellGap
from calibkit.numerics.distributions import interval
from calibkit_kernels import leaves as kernels

Floats = NDArray[np.float64]

#: Equal bins of the probability in which it is checked.
BINS: Final = 10
#: With which probability no cell of a calibrated model has a gap beyond chance.
CONFIDENCE: Final = 0.95


def cell_gaps(
    probability: Floats, label: NDArray[np.uint8], weight: Floats, leaf: NDArray[np.int32]
) -> tuple[float, float, int, Floats]:
    """Return how far mean probability and positive rate are apart, cell by cell.

    A cell is a leaf and one of ten equal bins of [0, 1]; empty ones are left out.  Returned are the
    largest ``|mean probability - positive rate|``, the mean weighted as the cells, their number, and
    of all cells the sums of weights, positive weights, weighted probabilities and squared weights.
    Hebert-Johnson, Kim, Reingold, Rothblum, "Multicalibration: calibration for the
    (computationally-identifiable) masses", section 2.
    """
    leaves = int(leaf.max()) + 1 if leaf.size else 0
    sums = np.zeros((leaves * BINS, 4))
    largest, mean, cells = kernels.cell_gaps(probability, label, weight, leaf, BINS, sums)
    return float(largest), float(mean), int(cells), sums


def gap_beyond_chance(sums: Floats, *, sampled: bool = False) -> CellGap | None:
    """Return the cell with the largest gap that chance does not explain; None where there is none.

    Chance explains a mean probability within the exact interval (Clopper and Pearson) of the positive
    rate; all intervals hold together with probability 0.95, by Bonferroni's bound.  What is beyond is
    the distance from the interval.

    `sums`: see `cell_gaps`. `sampled`: whether a row stands for as many as it weighs: a cell then
    counts as many rows as would have the same variance.
    """
    places = np.flatnonzero(sums[:, 0] > 0.0)
    own, hits, mass, squares = sums[places].T
    rate, mean = hits / own, mass / own
    rows = np.rint(own * own / squares if sampled else own).astype(np.int64)
    positives = np.rint(rate * rows).astype(np.int64)
    low, high = interval(positives, rows, 1.0 - (1.0 - CONFIDENCE) / max(places.size, 1))
    beyond = np.maximum(low - mean, mean - high)
    if not (beyond > 0.0).any():
        return None
    worst = int(np.argmax(beyond))
    leaf, tenth = divmod(int(places[worst]), BINS)
    return CellGap(
        beyond=float(beyond[worst]),
        leaf=leaf,
        probability_from=tenth / BINS,
        probability_to=(tenth + 1) / BINS,
        rows=int(own[worst]) if own[worst].is_integer() else float(own[worst]),
        positive_rate=float(rate[worst]),
        mean_probability=float(mean[worst]),
    )
