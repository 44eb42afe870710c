"""Sorted words with counts: runs of equal words, and two such lists as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


@kernel
def gather_runs(words: Words, counts: Counts) -> int:
    """Gather equal neighbours in place, their counts added; return how many words are left."""
    size = 0
    for i in range(words.size):
        if size > 0 and words[size - 1] == words[i]:
            counts[size - 1] += counts[i]
        else:
            words[size] = words[i]
            counts[size] = counts[i]
            size += 1
    return size


@kernel
def count_runs(words: Words, counts: Counts) -> int:
    """Gather equal neighbours in place, each counted once; return how many words are left."""
    size = 0
    for i in range(words.size):
        if size > 0 and words[size - 1] == words[i]:
            counts[size - 1] += 1
        else:
            words[size] = words[i]
            counts[size] = 1
            size += 1
    return size


@kernel
def merge_runs(
    one: Words, one_counts: Counts, two: Words, two_counts: Counts, words: Words, counts: Counts
) -> int:
    """Merge two strictly rising lists of words into a third; return how long it is.

    `words` and `counts` have room for both.
    """
    i, j, size = 0, 0, 0
    while i < one.size or j < two.size:
        first = j == two.size or (i < one.size and one[i] <= two[j])
        second = i == one.size or (j < two.size and two[j] <= one[i])
        words[size] = one[i] if first else two[j]
        counts[size] = 0
        if first:
            counts[size] += one_counts[i]
            i += 1
        if second:
            counts[size] += two_counts[j]
            j += 1
        size += 1
    return size
