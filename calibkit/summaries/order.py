"""The order of rows by falling score, and columns of few values: quick where rows were counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import sorting
from calibkit_kernels.tally import sum_few

Floats = NDArray[Any]
Int64s = NDArray[np.int64]

#: Values that are looked at before all of them are, and how many different ones are few.
_LOOK, _FEW = 1024, 64


def falling_keys(score: Floats) -> tuple[NDArray[np.uint64], np.uint64]:
    """Return keys that sort scores from high to low, less the smallest of them."""
    keys = np.empty(score.size, np.uint64)
    sorting.falling_keys(score.view(f"u{score.itemsize}"), keys)
    smallest = keys.min()
    keys -= smallest
    return keys, smallest


def falling_places(score: Floats, second: NDArray[Any], threads: int) -> NDArray[np.uint32]:
    """Return the places of rows by falling score, then by a rising second column of integers.

    Counted and stored rows have rising scores already: they are turned round.
    """
    places = np.empty(score.size, np.uint32)
    if sorting.turn_round(score, second, places):
        return places
    places[:] = np.arange(score.size)
    below = second.astype(np.uint64)
    _, places = sorting.sort_pairs(below, places, int(below.max()).bit_length(), threads)
    keys, _ = falling_keys(score)
    keys = keys[places]
    _, places = sorting.sort_pairs(keys, places, int(keys.max()).bit_length(), threads)
    return places


def few_values(values: Floats, units: Int64s) -> tuple[Floats, Int64s]:
    """Return the distinct values with the sums of their units if they are few, else all of them."""
    some = np.unique(values[:: max(1, values.size // _LOOK)])
    if values.size <= _LOOK or some.size > _FEW:
        return values, units
    sums = np.zeros(some.size, np.int64)
    return (some, sums) if sum_few(values, units, some, sums) else (values, units)


def unit_sums(place: NDArray[np.uint16], units: Int64s, size: int) -> Int64s:
    """Return the sums of integers by place, which are numbers from 0 up to a size."""
    if int(units.max()) * units.size < 2**53:  # floats count exactly so far
        return np.bincount(place, weights=units, minlength=size).astype(np.int64)
    return np.array([units[place == own].sum() for own in range(size)], np.int64)
