"""Twins of the metrics, from rows written out: (score, label) pairs, weights as repeated rows.

Kernels that only pass over a tally share the twin of what they are for (`TWINS`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

Row = tuple[float, int]
Entry = tuple[float, int, int]  # score, rows, positive rows

TWINS = {
    "ranking_sums": "pairs_ranked_right",
    "range_sums": "totals",
    "loss_sums": "loss_sums_of_rows",
    "residual_moments": "moments",
    "cosine_sums": "cosines",
    "absolute_integral": "absolute_integral_of_line",
}


def written_out(rows: Sequence[tuple[float, int, int]]) -> list[Row]:
    """Return each row as often as its weight says."""
    return [(score, label) for score, label, weight in rows for _ in range(weight)]


def tally(rows: Sequence[Row]) -> list[Entry]:
    """Return the distinct scores, falling, with rows and positive rows."""
    count = Counter(score for score, _ in rows)
    positive = Counter(score for score, label in rows if label)
    return [(score, count[score], positive[score]) for score in sorted(count, reverse=True)]


def totals(rows: Sequence[Row]) -> tuple[int, int, float]:
    """Return rows, positive rows and the sum of scores."""
    return len(rows), sum(label for _, label in rows), math.fsum(score for score, _ in rows)


def pairs_ranked_right(rows: Sequence[Row]) -> int:
    """Return twice the (positive, negative) pairs in order, ties once."""
    good = [score for score, label in rows if label]
    bad = [score for score, label in rows if not label]
    return sum(2 * (g > b) + (g == b) for g in good for b in bad)


def auc(rows: Sequence[Row]) -> float | None:
    """Return the share of pairs ranked right."""
    count, good, _ = totals(rows)
    pairs = good * (count - good)
    return pairs_ranked_right(rows) / (2 * pairs) if pairs else None


def precision_integral(rows: Sequence[Row]) -> float:
    """Return the precision summed over positive rows, on the way through each group of ties."""
    total = above = 0
    found = 0.0
    for _, own, good in tally(rows):
        for place, weight in zip(*np.polynomial.legendre.leggauss(80), strict=True):
            share = (place + 1) / 2
            found += weight / 2 * good * (above + good * share) / (total + own * share)
        total, above = total + own, above + good
    return found


def average_precision(rows: Sequence[Row]) -> float | None:
    """Return the sum over thresholds of the gain in recall times precision."""
    _, good, _ = totals(rows)
    if not good:
        return None
    total, recall = Fraction(0), Fraction(0)
    for threshold in sorted({score for score, _ in rows}, reverse=True):
        taken = [label for score, label in rows if score >= threshold]
        reached = Fraction(sum(taken), good)
        total += (reached - recall) * Fraction(sum(taken), len(taken))
        recall = reached
    return float(total)


def most_hits_at_precision(entries: Sequence[Entry], a: int, q: int) -> int:
    """Return the most positives of a threshold with precision >= a / q."""
    rows = hits = best = 0
    for _, count, positive in entries:
        rows, hits = rows + count, hits + positive
        if Fraction(hits, rows) >= Fraction(a, q):
            best = max(best, hits)
    return best


def best_precision_at_recall(entries: Sequence[Entry], least: int) -> Fraction:
    """Return the best precision of a threshold with at least so many positives."""
    rows = hits = 0
    best = Fraction(0)
    for _, count, positive in entries:
        rows, hits = rows + count, hits + positive
        if hits >= least:
            best = max(best, Fraction(hits, rows))
    return best


def loss_sums_of_rows(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the sums of logarithmic loss and squared error."""
    clipped = [(min(max(score, 1e-15), 1 - 1e-15), label) for score, label in rows]
    return (
        math.fsum(-math.log(score if label else 1 - score) for score, label in clipped),
        math.fsum((score - label) ** 2 for score, label in rows),
    )


