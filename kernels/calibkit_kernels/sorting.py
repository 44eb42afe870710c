"""Radix sort of scores with a small tag (level, label) carried along; quantiles without sorting.

A float becomes an unsigned integer whose order is the *falling* order of the floats.  Key and tag
share one 64-bit word where they fit, which halves the memory traffic of sorting; otherwise keys and
tags travel in two arrays.  Sorting is least-significant digit first, over the bits that differ.

The kernels work on slices; `sort_pairs` spreads them over threads.  Results do not
depend on the number of threads.

A float's *head* is the 16 leading bits of an integer that rises with it.  Counting heads tells in
which head each wanted rank falls; only the values with those heads need to be gathered and sorted.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._jit import kernel
from .arrays import Bools, Int64s, Numbers, UInt8s, UInt16s, UInt32s, UInt64s

# Eight bits keep the 256 write fronts in the first-level cache: measured twice as fast as eleven.
_DIGIT_BITS = 8

#: Stands for tags where there are none.
NO_TAGS = np.empty(0, np.uint32)


@kernel
def falling_key(bits: np.uint64, sign: np.uint64) -> np.uint64:
    """Return the falling-order key of a float's bit pattern, or the bit pattern of such a key.

    `sign` is the sign bit.
    """
    return bits if bits & sign else ~bits & (sign - np.uint64(1))


@kernel
def falling_keys(bits: Numbers, out: UInt64s) -> tuple[np.uint64, np.uint64]:
    """Write the falling-order keys of the bit patterns of floats; equal floats have equal keys.

    Returned are the least and the greatest key, 2^64 - 1 and 0 where there is none.
    """
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    least, greatest = ~np.uint64(0), np.uint64(0)
    for i in range(bits.size):
        key = falling_key(np.uint64(bits[i]), sign)
        least, greatest = min(least, key), max(greatest, key)
        out[i] = key
    return least, greatest


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
    words_out: UInt64s,
    tags_out: UInt32s,
    shift: np.uint64,
    mask: np.uint64,
    places: Int64s,
) -> None:
    """Write each word, and its tag if there are tags, to the next place of the word's digit."""
    for i in range(words.size):
        digit = (words[i] >> shift) & mask
        place = places[digit]
        words_out[place] = words[i]
        if tags.size:
            tags_out[place] = tags[i]
        places[digit] += 1


def sort_pairs(
    words: UInt64s, tags: UInt32s, bits: int, threads: int = 1
) -> tuple[UInt64s, UInt32s]:
    """Sort words and carry tags along, stably; both arrays become scratch space."""
    if bits == 0:
        return words, tags
    passes = -(-bits // _DIGIT_BITS)
    digit_bits = -(-bits // passes)
    mask = np.uint64((1 << digit_bits) - 1)
    pieces = pieces_of(words.size, threads)
    arrays, scratch = (words, tags), (np.empty_like(words), np.empty_like(tags))
    with ThreadPoolExecutor(len(pieces)) as pool:
        # A thread takes longer to start than a few words to be sorted.
        each: Any = pool.map if len(pieces) > 1 else map
        for step in range(passes):
            shift = np.uint64(step * digit_bits)
            counts = np.zeros((len(pieces), 1 << digit_bits), np.int64)
            inputs = [(arrays[0][piece], arrays[1][piece]) for piece in pieces]
            shared = [(shift, mask, row) for row in counts]
            list(each(lambda given, more: count_digits(given[0], *more), inputs, shared))
            # Places in order of digit, then of piece: what makes the sort stable.
            ends = np.cumsum(counts.T.ravel()).reshape(counts.shape[1], -1).T
            places = [(*scratch, shift, mask, row) for row in ends - counts]
            list(each(lambda given, more: scatter_pairs(*given, *more), inputs, places))
            arrays, scratch = scratch, arrays
    return arrays


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
