"""Slow, obvious twins of the kernels: by definition, by enumeration, in plain Python."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

# ---------------------------------------------------------------- boundaries on a grid


def naive_quantile_bins(fit: list[float], bins: int, values: list[float]) -> list[int]:
    """Return the quantile bin of each value; a bin is everything from its edge up."""
    ordered = sorted(fit)
    edges = [ordered[j * len(ordered) // bins] for j in range(1, bins)]
    return [sum(edge <= max(value, ordered[0]) for edge in edges) for value in values]


def naive_equi_weight_grid(
    score: list[float], uncertainty: list[float], label: list[int], levels: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return positives and totals of quantile score bins within quantile uncertainty levels."""
    positives, totals = np.zeros((2, levels, bins), np.int64)
    level = naive_quantile_bins(uncertainty, levels, uncertainty)
    for i in range(levels):
        rows = [row for row in range(len(score)) if level[row] == i]
        if rows:
            own = [score[row] for row in rows]
            for row, j in zip(rows, naive_quantile_bins(own, bins, own), strict=True):
                totals[i, j] += 1
                positives[i, j] += label[row]
    return positives, totals


def naive_boundaries(
    positives: np.ndarray, totals: np.ndarray
) -> list[tuple[tuple[int, ...], int, int]]:
    """Return every boundary on a grid with its true positives and selected rows."""
    levels, bins = totals.shape
    return [
        (
            take,
            sum(int(positives[i, bins - t :].sum()) for i, t in enumerate(take)),
            sum(int(totals[i, bins - t :].sum()) for i, t in enumerate(take)),
        )
        for take in itertools.product(range(bins + 1), repeat=levels)
    ]


def naive_is_mono(take: tuple[int, ...]) -> bool:
    """Return whether no level takes more bins than the one before."""
    return all(a >= b for a, b in itertools.pairwise(take))


def naive_is_staircase(take: tuple[int, ...]) -> bool:
    """Return whether some levels take one number of bins and all after them one no smaller."""
    return len(set(take)) <= 2 and list(take) == sorted(take)


def naive_best(
    boundaries: list[tuple[tuple[int, ...], int, int]], bounded: str, bound: Fraction, all_hits: int
) -> tuple[int, int, int]:
    """Return (true positives, rows, bins) of the canonical optimum; zeros where there is none."""
    best = [(0, 0, 0)]
    for take, hits, rows in boundaries:
        if rows == 0:
            continue
        if bounded == "precision" and Fraction(hits, rows) >= bound:
            best.append((hits, -rows, -sum(take)))
        if bounded == "recall" and all_hits and Fraction(hits, all_hits) >= bound:
            best.append((hits, -rows, -sum(take)))
    if bounded == "precision":
        hits, rows, bins = max(best)
    else:
        best = best[1:] or best
        hits, rows, bins = max(best, key=lambda b: (b[0] / Fraction(-b[1] or 1), *b))
    return (hits, -rows, -bins) if hits else (0, 0, 0)


def naive_most_positives_by_bins(
    boundaries: list[tuple[tuple[int, ...], int, int]],
) -> list[int]:
    """Return the largest number of true positives with 0, 1, 2 … bins."""
    best: dict[int, int] = {}
    for take, hits, _ in boundaries:
        best[sum(take)] = max(best.get(sum(take), 0), hits)
    return [best[m] for m in sorted(best)]


def naive_best_bins(
    best: list[int], rows: int, bounded: str, bound: Fraction, all_hits: int
) -> tuple[int, int]:
    """Return (true positives, bins) of EW-DPMT: as if every bin had the average number of rows."""
    size = Fraction(rows, len(best) - 1)
    feasible = [(0, 0)]
    for bins in range(1, len(best)):
        if bounded == "precision" and best[bins] >= bound * bins * size:
            feasible.append((best[bins], -bins))
        if bounded == "recall" and all_hits and best[bins] >= max(bound * all_hits, 1):
            feasible.append((best[bins], -bins))
    if bounded == "precision":
        hits, bins = max(feasible)
    else:
        hits, bins = max(feasible, key=lambda f: (f[0] / Fraction(-f[1] or 1), *f))
    return hits, -bins


def naive_pareto(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the (true positives, rows) that no other beats, by rising true positives."""
    return sorted(
        p for p in points if not any(q[0] >= p[0] and q[1] <= p[1] and q != p for q in points)
    )


def naive_precision_frontier(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points more precise than every point of larger or equal true positives."""
    selecting = {p for p in points if p[1] > 0 and p[0] > 0}

    def beats(q: tuple[int, int], p: tuple[int, int]) -> bool:
        return q != p and q[0] >= p[0] and Fraction(*q) >= Fraction(*p)

    return sorted(p for p in selecting if not any(beats(q, p) for q in selecting))


def naive_gains(
    gains: list[list[int]], costs: list[list[int]], *, mono: bool = False
) -> dict[int, int]:
    """Return the largest sum of gains for every sum of costs, one choice a level."""
    best: dict[int, int] = {}
    for choice in itertools.product(*(range(len(level)) for level in gains)):
        if mono and not naive_is_mono(choice):
            continue
        cost = sum(level[t] for level, t in zip(costs, choice, strict=True))
        gain = sum(level[t] for level, t in zip(gains, choice, strict=True))
        best[cost] = max(best.get(cost, gain), gain)
    return best
