"""How often each row is drawn for each tree of a forest: dealt by the row's hash, not by its place."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import digest

Words = NDArray[np.uint64]
Int64s = NDArray[np.int64]

#: No row is drawn more often: that would happen once in 2^64 times.
_MOST: Final = 20

#: Sets draws apart from the parts of cross-validation, which are dealt by the same hashes.
_SALT: Final = 0x9E3779B97F4A7C15


def _poisson() -> Words:
    """Return the probabilities of at most 0, 1, 2 ... events at a mean of 1, in units of 2^-64."""
    chances = [Fraction(1, factorial(k)) for k in range(3 * _MOST)]
    whole = sum(chances)  # e, to more digits than are needed
    return np.array([int((one / whole) * 2**64) for one in accumulate(chances[:_MOST])], np.uint64)


_AT_MOST: Final = _poisson()


def draws(hashes: Words, seed: int, tree: int) -> Int64s:
    """Return how often each row is drawn for a tree: Poisson of mean 1.

    A function of the row's hash, the seed and the tree alone, so that it does not matter where a
    row stands or who reads it; rows that are equal in everything share their draw.
    """
    mixed = hashes.copy()
    salt = digest.mix(np.uint64((int(digest.mix(np.uint64(seed))) + _SALT + tree) % 2**64))
    digest.absorb(mixed, np.zeros_like(mixed), np.uint64(salt))
    return np.searchsorted(_AT_MOST, mixed, "right")
