"""Radix sort of scores with a small tag (level, label) carried along; quantiles without sorting.

A float becomes an unsigned integer whose order is the *falling* order of the floats.  Key and tag
share one 64-bit word where they fit, which halves the memory traffic of sorting; otherwise keys and
tags travel in two arrays.  Words are dealt by their leading bits to buckets that fit the cache, and
sorted there least-significant byte first, over the bytes in which they differ.

The kernels work on slices; `sort_made` spreads them over threads.  Results do not depend on the
number of threads.

A float's *head* is the 16 leading bits of an integer that rises with it.  Counting heads tells in
which head each wanted rank falls; only the values with those heads need to be gathered and sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._jit import kernel
from .arrays import Bools, Int64s, Numbers, UInt8s, UInt16s, UInt32s, UInt64s

#: How many buckets there are: their write fronts stay in the first-level cache, which was measured
#: twice as fast as with 2048; and how many leading bits at most tell a word's bucket.
_BUCKETS, _LEADING_BITS = 256, 16
_BYTE = np.uint64(255)
#: Words that are made at a time, of which no more are one bucket; and buckets that a thread takes.
_BLOCK, _TOGETHER = 131_072, 16

#: Stands for tags where there are none.
NO_TAGS = np.empty(0, np.uint32)


@kernel
def falling_key(bits: np.uint64, sign: np.uint64) -> np.uint64:
    """Return the falling-order key of a float's bit pattern, or the bit pattern of such a key.

    `sign` is the sign bit.
    """
    return bits if bits & sign else ~bits & (sign - np.uint64(1))


@kernel
def falling_keys(bits: Numbers, out: UInt64s) -> None:
    """Write the falling-order keys of the bit patterns of floats; equal floats have equal keys."""
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    for i in range(bits.size):
        out[i] = falling_key(np.uint64(bits[i]), sign)


@kernel
def pack(
    keys: UInt64s, level: UInt16s, label: UInt8s, tag_bits: np.uint64, smallest: np.uint64
) -> None:
    """Replace each key by ``(key - smallest) << tag_bits | level << 1 | label``."""
    one = np.uint64(1)
    for i in range(keys.size):
        tag = np.uint64(level[i]) << one | np.uint64(label[i])
        keys[i] = ((keys[i] - smallest) << tag_bits) | tag


@kernel
def count_digits(words: UInt64s, shift: np.uint64, mask: np.uint64, counts: Int64s) -> None:
    """Add to `counts` how often each digit occurs."""
    for i in range(words.size):
        counts[(words[i] >> shift) & mask] += 1


@kernel
def scatter_pairs(
    words: UInt64s,
    tags: UInt32s,
    bucket: UInt8s,
    shift: np.uint64,
    mask: np.uint64,
    words_out: UInt64s,
    tags_out: UInt32s,
    places: Int64s,
) -> None:
    """Write each word, and its tag if there are tags, to the next place of its digit's bucket."""
    for i in range(words.size):
        own = bucket[(words[i] >> shift) & mask]
        place = places[own]
        words_out[place] = words[i]
        if tags.size:
            tags_out[place] = tags[i]
        places[own] = place + 1


@kernel
def sort_buckets(
    words: UInt64s, tags: UInt32s, edges: Int64s, spare: UInt64s, spare_tags: UInt32s
) -> None:
    """Sort the words of each bucket, which lie between two edges, and carry tags along, stably.

    The spare arrays are as long as the largest bucket, or as the tags.
    """
    places = np.empty(257, np.int64)
    for k in range(edges.size - 1):
        low, size = edges[k], edges[k + 1] - edges[k]
        source, source_tags, begin = words, tags, low
        target, target_tags, goal = spare, spare_tags, 0
        differ, moved = np.uint64(0), False
        for i in range(1, size):
            differ |= words[low + i] ^ words[low]
        for byte in range(8):
            shift = np.uint64(8 * byte)
            if not (differ >> shift) & _BYTE:
                continue
            for digit in range(257):
                places[digit] = 0
            for i in range(size):
                places[int((source[begin + i] >> shift) & _BYTE) + 1] += 1
            places[0] = goal
            for digit in range(256):
                places[digit + 1] += places[digit]
            for i in range(size):
                digit = (source[begin + i] >> shift) & _BYTE
                target[places[digit]] = source[begin + i]
                if tags.size:
                    target_tags[places[digit]] = source_tags[begin + i]
                places[digit] += 1
            source, target, begin, goal = target, source, goal, begin
            source_tags, target_tags, moved = target_tags, source_tags, not moved
        if moved:
            for i in range(size):
                words[low + i] = spare[i]
                if tags.size:
                    tags[low + i] = spare_tags[i]


def sort_pairs(
    words: UInt64s, tags: UInt32s, bits: int, threads: int = 1
) -> tuple[UInt64s, UInt32s]:
    """Return words sorted, and their tags carried along, stably."""
    given = (lambda own: (words[own], tags[own])), words.size
    return sort_made(*given, bits, threads, tagged=tags.size > 0)


