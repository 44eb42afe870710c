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


@kernel
def add_field(words: Words, column: Words, width: np.uint64, drop: np.uint64) -> None:
    """Append to each word the bits of a column without its last ones, `width` bits wide."""
    for i in range(words.size):
        words[i] = (words[i] << width) | (column[i] >> drop)


@kernel
def cut_fields(words: Words, widths: Words, drops: Words, room: Words, out: Words) -> None:
    """Write words of fields of some widths as words of other widths, the last bits cut off.

    Field f loses its last ``drops[f]`` bits and takes ``room[f]`` bits; the last field comes last.
    """
    one = np.uint64(1)
    for i in range(words.size):
        rest, found, shift = words[i], np.uint64(0), np.uint64(0)
        for f in range(widths.size - 1, -1, -1):
            mask = ((one << (widths[f] - one)) << one) - one
            found |= ((rest & mask) >> drops[f]) << shift
            rest = (rest >> (widths[f] - one)) >> one
            shift += room[f]
        out[i] = found
