"""Forests: probabilities of rows under the maps of many trees, added up for all candidates at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .maps import expit_of

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]


@kernel
def add_probabilities(
    score: Floats,
    part: Ends,
    ends: Ends,
    above: Ends,
    lines: Floats,
    shrinkages: Floats,
    out: Floats,
) -> None:
    """Add the probability of each row under the map of its node at each depth, each shrinkage.

    Parameters
    ----------
    score, part, ends
        Rows; the lines that are theirs (-1: the row is left out), and the node that each ends in.
    above
        Depth x node: the node of the cut-off tree that rows of a node end in.
    lines
        Part x node x 4: a, b, rows and positives of Platt's maps, the first node's of all rows.
    shrinkages
        Lines are averaged with the first node's with weights rows and shrinkage.
    out
        Depth x shrinkage x row.
    """
    for i in range(score.size):
        if part[i] < 0:
            continue
        own = lines[part[i]]
        pooled = own[0, 0] * score[i] + own[0, 1]
        for d in range(above.shape[0]):
            line = own[above[d, ends[i]]]
            for r in range(shrinkages.size):
                z = pooled
                if line[2] > 0.0:
                    share = line[2] / (line[2] + shrinkages[r])
                    z += share * (line[0] * score[i] + line[1] - pooled)
                out[d, r, i] += expit_of(z)
