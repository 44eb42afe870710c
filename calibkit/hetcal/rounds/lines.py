"""Platt's maps of many nodes at once, a Newton step a round.

The search is that of `calibkit_kernels.leaf_maps.newton_line`, its sums counted in whole units of
about 2^-61 of what they can come to: every row adds the same whatever came before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.rounds.known import Line
from calibkit.hetcal.rounds.tables import keys_of, values_of
from calibkit_kernels import rounds as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Largest slope of the mean loss, in standardised scores, that counts as a minimum.
_FLAT: Final = 1e-10
#: A loss may seem to rise by so much of itself: its terms were rounded.
_ROUNDING: Final = 1e-11
_SHORTEST: Final = 1e-9

#: Bits of a sum in units.
_ALL_BITS: Final = 61

#: How many rows there are, and how many positive ones; a weighted row counts as many.
Counts = tuple[float, float]


def line_from(slope: float, intercept: float, low: float, high: float) -> Line:
    """Return a search that begins at a line; scores lie in between `low` and `high`."""
    return Line(slope, intercept, low, high, 0.5 * low + 0.5 * high, _inverse(0.5 * (high - low)))


def _inverse(width: float) -> float:
    return 1.0 / width if width > 0.0 and math.isfinite(1.0 / width) else 1.0


def targets(rows: float, hits: float) -> tuple[float, float]:
    """Return Platt's targets of positives and negatives."""
    return (hits + 1.0) / (hits + 2.0), 1.0 / (rows - hits + 2.0)


def tried(line: Line) -> tuple[float, float]:
    """Return the slope and intercept that the next round looks at."""
    return line.slope + line.length * line.step[0], line.intercept + line.length * line.step[1]


def worth(bound: float, rows: float) -> float:
    """Return how many units one is, where `rows` numbers up to a bound are to be added."""
    bits = math.frexp(max(bound, 1.0))[1] + math.frexp(rows)[1]
    return math.ldexp(1.0, _ALL_BITS - bits)


def line_array(lines: Sequence[Line], counts: Sequence[Counts]) -> Floats:
    """Return lines as `calibkit_kernels.rounds.sum_lines` takes them; `counts`: of each."""
    found = np.empty((len(lines), kernels.LINE_WIDTH))
    for row, line, (rows, hits) in zip(found, lines, counts, strict=True):
        slope, intercept = tried(line)
        a, c = slope / line.scale, intercept + slope * line.shift
        most = max(abs(line.low - line.shift), abs(line.high - line.shift)) * line.scale + 1e-9
        bounds = (
            abs(a) * most + abs(c) + 1.0, most, 1.0, most * most, most, 1.0, most, most * most,
        )  # fmt: skip
        row[: kernels.UNITS] = a, c, line.shift, line.scale, *targets(rows, hits)
        row[kernels.UNITS :] = [worth(bound, rows) for bound in bounds]
    return found


class LineSums:
    """Sums of lines over blocks of rows."""

    def __init__(self, lines: Floats) -> None:
        self.lines = lines
        self.sums = np.zeros((len(lines), kernels.SUMS), np.int64)
        self.ranges = np.tile([np.inf, -np.inf], (len(lines), 1))

    def lows(self) -> Int64s:
        """Return the least score of each line as a number of which the greatest counts."""
        return keys_of(-self.ranges[:, 0])

    def highs(self) -> Int64s:
        """Return the greatest score of each line."""
        return keys_of(self.ranges[:, 1].copy())


def moved(line: Line, counts: Counts, asked: Floats, sums: Int64s, low: int, high: int) -> Line:
    """Return where a search goes on.

    Parameters
    ----------
    line, counts
        The search so far, the rows and positives it is about.
    asked
        Its row of `line_array`.
    sums, low, high
        What the round found, as integers.
    """
    rows, hits = counts
    least, most = (-float(values_of(np.array([low]))[0]), float(values_of(np.array([high]))[0]))
    if not least < most:
        # One score: no slope, as in memory.
        above, below = targets(rows, hits)
        rate = hits * above + (rows - hits) * below
        return Line(0.0, math.log(rate / (rows - rate)), least, least, least, 1.0, done=True)
    loss, g, h, aa, ac, cc, first, second = (sums / asked[kernels.UNITS :]).tolist()
    if line.loss is not None and not loss <= line.loss * (1.0 + _ROUNDING):
        length = 0.5 * line.length
        done = length < _SHORTEST
        return replace(line, length=0.0 if done else length, done=done)
    slope, intercept = tried(line)
    here = Line(slope, intercept, least, most, line.shift, line.scale, loss=loss)
    ridge = 1e-13 * (aa + cc) + 1e-300
    aa, cc = aa + ridge, cc + ridge
    determinant = aa * cc - ac * ac
    if determinant <= 0.0:
        return replace(here, done=True)
    step_a, step_c = -(cc * g - ac * h) / determinant, -(aa * h - ac * g) / determinant
    step_slope = step_a * line.scale
    step = step_slope, step_c - step_slope * line.shift
    if max(abs(g), abs(h)) <= _FLAT * rows:  # the step that is known already gains the last digits
        return Line(
            slope + step[0], intercept + step[1], least, most, line.shift, line.scale, done=True
        )
    mean = first / rows
    width = math.sqrt(max(second / rows - mean * mean, 0.0)) / line.scale
    if width > 0.0:
        here.shift, here.scale = line.shift + mean / line.scale, _inverse(width)
    return replace(here, step=step, length=1.0)
