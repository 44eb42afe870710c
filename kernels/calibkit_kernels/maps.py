"""One-dimensional calibration maps applied to scores, and how far these lie beyond thresholds."""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Numbers, UInt16s

#: Probabilities are moved this far inside (0, 1) where a fit takes their logit.
LEAST = 1e-6


@kernel
def logit(p: float) -> float:
    """Return ``log(p / (1 - p))`` for p in [0, 1]; -inf and inf at the ends."""
    if p <= 0.0:
        return -math.inf
    if p >= 1.0:
        return math.inf
    return math.log(p / (1.0 - p))


@kernel
def expit_of(z: float) -> float:
    """Return ``1 / (1 + exp(-z))``, also of infinite z."""
    small = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else small) / (1.0 + small)


@kernel
def inside(p: float, least: float) -> float:
    """Return a probability moved to at least `least` from 0 and from 1."""
    return min(max(p, least), 1.0 - least)


@kernel
def log_odds(score: Numbers, out: Floats) -> None:
    """Write the logit of each probability, moved `LEAST` inside (0, 1) first."""
    for i in range(score.size):
        out[i] = logit(inside(np.float64(score[i]), LEAST))


@kernel
def parts_of(score: float, probability: bool) -> tuple[float, float]:
    """Return ln s and -ln(1 - s) of a probability, moved `LEAST` inside (0, 1), or of a logit."""
    if probability:
        p = inside(score, LEAST)
        return math.log(p), -math.log(1.0 - p)
    rest = math.log(1.0 + math.exp(-abs(score)))
    return min(score, 0.0) - rest, max(score, 0.0) + rest


@kernel
def log_parts(score: Numbers, probability: bool, low: Floats, high: Floats) -> None:
    """Write ln s to `low` and -ln(1 - s) to `high`, of probabilities or of their logits.

    Probabilities are moved `LEAST` inside (0, 1) first; logits are taken as they are.
    """
    for i in range(score.size):
        low[i], high[i] = parts_of(np.float64(score[i]), probability)


@kernel
def line_map(
    score: Numbers, a: float, b: float, probability: bool, least: float, clip: float, out: Floats
) -> None:
    """Write ``expit(a x + b)``, moved `clip` inside (0, 1).

    x is the score itself, or the logit of a probability moved `least` inside (0, 1) first.
    """
    for i in range(score.size):
        x: float = np.float64(score[i])
        if probability:
            x = logit(inside(x, least))
        out[i] = inside(expit_of(b if a == 0.0 else a * x + b), clip)


@kernel
def beta_map(score: Numbers, line: Floats, probability: bool, clip: float, out: Floats) -> None:
    """Write ``expit(a ln s - b ln(1 - s) + c)``, moved `clip` inside (0, 1).

    `line` is a, b, c; scores are probabilities, moved `LEAST` inside (0, 1) first, or logits of s.
    """
    a, b, c = line[0], line[1], line[2]
    for i in range(score.size):
        low, high = parts_of(np.float64(score[i]), probability)
        out[i] = inside(expit_of(a * low + b * high + c), clip)


@kernel
def spline_map(
    score: Numbers, knots: Floats, pieces: Floats, probability: bool, clip: float, out: Floats
) -> None:
    """Write ``expit(level + d (slope + bend d))``, moved `clip` inside (0, 1).

    d is how far x is from the knot of its piece, x the score itself or the logit of a probability
    moved `LEAST` inside (0, 1); there is a piece below all `knots` and one from each of them on.
    `pieces` are their knots, levels, slopes and bends.
    """
    for i in range(score.size):
        x: float = np.float64(score[i])
        if probability:
            x = logit(inside(x, LEAST))
        piece = 0
        while piece < knots.size and x >= knots[piece]:  # of so few by halves takes longer
            piece += 1
        away, slope = x - pieces[0, piece], pieces[2, piece]
        if pieces[3, piece] != 0.0:
            slope += pieces[3, piece] * away
        level = pieces[1, piece]
        out[i] = inside(expit_of(level if slope == 0.0 else slope * away + level), clip)


@kernel
def knots_reached(x: float, knots: Numbers, low: int, high: int) -> int:
    """Return the number of the first rising knot above x, from `low` on; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if knots[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def mass_outside(value: Numbers, count: Numbers, low: float, high: float) -> int:
    """Return how many rows have a value below `low` or above `high`."""
    rows = np.int64(0)
    for i in range(value.size):
        if value[i] < low or value[i] > high:
            rows += np.int64(count[i])
    return int(rows)


@kernel
def margins(score: Numbers, level: UInt16s, thresholds: Floats, probability: bool) -> Floats:
    """Return score minus the threshold of its level, as a difference of logits for probabilities.

    Equal values give 0.  NaN where the threshold is NaN (never) or -inf (always).
    """
    out = np.empty(score.size, np.float64)
    for i in range(score.size):
        s, t = np.float64(score[i]), thresholds[level[i]]
        if math.isnan(t) or t == -math.inf:
            out[i] = math.nan
        elif s == t:
            out[i] = 0.0
        elif probability:
            out[i] = logit(s) - logit(t)
            if out[i] == 0.0:  # neighbours whose logits round to one number: keep the sign
                out[i] = (s - t) / (t * (1.0 - t))
        else:
            out[i] = s - t
    return out
