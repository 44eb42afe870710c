"""Calibration maps, score by score, and Venn-Abers fits by fitting again with the row added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

TWINS = {
    "expit": "expit_of",
    "logits": "log_odds",
    "parts_of": "log_parts",
    "next_corners": "lower_hull_after",
    "is_convex": "lower_hull_after",
    "added_row_fits": "fits_with_a_row_added",
}

Values = Sequence[float]


def expit_of(z: float) -> float:
    """Return the probability of log-odds."""
    if abs(z) > 700:
        return float(z > 0) if z > 0 else math.exp(max(z, -745.2))
    return 1.0 / (1.0 + math.exp(-z))


def inside(p: float, least: float) -> float:
    """Return the nearest number that is `least` away from 0 and 1."""
    return sorted([least, p, 1.0 - least])[1]


def log_odds(score: Values, least: float) -> list[float]:
    """Return ln p - ln(1 - p)."""
    found = []
    for p in (inside(float(s), least) for s in score):
        ends = {0.0: -math.inf, 1.0: math.inf}
        found.append(ends[p] if p in ends else math.log(p) - math.log1p(-p))
    return found


def log_parts(score: Values, probability: bool, least: float) -> list[tuple[float, float]]:
    """Return ln s and -ln(1 - s)."""
    if probability:
        kept = [inside(float(s), least) for s in score]
        return [(math.log(p), -math.log1p(-p)) for p in kept]
    return [
        (-math.log1p(math.exp(-z)) if z > -700 else z, math.log1p(math.exp(z)) if z < 700 else z)
        for z in map(float, score)
    ]


def line_map(
    score: Values, a: float, b: float, probability: bool, least: float, clip: float
) -> list[float]:
    """Return expit(a x + b)."""
    x = log_odds(score, least) if probability else list(score)
    return [inside(expit_of(a * value + b if a else b), clip) for value in x]


def beta_map(
    score: Values, line: Values, probability: bool, least: float, clip: float
) -> list[float]:
    """Return expit(a ln s - b ln(1 - s) + c)."""
    a, b, c = line
    parts = log_parts(score, probability, least)
    return [inside(expit_of(a * low + b * high + c), clip) for low, high in parts]


def spline_map(
    score: Values,
    knots: Values,
    logits: Values,
    slopes: Values,
    probability: bool,
    least: float,
    clip: float,
) -> list[float]:
    """Return expit of a logit whose slope goes over in a line from each knot to the next."""
    found = []
    for x in log_odds(score, least) if probability else list(score):
        if x <= knots[0]:
            z = logits[0] + slopes[0] * (x - knots[0])
        elif x >= knots[-1]:
            z = logits[-1] + slopes[-1] * (x - knots[-1])
        else:
            j = max(place for place, knot in enumerate(knots) if knot <= x)
            share = (x - knots[j]) / (knots[j + 1] - knots[j])
            here = slopes[j] + share * (slopes[j + 1] - slopes[j])
            z = logits[j] + (x - knots[j]) * (slopes[j] + here) / 2
        found.append(inside(expit_of(z), clip))
    return found


def knots_reached(x: float, knots: Values, low: int, high: int) -> int:
    """Return `low`, and one more for each knot from there up to `high` that x reaches."""
    return low + sum(knot <= x for knot in knots[low:high])


def step_map(score: Values, knots: Values, values: Values, clip: float) -> list[float]:
    """Return the value after as many knots as are at or below the score."""
    return [inside(values[sum(knot <= s for knot in knots)], clip) for s in score]


def mass_outside(value: Values, count: Sequence[int], low: float, high: float) -> int:
    """Return the rows of values outside [low, high]."""
    return sum(n for v, n in zip(value, count, strict=True) if not low <= v <= high)


def isotonic_fit(
    count: Sequence[int | Fraction], positive: Sequence[int | Fraction]
) -> list[Fraction]:
    """Return the rising fit as the largest of smallest means (its max-min formula)."""

    def mean(first: int, last: int) -> Fraction:
        return Fraction(sum(positive[first:last]), sum(count[first:last]))

    size = len(count)
    return [
        max(min(mean(j, k) for k in range(i + 1, size + 1)) for j in range(i + 1))
        for i in range(size)
    ]


def fits_with_a_row_added(
    count: Sequence[int], positive: Sequence[int], weight: int, complement: bool
) -> list[float]:
    """Return the fit at each group after adding a positive row of a weight to it."""
    found = []
    for i in range(len(count)):
        more = [weight * (j == i) for j in range(len(count))]
        rows = [n + extra for n, extra in zip(count, more, strict=True)]
        hits = [n + extra for n, extra in zip(positive, more, strict=True)]
        fit = isotonic_fit(rows, hits)[i]
        found.append(float(1 - fit if complement else fit))
    return found


def lower_hull_after(rows: Sequence[int], hits: Sequence[int]) -> list[int]:
    """Return for each point the farthest later one at which the slope is least."""
    size = len(rows)
    found = []
    for i in range(size - 1):
        slopes = [Fraction(hits[j] - hits[i], rows[j] - rows[i]) for j in range(i + 1, size)]
        least = min(slopes)
        found.append(i + 1 + max(j for j, slope in enumerate(slopes) if slope == least))
    return [*found, size - 1]


def venn_abers(
    score: Values, label: Sequence[int], weight: Sequence[int | Fraction], new: float
) -> tuple[float, float]:
    """Return p0 and p1 of a new score: isotonic fits with it added under label 0 and 1."""
    found = []
    for assumed in (0, 1):
        rows = [*zip(score, label, weight, strict=True), (new, assumed, 1)]
        distinct = sorted({s for s, _, w in rows if w})
        count = [sum(w for s, _, w in rows if s == value) for value in distinct]
        hits = [sum(w * y for s, y, w in rows if s == value) for value in distinct]
        found.append(float(isotonic_fit(count, hits)[distinct.index(new)]))
    return found[0], found[1]
