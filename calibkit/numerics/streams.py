"""What chance decides: streams of random numbers, and what is drawn for each row.

A stream is addressed by a seed and two numbers.  What is drawn for a row is a function of the seed, a
purpose and the row's key: so it depends neither on the order of the rows nor on their files, and
equal rows, which have keys of their own (`calibkit.summaries.row_store`), are drawn for apart.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import hashes as kernels

Keys = NDArray[np.uint64]

#: What is drawn: numbers that stand for purposes.
FOLD, BOOTSTRAP, SUBSAMPLE = 1, 2, 3

_WORDS: Final = 2**64


def stream(seed: int, variable: int, block: int) -> np.random.Generator:
    """Return the random numbers of one variable in one block.

    The seed is the key of a counter-based generator; of its 256-bit counter the two upper words say
    which stream, and the two lower ones count.
    """
    return np.random.Generator(
        np.random.Philox(key=seed, counter=(block << 192) + (variable << 128))
    )


def salt_of(seed: int, purpose: int, number: int = 0) -> np.uint64:
    """Return what tells the draws of a seed, a purpose and a number (as of a tree) from others."""
    word = 0
    for part in (seed, purpose, number):
        word = int(kernels.mix(np.uint64((word + part) % _WORDS)))
        word = (word + 0x9E3779B97F4A7C15) % _WORDS
    return np.uint64(word)


def words_of_keys(key: Keys, seed: int, purpose: int, number: int = 0) -> Keys:
    """Return a random word of 64 bits for each row."""
    words = np.empty(key.size, np.uint64)
    kernels.keyed_words(key, salt_of(seed, purpose, number), words)
    return words


def folds_of_keys(key: Keys, folds: int, seed: int) -> NDArray[np.uint8]:
    """Return the fold of each row, from 0: each with the same probability (at most 256 folds)."""
    half = np.uint64(32)
    words = words_of_keys(key, seed, FOLD) >> half
    return (words * np.uint64(folds) >> half).astype(np.uint8)


def poisson_of_keys(key: Keys, seed: int, number: int) -> NDArray[np.uint8]:
    """Return how often each row is drawn for the bootstrap sample of a number (Poisson, mean 1)."""
    out = np.empty(key.size, np.uint8)
    kernels.keyed_counts(key, salt_of(seed, BOOTSTRAP, number), _poisson_steps(), out)
    return out


def _poisson_steps() -> Keys:
    """Return the words from which on there are 1, 2, ... events."""
    share = total = math.exp(-1.0)
    steps: list[int] = []
    while int(total * _WORDS) < _WORDS - 1 and len(steps) < 20:
        steps.append(int(total * _WORDS))
        share /= len(steps)
        total += share
    return np.array(steps, np.uint64)