def sort_made(
    made: Callable[[slice], tuple[UInt64s, UInt32s]],
    size: int,
    bits: int,
    threads: int = 1,
    *,
    tagged: bool = False,
) -> tuple[UInt64s, UInt32s]:
    """Return words of at most so many bits sorted, and their tags carried along, stably.

    `made` gives the words and tags of a stretch of them, which become scratch space.  It is asked twice
    for each, so that nobody holds them all in the order in which they come.
    """
    if size <= _BLOCK:
        words, tags = made(slice(0, size))
        _sort_group(words, tags, np.array([0, size]))
        return words, tags
    leading = min(bits, size.bit_length() - 4, _LEADING_BITS)
    shift, mask = np.uint64(bits - leading), np.uint64((1 << leading) - 1)
    words, tags = np.empty(size, np.uint64), np.empty(size if tagged else 0, np.uint32)

    def blocks(piece: slice) -> list[slice]:
        edges = [*range(piece.start, piece.stop, _BLOCK), piece.stop]
        return [slice(*ends) for ends in itertools.pairwise(edges)]

    def count(piece: slice) -> Int64s:
        counts = np.zeros(1 << leading, np.int64)
        for own in blocks(piece):
            count_digits(made(own)[0], shift, mask, counts)
        return counts

    def deal(piece: slice, places: Int64s) -> None:
        for own in blocks(piece):
            scatter_pairs(*made(own), bucket, shift, mask, words, tags, places)

    pieces = pieces_of(size, threads)
    with ThreadPoolExecutor(len(pieces)) as pool:
        # A thread takes longer to start than a few words to be sorted.
        each: Any = pool.map if len(pieces) > 1 else map
        counts = np.array(list(each(count, pieces)))
        # Buckets of about one size, of whole digits: by the words before each digit.
        total = counts.sum(axis=0)
        before = (np.cumsum(total) - total) * _BUCKETS // size
        bucket = np.minimum(before, _BUCKETS - 1).astype(np.uint8)
        sizes = np.array([np.bincount(bucket, own, _BUCKETS) for own in counts]).astype(np.int64)
        # Places in order of bucket, then of piece: what makes the sort stable.
        ends = np.cumsum(sizes.T.ravel()).reshape(_BUCKETS, -1).T
        list(each(deal, pieces, ends - sizes))
        edges = np.append(0, ends[-1])
        groups = (edges[low : low + _TOGETHER + 1] for low in range(0, _BUCKETS, _TOGETHER))
        list(each(lambda own: _sort_group(words, tags, own), groups))
    return words, tags


def _sort_group(words: UInt64s, tags: UInt32s, edges: Int64s) -> None:
    """Sort the words of some buckets, and carry tags along."""
    largest = int(np.diff(edges).max())
    spare_tags = np.empty(largest if tags.size else 0, np.uint32)
    sort_buckets(words, tags, edges, np.empty(largest, np.uint64), spare_tags)


def pieces_of(size: int, threads: int) -> list[slice]:
    """Cut an array into one slice a thread; small arrays are not worth a second thread."""
    count = max(1, min(threads, size // 65_536))
    edges = [size * piece // count for piece in range(count + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]


#: How many heads there are.
HEADS = 65_536
_SIGN = HEADS // 2


@kernel
def head(bits: np.uint64, shift: np.uint64) -> int:
    """Return the leading bits, those from `shift` on, of the rising integer of a float."""
    return HEADS - 1 - int(falling_key(bits >> shift, np.uint64(_SIGN)))


@kernel
def count_heads(bits: Numbers, weight: Int64s, counts: Int64s) -> None:
    """Add to `counts` what the floats with each head weigh: 1 each where no weights are given."""
    shift = np.uint64(8 * bits.itemsize - 16)
    for i in range(bits.size):
        counts[head(np.uint64(bits[i]), shift)] += weight[i] if weight.size else 1


@kernel
def gather_heads(
    bits: Numbers, weight: Int64s, wanted: Bools, out: Numbers, weight_out: Int64s
) -> int:
    """Write the floats whose heads are wanted, and their weights if there are; return how many.

    Floats that weigh 0 are left out.
    """
    shift, size = np.uint64(8 * bits.itemsize - 16), 0
    for i in range(bits.size):
        if wanted[head(np.uint64(bits[i]), shift)]:
            if weight.size:
                if weight[i] == 0:
                    continue
                weight_out[size] = weight[i]
            out[size] = bits[i]
            size += 1
    return size


@kernel
def quantile_places(
    count: Numbers, level: UInt16s, totals: Int64s, falling: bool, out: Int64s
) -> None:
    """Write where the quantile bins of each level begin, shape (levels, bins); -1 without rows.

    Bin j begins at the first value, from below, whose cumulative count exceeds ``j total // bins``.
    `count` is how often each value occurs; they rise, or fall where `falling` says so.  `level` says
    which level each belongs to (empty: there is one), `totals` are the counts of the levels.
    """
    levels, bins = out.shape
    out[:] = -1
    below, reached = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    wanted = np.zeros(levels, np.int64)  # rows below the next bin
    for step in range(count.size):
        i = count.size - 1 - step if falling else step
        own = level[i] if level.size else 0
        below[own] += count[i]
        while reached[own] < bins and below[own] > wanted[own]:
            out[own, reached[own]] = i
            reached[own] += 1
            # j total // bins, with the product split to stay below 2^63
            j, whole, rest = reached[own], totals[own] // bins, totals[own] % bins
            wanted[own] = j * whole + (j * rest) // bins
