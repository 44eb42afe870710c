"""Slow, obvious twins of the kernels of influence functions and of the bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

TWINS = {
    "delong_shares": "delong_by_pairs",
    "precision_steps": "precision_gains",
    "precision_shares": "precision_gains",
    "log_losses": "losses",
    "sum_of_squares": "squares",
    "draw_numbers": "poisson",
    "add_records": "resampled",
    "fill_cells": "cells",
    "gap_statistics": "gaps",
    "corp_statistics": "corp",
    "mean_folded_bias": "folded_bias",
}

Rows = list[tuple[float, int]]


def ahead(one: float, other: float) -> float:
    """Return 1 where one score is above another, half for equal ones."""
    return 1.0 if one > other else 0.5 * (one == other)


def placements(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each positive row is ahead of the negative ones, and these are behind."""
    good = [score for score, label in rows if label]
    bad = [score for score, label in rows if not label]
    pairs = np.array([[ahead(one, other) for other in bad] for one in good])
    return pairs.mean(axis=1), pairs.mean(axis=0)


def variance_of(of_good: np.ndarray, of_bad: np.ndarray) -> float:
    """Return the variance of the sum of the means of two independent samples."""
    return float(of_good.var(ddof=1) / of_good.size + of_bad.var(ddof=1) / of_bad.size)


def delong_by_pairs(rows: Rows) -> tuple[float, float]:
    """Return AUC and its DeLong variance from all pairs of a positive and a negative row."""
    parts = placements(rows)
    return float(parts[0].mean()), variance_of(*parts)


def paired_delong(one: Rows, two: Rows) -> float:
    """Return the DeLong variance of the difference of two AUCs of the same rows."""
    return variance_of(*(b - a for a, b in zip(placements(one), placements(two), strict=True)))


def precision_sum(rows: list[tuple[float, float, float]]) -> float:
    """Return the sum over positive rows of the precision at their score; rows have weights."""
    total = 0.0
    for score, label, weight in rows:
        above = [(y, w) for s, y, w in rows if s >= score]
        hits, all_ = sum(y * w for y, w in above), sum(w for _, w in above)
        total += weight * label * hits / all_ if all_ else 0.0
    return total


def precision_gains(rows: Rows, score: float, label: int) -> float:
    """Return by how much that sum grows with one more row, as the slope in the row's weight."""
    weighted = [(s, float(y), 1.0) for s, y in rows]
    step = 1e-6
    sums = [precision_sum([*weighted, (score, float(label), w)]) for w in (-step, step)]
    return (sums[1] - sums[0]) / (2 * step)


def losses(p: float) -> tuple[float, float]:
    """Return the logarithmic loss of a positive and of a negative row."""
    clipped = min(max(p, 1e-15), 1 - 1e-15)
    return -math.log(clipped), -math.log(1 - clipped)


def squares(values: list[float]) -> float:
    """Return the sum of squares of what rows contribute."""
    return math.fsum(value * value for value in values)


def poisson(mean: float, uniform: float) -> int:
    """Return the Poisson quantile of a uniform number."""
    number, chance = 0, math.exp(-mean)
    reached = chance
    while uniform >= reached:
        number += 1
        chance *= mean / number
        reached += chance
    return number


def resampled(
    records: Sequence[tuple[int, int, int, int]], times: list[float], size: int
) -> np.ndarray:
    """Return the table of records (cell, unit, positives, negatives), units taken several times."""
    table = np.zeros((size, 2))
    for cell, unit, plus, minus in records:
        table[cell] += [times[unit] * plus, times[unit] * minus]
    return table


def cells(counts: list[int], breaks: list[int], most: int) -> list[int]:
    """Return the entries after the last of each cell."""
    ends, rows = [], 0
    for i, count in enumerate(counts):
        rows += count
        if rows >= most or i + 1 in breaks or i + 1 == len(counts):
            ends.append(i + 1)
            rows = 0
    return ends


def folded_bias(mean: float, deviation: float) -> float:
    """Return E|X| - |E X| of a normal variable, by summing over a fine grid."""
    if deviation <= 0:
        return 0.0
    z = np.linspace(-9, 9, 20_001)
    density = np.exp(-0.5 * z * z)
    return float((np.abs(mean + deviation * z) * density).sum() / density.sum() - abs(mean))


def gaps(table: np.ndarray, score: np.ndarray, bins: np.ndarray, shares: np.ndarray) -> list[float]:
    """Return the calibration errors over bins, given the bin of each cell."""
    total = table.sum()
    if not total:
        return [math.nan] * 4
    absolute, largest, square, excess = 0.0, 0.0, 0.0, 0.0
    for own in set(bins.tolist()):
        inside, share = bins == own, shares[own]
        rows, hits = float(table[inside].sum()), float(table[inside, 0].sum())
        if not rows:
            continue
        mean = float((table[inside].sum(axis=1) * score[inside]).sum()) / rows
        gap, rate = hits / rows - mean, (hits + mean) / (rows + 1)
        noise = math.sqrt(max(0.0, rate * (1 - rate)) / (share * rows))
        absolute += rows * (abs(gap) - folded_bias(gap, noise))
        largest = max(largest, abs(gap))
        if share * rows > 1 + 1e-9:
            square += rows * (gap**2 - hits / rows * (1 - hits / rows) / (share * rows - 1))
            excess += 4 * (rows / total) ** 2 * noise**4
    return [absolute / total, largest, square / total, excess]


def isotonic(table: np.ndarray) -> list[float]:
    """Return the isotonic regression by falling score: the least over what is above of the largest
    mean rate from there through what is below (the min-max formula)."""
    size = len(table)

    def rate(first: int, last: int) -> float:
        part = table[first : last + 1]
        return float(part[:, 0].sum() / part.sum())

    return [min(max(rate(a, b) for b in range(i, size)) for a in range(i + 1)) for i in range(size)]


def corp(table: np.ndarray, score: np.ndarray) -> list[float]:
    """Return miscalibration, discrimination and the noise of pools."""
    held = table.sum(axis=1) > 0
    table, score = table[held], score[held]
    total = table.sum()
    if not total:
        return [math.nan] * 3
    fitted = np.array(isotonic(table))
    base = table[:, 0].sum() / total

    def brier(p: np.ndarray) -> float:
        return float((table[:, 0] * (1 - p) ** 2 + table[:, 1] * p**2).sum() / total)

    pools = np.unique(fitted.round(12))
    noise = float((pools * (1 - pools)).sum() / total)
    best = brier(fitted)
    return [brier(score) - best, brier(np.full(len(score), base)) - best, noise]


def recall_at(table: np.ndarray, precision: float) -> float:
    """Return the largest recall of a prefix with this precision."""
    hits, rows = np.cumsum(table[:, 0]), np.cumsum(table.sum(axis=1))
    if not len(table) or hits[-1] == 0:
        return math.nan
    good = [
        h for h, n, own in zip(hits, rows, table[:, 0], strict=True) if own and h >= precision * n
    ]
    return float(max(good, default=0.0) / hits[-1])


def precision_at(table: np.ndarray, recall: float) -> float:
    """Return the largest precision of a prefix with this recall."""
    hits, rows = np.cumsum(table[:, 0]), np.cumsum(table.sum(axis=1))
    if not len(table) or hits[-1] == 0:
        return math.nan
    return float(
        max(h / n for h, n in zip(hits, rows, strict=True) if n and h >= recall * hits[-1])
    )
