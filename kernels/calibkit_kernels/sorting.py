"""Radix sort of scores with a small tag (uncertainty level, label) carried along.

A float becomes an unsigned integer whose order is the *falling* order of the floats.  Key and tag
share one 64-bit word where they fit, which halves the memory traffic of sorting; otherwise keys and
tags travel in two arrays.  Sorting is least-significant digit first, over the bits that differ.

The kernels work on slices; `sort_words` and `sort_pairs` spread them over threads.  Results do not
depend on the number of threads.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]
Tags = NDArray[np.uint32]
Counts = NDArray[np.int64]

# Eight bits keep the 256 write fronts in the first-level cache: measured twice as fast as eleven.
_DIGIT_BITS = 8


@kernel
def falling_keys(bits: NDArray[Any], out: Words) -> None:
    """Write the falling-order keys of the bit patterns of floats; equal floats have equal keys."""
    sign = np.uint64(1) << np.uint64(8 * bits.itemsize - 1)
    for i in range(bits.size):
        b = np.uint64(bits[i])
        out[i] = b if b & sign else ~b & (sign - np.uint64(1))


@kernel
def pack(
    keys: Words,
    level: NDArray[np.uint16],
    label: NDArray[np.uint8],
    tag_bits: np.uint64,
) -> None:
    """Replace each key by ``key << tag_bits | level << 1 | label``."""
    one = np.uint64(1)
    for i in range(keys.size):
        tag = np.uint64(level[i]) << one | np.uint64(label[i])
        keys[i] = (keys[i] << tag_bits) | tag


@kernel
def turn_round(score: NDArray[Any], second: NDArray[Any], places: Tags) -> bool:
    """Write the places of rows by falling score, then by rising second column, if the scores rise.

    Tells whether they do; `places` stays as it is if not.
    """
    for i in range(1, score.size):
        if score[i] < score[i - 1]:
            return False
    end, size = score.size, 0
    for i in range(score.size - 1, -1, -1):
        if i == 0 or score[i - 1] != score[i]:
            rises = True
            for row in range(i + 1, end):
                rises = rises and second[row - 1] <= second[row]
            if rises:
                for row in range(i, end):
                    places[size] = row
                    size += 1
            else:
                for place in np.argsort(second[i:end], kind="mergesort"):
                    places[size] = i + place
                    size += 1
            end = i
    return True


@kernel
def count_digits(words: Words, shift: np.uint64, mask: np.uint64, counts: Counts) -> None:
    """Add to `counts` how often each digit occurs."""
    for i in range(words.size):
        counts[(words[i] >> shift) & mask] += 1


@kernel
def scatter_pairs(
    words: Words,
    tags: Tags,
    words_out: Words,
    tags_out: Tags,
    shift: np.uint64,
    mask: np.uint64,
    places: Counts,
) -> None:
    """Write each word, and its tag if there are tags, to the next place of the word's digit."""
    for i in range(words.size):
        digit = (words[i] >> shift) & mask
        place = places[digit]
        words_out[place] = words[i]
        if tags.size:
            tags_out[place] = tags[i]
        places[digit] += 1


def sort_words(words: Words, bits: int, threads: int = 1) -> Words:
    """Sort 64-bit words of which only the lowest `bits` differ; `words` becomes scratch space."""
    return sort_pairs(words, np.empty(0, np.uint32), bits, threads)[0]


def sort_pairs(words: Words, tags: Tags, bits: int, threads: int = 1) -> tuple[Words, Tags]:
    """Sort words and carry tags along, stably; both arrays become scratch space."""
    if bits == 0:
        return words, tags
    passes = -(-bits // _DIGIT_BITS)
    digit_bits = -(-bits // passes)
    mask = np.uint64((1 << digit_bits) - 1)
    pieces = _pieces(words.size, threads)
    arrays, scratch = (words, tags), (np.empty_like(words), np.empty_like(tags))
    with ThreadPoolExecutor(len(pieces)) as pool:
        for step in range(passes):
            shift = np.uint64(step * digit_bits)
            counts = np.zeros((len(pieces), 1 << digit_bits), np.int64)
            inputs = [(arrays[0][piece], arrays[1][piece]) for piece in pieces]
            shared = [(shift, mask, row) for row in counts]
            list(pool.map(lambda given, more: count_digits(given[0], *more), inputs, shared))
            # Places in order of digit, then of piece: what makes the sort stable.
            ends = np.cumsum(counts.T.ravel()).reshape(counts.shape[1], -1).T
            places = [(*scratch, shift, mask, row) for row in ends - counts]
            list(pool.map(lambda given, more: scatter_pairs(*given, *more), inputs, places))
            arrays, scratch = scratch, arrays
    return arrays


def _pieces(size: int, threads: int) -> list[slice]:
    """Cut an array into one slice a thread; small arrays are not worth a second thread."""
    count = max(1, min(threads, size // 65_536))
    edges = [size * piece // count for piece in range(count + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]