def inner_edges(rows: Sequence[Row], bins: int, strategy: str) -> list[float]:
    """Return the inner edges of bins."""
    scores = sorted(score for score, _ in rows)
    if strategy == "equal-mass":
        return [scores[j * len(scores) // bins] for j in range(1, bins)]
    low, high = (0.0, 1.0) if strategy == "equal-width" else (scores[0], scores[-1])
    return [low + ((high - low) * j) / bins for j in range(1, bins)]


def binned(rows: Sequence[Row], bins: int, strategy: str) -> list[list[Row]]:
    """Return the rows of each bin: a row's bin is how many edges are at or below its score."""
    edges = inner_edges(rows, bins, strategy)
    found: list[list[Row]] = [[] for _ in range(bins)]
    for score, label in rows:
        found[sum(edge <= score for edge in edges)].append((score, label))
    return found


def gaps(rows: Sequence[Row], bins: int, strategy: str) -> list[tuple[int, float]]:
    """Return rows, and mean label less mean score, of the bins that have rows."""
    found = []
    for own in binned(rows, bins, strategy):
        if own:
            count, good, mass = totals(own)
            found.append((count, (good - mass) / count))
    return found


def expected_calibration_error(rows: Sequence[Row], bins: int, strategy: str) -> float:
    """Return the mean absolute gap."""
    return sum(count * abs(gap) for count, gap in gaps(rows, bins, strategy)) / len(rows)


def maximum_calibration_error(rows: Sequence[Row], bins: int, strategy: str) -> float:
    """Return the largest absolute gap."""
    return max(abs(gap) for _, gap in gaps(rows, bins, strategy))


def debiased_calibration_error(rows: Sequence[Row], bins: int, strategy: str) -> float:
    """Return the root of the mean squared gap less its noise."""
    total = 0.0
    for own in binned(rows, bins, strategy):
        if len(own) > 1:
            count, good, mass = totals(own)
            rate = good / count
            total += (
                count / len(rows) * ((rate - mass / count) ** 2 - rate * (1 - rate) / (count - 1))
            )
    return math.sqrt(max(0.0, total))


def pool_rates(entries: Sequence[Entry]) -> list[tuple[int, int, int]]:
    """Return rows, positives and entries of the pools of isotonic regression, by falling score."""
    pools: list[tuple[int, int, int]] = [(count, positive, 1) for _, count, positive in entries]
    place = 0
    while place + 1 < len(pools):
        one, two = pools[place], pools[place + 1]
        if Fraction(one[1], one[0]) <= Fraction(two[1], two[0]):
            pools[place : place + 2] = [(one[0] + two[0], one[1] + two[1], one[2] + two[2])]
            place = max(0, place - 1)
        else:
            place += 1
    return pools


def corp(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Return miscalibration, discrimination and uncertainty of the Brier score."""
    count, good, _ = totals(rows)
    brier = math.fsum((score - label) ** 2 for score, label in rows) / count
    best = sum(
        (Fraction(hits * (held - hits), held) for held, hits, _ in pool_rates(tally(rows))),
        Fraction(0),
    )
    base = Fraction(good * (count - good), count * count)
    return brier - float(best / count), float(base - best / count), float(base)


def moments(rows: Sequence[Row], cells: int, order: int) -> list[float]:
    """Return a moment of the residuals about the middle of each cell, over the factorial."""
    found = [0.0] * cells
    for score, label in rows:
        cell = min(int(score * cells), cells - 1)
        offset = score - (cell + 0.5) / cells
        found[cell] += (label - score) * offset**order / math.factorial(order)
    return found


def cosines(rows: Sequence[Row], terms: int) -> list[float]:
    """Return the sums of residuals times cos(pi k score)."""
    return [
        math.fsum((label - score) * math.cos(math.pi * k * score) for score, label in rows)
        for k in range(terms)
    ]


def smoothed(rows: Sequence[Row], sigma: float, t: float) -> float:
    """Return the mean residual smoothed at t by a Gaussian with all its reflections."""
    total, reach = 0.0, math.ceil(5 * sigma) + 1
    for score, label in rows:
        for turn in range(-reach, reach + 1):
            for image in (2 * turn + score, 2 * turn - score):
                total += (label - score) * math.exp(-((t - image) ** 2) / (2 * sigma * sigma))
    return total / (sigma * math.sqrt(2 * math.pi)) / len(rows)


def smooth_error(rows: Sequence[Row], sigma: float, points: int = 2000) -> float:
    """Return the integral of the absolute smoothed residual, by the midpoint rule."""
    return sum(abs(smoothed(rows, sigma, (i + 0.5) / points)) for i in range(points)) / points


def absolute_integral_of_line(before: float, after: float) -> float:
    """Return the integral over [0, 1] of the absolute value of a straight line."""
    if before * after >= 0:
        return abs(before + after) / 2
    return (before * before + after * after) / (2 * abs(before - after))
