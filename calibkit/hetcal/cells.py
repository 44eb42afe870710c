"""The check of all cells: whether probabilities are right in each leaf, at each height."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]

#: Equal bins of the probability.
BINS = 10


@dataclass(frozen=True)
class Gaps:
    """The largest and the weighted mean gap, and how many cells there were."""

    largest: float
    mean: float
    cells: int


def cell_gaps(
    probability: Floats,
    label: NDArray[np.uint8],
    weight: Floats,
    leaf: NDArray[np.int32],
    *,
    bins: int = BINS,
    least: float = 0.0,
) -> Gaps:
    """Return how far mean probability and positive rate are apart, cell by cell.

    Parameters
    ----------
    probability, label, weight, leaf
        Rows; leaves are numbered from 0.
    bins
        Equal bins of [0, 1]; a cell is a leaf and a bin.
    least
        Cells of less weight are left out (empty ones always).

    Returns
    -------
    Gaps
        The largest ``|mean probability - positive rate|``, and the sum over the cells of their share
        of all weight times their gap.

    Notes
    -----
    Multicalibration: Hebert-Johnson, Kim, Reingold, Rothblum, "Multicalibration: calibration for the
    (computationally-identifiable) masses", section 2.
    """
    leaves = int(leaf.max()) + 1 if leaf.size else 0
    cells = np.zeros((leaves * bins, 3))
    largest, mean, counted = kernels.cell_gaps(probability, label, weight, leaf, bins, least, cells)
    return Gaps(float(largest), float(mean), int(counted))
