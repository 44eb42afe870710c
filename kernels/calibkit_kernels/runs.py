"""Sorted words with counts: runs of equal words, and several such lists as one."""

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
def mark_bytes(values: NDArray[np.uint8], seen: NDArray[np.bool_]) -> None:
    """Mark the values that occur; `seen` has a place for each of 256."""
    for i in range(values.size):
        seen[values[i]] = True


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


@kernel
def add_words(one: Words, one_counts: Counts, rows: Words, words: Words, counts: Counts) -> int:
    """Merge a strictly rising list with counts and sorted words that count once each; return its size.

    `words` and `counts` have room for both.
    """
    i, j, size = 0, 0, 0
    while i < one.size and j < rows.size:
        if one[i] < rows[j]:
            words[size] = one[i]
            counts[size] = one_counts[i]
            i += 1
        else:
            word, count = rows[j], np.int64(0)
            while j < rows.size and rows[j] == word:
                count += 1
                j += 1
            if one[i] == word:
                count += one_counts[i]
                i += 1
            words[size] = word
            counts[size] = count
        size += 1
    while i < one.size:
        words[size] = one[i]
        counts[size] = one_counts[i]
        i += 1
        size += 1
    while j < rows.size:
        word, count = rows[j], np.int64(0)
        while j < rows.size and rows[j] == word:
            count += 1
            j += 1
        words[size] = word
        counts[size] = count
        size += 1
    return size


@kernel
def count_cells(words: Words, rest: np.uint64, drop: np.uint64, last: Counts) -> int:
    """Return how many words are left of sorted ones when the last bits of their first field are cut.

    The fields behind the first one take `rest` bits and stay.  `last` has an entry for each of their
    values, below 0 to begin with.
    """
    mask = (np.uint64(1) << rest) - np.uint64(1)
    cell, size = np.int64(-1), 0
    first = np.uint64(0)
    for i in range(words.size):
        own = words[i] >> rest >> drop
        if i == 0 or own != first:
            cell += 1
            first = own
        place = words[i] & mask
        if last[place] != cell:
            last[place] = cell
            size += 1
    return size


@kernel
def cut_cells(
    words: Words, counts: Counts, rest: np.uint64, drop: np.uint64, slot: Counts, sums: Counts
) -> int:
    """Cut the last bits of the first field of sorted words with counts, in place.

    Words that become equal are gathered; they stay sorted.  `slot` (below 0 to begin with) and `sums`
    have an entry for each value of the fields behind the first one, which take `rest` bits.  Returns
    how many words are left.
    """
    mask = (np.uint64(1) << rest) - np.uint64(1)
    size, start = 0, 0
    first = np.uint64(0)
    for i in range(words.size):
        own = words[i] >> rest >> drop
        if i == 0 or own != first:
            if size - start == 2 and words[start] > words[start + 1]:  # most cells have one or two
                words[start], words[start + 1] = words[start + 1], words[start]
                counts[start], counts[start + 1] = counts[start + 1], counts[start]
            elif size - start > 2:
                _sort_cell(words, counts, start, size, mask, slot, sums)
            start, first = size, own
        place, count = words[i] & mask, counts[i]
        if slot[place] >= start:
            counts[slot[place]] += count
        else:
            slot[place] = size
            words[size] = own << rest | place
            counts[size] = count
            size += 1
    _sort_cell(words, counts, start, size, mask, slot, sums)
    return size


@kernel
def _sort_cell(
    words: Words, counts: Counts, start: int, end: int, mask: np.uint64, slot: Counts, sums: Counts
) -> None:
    """Sort the words of a cell, all different: by insertion, or all values of their rest in turn."""
    size = end - start
    if size * size <= 4 * slot.size:
        for i in range(start + 1, end):
            word, count = words[i], counts[i]
            j = i
            while j > start and words[j - 1] > word:
                words[j], counts[j] = words[j - 1], counts[j - 1]
                j -= 1
            words[j], counts[j] = word, count
        return
    first = words[start] & ~mask
    for i in range(start, end):
        sums[words[i] & mask] = counts[i]
    place = start
    for value in range(slot.size):
        if slot[value] >= start:
            words[place] = first | np.uint64(value)
            counts[place] = sums[value]
            place += 1


@kernel
def _row_below(rows: Words, i: int, j: int) -> bool:
    """Tell whether row i comes before row j: the first column that differs decides."""
    for column in range(rows.shape[0]):
        if rows[column, i] != rows[column, j]:
            return bool(rows[column, i] < rows[column, j])
    return False


@kernel
def rows_rise(rows: Words, start: int, end: int) -> bool:
    """Tell whether some rows, each column of which is a line, never fall."""
    rises = True
    for i in range(start + 1, end):
        rises = rises and not _row_below(rows, i, i - 1)
    return rises


@kernel
def merge_rows(rows: Words, starts: Counts, ends: Counts, order: NDArray[np.uint32]) -> None:
    """Write the order in which rows rise that do so from each start to its end.

    Each column is a line.  Equal rows keep the order of their stretches; `starts` become the ends.
    """
    for place in range(order.size):
        best = -1
        for part in range(starts.size):
            if starts[part] < ends[part] and (
                best < 0 or _row_below(rows, starts[part], starts[best])
            ):
                best = part
        order[place] = starts[best]
        starts[best] += 1
