"""Calibration by partitions that are given, row by row: one after the other, or side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.maps import part_lines, shrunk
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]


def lines_of(score: Floats, label: NDArray[np.uint8], leaf: Ends, leaves: int) -> Floats:
    """Return (a, b) of Platt's map of each leaf, smoothed targets; leaf x 2.

    A leaf without rows has the map of all rows.  Rows are summed in score order, ties as they come.

    Notes
    -----
    Durfee, Gupta, Basu, "Heterogeneous calibration", algorithm 1.
    """
    order = np.argsort(score, kind="stable")
    rows = score[order], label[order], np.ones(score.size)
    pooled = part_lines(*rows, np.zeros(score.size, np.int32), 1)[0, :2]
    return shrunk(part_lines(*rows, leaf[order], leaves), pooled, 0.0)


def fit_in_turn(
    score: Floats, label: NDArray[np.uint8], partitions: Sequence[Ends], leaves: Sequence[int]
) -> list[Floats]:
    """Return the maps of partitions in turn, each fitted on the linear score that the last one left.

    Notes
    -----
    Durfee, Gupta, Basu, "Heterogeneous calibration", section 13.
    """
    made = []
    for leaf, count in zip(partitions, leaves, strict=True):
        lines = lines_of(score, label, leaf, count)
        score = lines[leaf, 0] * score + lines[leaf, 1]
        made.append(lines)
    return made


def apply_in_turn(score: Floats, partitions: Sequence[Ends], maps: Sequence[Floats]) -> Floats:
    """Return the probabilities after the maps of partitions in turn."""
    for leaf, lines in zip(partitions, maps, strict=True):
        score = lines[leaf, 0] * score + lines[leaf, 1]
    return apply_beside(score, [np.zeros(score.size, np.int32)], [np.array([[1.0, 0.0]])])


def apply_beside(score: Floats, partitions: Sequence[Ends], maps: Sequence[Floats]) -> Floats:
    """Return the mean of the probabilities that the maps of each partition give."""
    total = np.zeros(score.size)
    for leaf, lines in zip(partitions, maps, strict=True):
        found = np.empty(score.size)
        kernels.leaf_probabilities(score, leaf, lines, found)
        total += found
    return total / len(partitions)
