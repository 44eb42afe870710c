"""Streams of random numbers, each addressed by a seed and two numbers."""

from __future__ import annotations

import numpy as np


def stream(seed: int, variable: int, block: int) -> np.random.Generator:
    """Return the random numbers of one variable in one block.

    The seed is the key of a counter-based generator; of its 256-bit counter the two upper words say
    which stream, and the two lower ones count.
    """
    return np.random.Generator(
        np.random.Philox(key=seed, counter=(block << 192) + (variable << 128))
    )
