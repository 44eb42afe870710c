"""Hashes: a fingerprint of rows that does not depend on their order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]


@kernel
def mix(word: np.uint64) -> np.uint64:
    """Scramble a 64-bit word: a bijection that spreads every input bit (SplitMix64's finaliser)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def absorb(hashes: Words, words: Words, salt: np.uint64) -> None:
    """Fold one column's bit patterns into the running hash of each row."""
    for i in range(words.size):
        hashes[i] = mix(hashes[i] ^ mix(words[i] + salt))


@kernel
def total(hashes: Words) -> np.uint64:
    """Return the sum of the hashes modulo 2^64."""
    result = np.uint64(0)
    for i in range(hashes.size):
        result += hashes[i]
    return result
