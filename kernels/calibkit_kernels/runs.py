"""Sorted words with counts: runs of equal words, and several such lists as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


@kernel
def merge_runs(words: Words, counts: Counts, size: int, more: Words, more_counts: Counts) -> int:
    """Merge sorted words into a strictly rising list with counts, in place; return its new size.

    The list stands in the first `size` places of `words` and `counts`, which have room for `more`
    behind it.  Words of `more` may repeat, and count once each where `more_counts` is empty.  `more`
    and its counts may stand in the first places themselves, if the list is empty.
    """
    i, j, place = size - 1, more.size - 1, size + more.size
    while j >= 0:  # from the end, so that nothing is overwritten that is still to be read
        word, count = more[j], np.int64(0)
        while j >= 0 and more[j] == word:
            count += more_counts[j] if more_counts.size > 0 else np.int64(1)
            j -= 1
        while i >= 0 and words[i] > word:
            place -= 1
            words[place] = words[i]
            counts[place] = counts[i]
            i -= 1
        if i >= 0 and words[i] == word:
            count += counts[i]
            i -= 1
        place -= 1
        words[place] = word
        counts[place] = count
    gap, end = place - (i + 1), size + more.size
    if gap > 0:  # as many places as words were equal
        for k in range(place, end):
            words[k - gap] = words[k]
            counts[k - gap] = counts[k]
    return end - gap


@kernel
def add_field(words: Words, column: Words, width: np.uint64, drop: np.uint64) -> None:
    """Append to each word the bits of a column without its last ones, `width` bits wide."""
    for i in range(words.size):
        words[i] = (words[i] << width) | (column[i] >> drop)


@kernel
def add_codes(
    words: Words, column: NDArray[np.uint8], codes: NDArray[np.uint8], width: np.uint64
) -> None:
    """Append to each word the code of a byte, `width` bits wide; `codes` has one for each byte."""
    for i in range(words.size):
        words[i] = (words[i] << width) | np.uint64(codes[column[i]])


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
def count_apart(
    words: Words, rest: np.uint64, last: Words, seen: NDArray[np.bool_], counts: Counts
) -> None:
    """Add to ``counts[b]`` the sorted words that b is the highest bit to tell from the one before.

    The word before is the last one with the same fields behind the first field, which take `rest`
    bits; bit 0 is the last one of the first field.  A word that has none before it adds to
    ``counts[64]``.  So many words stay different when d bits are cut: those of b >= d.  `last` and
    `seen`, all false, have an entry for each value of the fields behind.
    """
    one = np.uint64(1)
    mask = (one << rest) - one
    for i in range(words.size):
        place, own = words[i] & mask, words[i] >> rest
        differ = own ^ last[place]
        last[place] = own
        bit = np.uint64(0)
        for k in range(6):  # halves, without branches: which one is chance
            size = np.uint64(5 - k)
            step = np.uint64((differ >> (one << size)) != 0) << size
            differ >>= step
            bit += step
        if not seen[place]:
            seen[place] = True
            bit = np.uint64(64)
        counts[bit] += 1


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
