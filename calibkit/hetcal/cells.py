"""The check of all cells: whether probabilities are right in each leaf, at each height."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]

#: Equal bins of the probability.
BINS = 10


def cell_gaps(
    probability: Floats,
    label: NDArray[np.uint8],
    weight: Floats,
    leaf: NDArray[np.int32],
) -> tuple[float, float, int]:
    """Return how far mean probability and positive rate are apart, cell by cell.

    A cell is a leaf and one of ten equal bins of [0, 1]; empty ones are left out.

    Parameters
    ----------
    probability, label, weight, leaf
        Rows; leaves are numbered from 0.

    Returns
    -------
    largest, mean, cells
        The largest ``|mean probability - positive rate|``, the sum over the cells of their share of
        all weight times their gap, and how many cells there are.

    Notes
    -----
    Multicalibration: Hebert-Johnson, Kim, Reingold, Rothblum, "Multicalibration: calibration for the
    (computationally-identifiable) masses", section 2.
    """
    leaves = int(leaf.max()) + 1 if leaf.size else 0
    cells = np.zeros((leaves * BINS, 3))
    largest, mean, counted = kernels.cell_gaps(probability, label, weight, leaf, BINS, 0.0, cells)
    return float(largest), float(mean), int(counted)
