"""Hashes of rows, and all that chance decides: random words that are functions of keys.

Hashes add up to a fingerprint of rows that does not depend on their order.  What is drawn for a row is
a function of its key, whatever rows stand beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

#: An odd constant: how the draws of one key differ.
_DRAW_STEP = np.uint64(0x9E3779B97F4A7C15)


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
def uniform(key: np.uint64, draw: int | np.int64) -> float:
    """Return the uniform number in [0, 1) of a key and a draw's index."""
    word = mix(key + np.uint64(draw) * _DRAW_STEP)
    return float(word >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def number_rows(hashes: Words) -> None:
    """Turn sorted runs of equal hashes into keys: a hash mixed with the row's number in its run."""
    before, number = np.uint64(0), 0
    for i in range(hashes.size):
        own = hashes[i]
        number = number + 1 if i > 0 and own == before else 0
        before = own
        hashes[i] = mix(own + mix(np.uint64(number)))


@kernel
def keyed_folds(keys: Words, salt: np.uint64, folds: int, out: Bytes) -> None:
    """Write a number from 0 to `folds` - 1 for each key, all equally likely.

    `salt` says what the numbers are for.
    """
    for i in range(keys.size):
        out[i] = ((mix(keys[i] ^ salt) >> np.uint64(32)) * np.uint64(folds)) >> np.uint64(32)


@kernel
def keyed_counts(keys: Words, salt: np.uint64, steps: Words, out: Bytes) -> None:
    """Write for each key how many of the rising `steps` its random word reaches."""
    for i in range(keys.size):
        word, count = mix(keys[i] ^ salt), 0
        while count < steps.size and word >= steps[count]:
            count += 1
        out[i] = count
